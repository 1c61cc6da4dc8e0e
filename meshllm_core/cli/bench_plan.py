"""`meshllm bench plan`: how long the planner takes for a large mesh, on clusters drawn from a seed."""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meshllm_core.bench.machine import machine_facts
from meshllm_core.bench.raw import open_raw
from meshllm_core.bench.render import facts_line
from meshllm_core.bench.stats import Summary, summarize
from meshllm_core.cli import bench_options as opt
from meshllm_core.cli.output import clean, emit, emit_json, paint, table
from meshllm_core.errors import ExitCode

if TYPE_CHECKING:
    from meshllm_core.planner.model import SplitModel
    from meshllm_core.planner.network import Network

WEIGHTS = 132 * 10**9
ROOMS = (300, 100, 60, 30, 20, 12)
"""GB of a machine in the middle: from one that holds the model alone to so little that a dozen must share."""

Clusters = Annotated[
    int, typer.Option("--clusters", help="Clusters drawn for each size of machine.", min=1, max=1000)
]
Machines = Annotated[int, typer.Option("--nodes", help="Machines of a cluster.", min=2, max=256)]
Layers = Annotated[int, typer.Option("--layers", help="Layers of the model.", min=2, max=1000)]
Runs = Annotated[
    int, typer.Option("--runs", help="Times each is planned; the shortest counts.", min=1, max=100)
]
Seed = Annotated[int, typer.Option("--seed", help="Of the clusters.", min=0)]
Bound = Annotated[float, typer.Option("--bound", help="Milliseconds that no plan may exceed.", min=0.001)]


@dataclass(frozen=True)
class Row:
    """All clusters with machines of one size, with or without known latencies. Milliseconds."""

    room_gb: int
    latency_known: bool
    times: Summary
    stages: tuple[int, ...]
    """Different numbers of stages that were chosen; 0: it was refused."""


def plan(
    clusters: Clusters = 4,
    nodes: Machines = 30,
    layers: Layers = 120,
    runs: Runs = 3,
    seed: Seed = 1,
    bound: Bound = 50.0,
    raw: opt.Raw = None,
    as_json: opt.AsJson = False,
) -> None:
    """Measure how long it takes to plan a model over a large mesh. Needs no mesh and no model.

    Exit code 7 when a plan takes longer than the bound.
    """
    facts = machine_facts()
    rows = _measured(clusters, nodes, layers, runs, seed, raw)
    worst = max(row.times.highest for row in rows)
    middle = summarize(row.times.median for row in rows)
    assert middle is not None
    good = worst <= bound
    if as_json:
        emit_json(
            {
                "machine": facts,
                "nodes": nodes,
                "layers": layers,
                "rows": [
                    {
                        "room_gb": row.room_gb,
                        "latency_known": row.latency_known,
                        "ms": row.times.as_json(),
                        "stages": row.stages,
                    }
                    for row in rows
                ],
                "median_ms": round(middle.median, 3),
                "worst_ms": round(worst, 3),
                "bound_ms": bound,
                "good": good,
            }
        )
    else:
        emit(clean(f"{facts_line(facts)}\n{nodes} nodes, {layers} layers\n\n{_table(rows)}\n"))
        verdict = paint(f"worst {worst:.1f} ms", "good" if good else "bad")
        emit(f"median {middle.median:.1f} ms, {verdict}, bound {bound:g} ms")
    if not good:
        raise typer.Exit(ExitCode.CHECK)


def _measured(clusters: int, nodes: int, layers: int, runs: int, seed: int, raw: Path | None) -> list[Row]:
    from meshllm_core.planner.plan import plan as best_plan
    from meshllm_core.planner.request import PlanRequest
    from meshllm_core.planner.result import Plan

    model = _model(layers)
    with open_raw(raw) as log:
        log.conditions({"machine": machine_facts(), "nodes": nodes, "layers": layers, "seed": seed})
        rows = []
        for room, known in ((room, known) for room in ROOMS for known in (True, False)):
            times, chosen = [], set()
            for number, network in enumerate(_clusters(clusters, nodes, room, seed)):
                request = PlanRequest(model, network if known else replace(network, links={}))
                took = []
                for _ in range(runs):
                    began = time.perf_counter()
                    answer = best_plan(request)
                    took.append((time.perf_counter() - began) * 1000)
                stages = len(answer.chosen.stages) if isinstance(answer, Plan) else 0
                log.line(
                    "plan",
                    {
                        "room_gb": room,
                        "latency_known": known,
                        "cluster": number,
                        "stages": stages,
                        "ms": [round(each, 3) for each in took],
                    },
                )
                # Longer runs waited for other programs: the planner itself always does the same work.
                times.append(min(took))
                chosen.add(stages)
            summary = summarize(times)
            assert summary is not None
            rows.append(Row(room, known, summary, tuple(sorted(chosen))))
    return rows


def _clusters(count: int, nodes: int, room: int, seed: int) -> Iterator["Network"]:
    """Unequal machines with unequal links."""
    from meshllm_core.planner.network import Link, Network, PlanNode

    draw = random.Random(f"{seed} {room}")
    names = [f"n{number}" for number in range(nodes)]
    for _ in range(count):
        machines = tuple(
            PlanNode(
                name, int(draw.uniform(0.5, 1.5) * room * 1e9), bytes_per_second=draw.uniform(50e9, 900e9)
            )
            for name in names
        )
        yield Network(machines, {pair: Link(draw.uniform(1, 80)) for pair in combinations(names, 2)})


def _model(layers: int) -> "SplitModel":
    from meshllm_core.planner.describe import described

    wanted = {
        "name": "benchmark",
        "layers": layers,
        "bytes": WEIGHTS,
        "width": 4096,
        "heads": 64,
        "kv_heads": 4,
        "head_dim": 128,
        "vocabulary": 151_936,
        "context": 40_960,
    }
    return described(wanted, "the benchmark's model")[0]


def _table(rows: list[Row]) -> str:
    shown = [
        (
            f"{row.room_gb} GB",
            "known" if row.latency_known else "not known",
            "–".join(str(count) for count in sorted({row.stages[0], row.stages[-1]})),
            f"{row.times.median:.1f}",
            f"{row.times.highest:.1f}",
        )
        for row in rows
    ]
    return table(("a machine", "latencies", "stages", "median ms", "worst ms"), shown, right=(0, 2, 3, 4))
