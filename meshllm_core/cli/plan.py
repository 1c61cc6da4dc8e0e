"""`meshllm plan`: where a model would run, how fast, and why; without a mesh, a network or a download."""

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.options import AsJson
from meshllm_core.cli.output import clean, emit, emit_json
from meshllm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshllm_core.planner.real_model import PlannedModel
    from meshllm_core.planner.request import PlanRequest
    from meshllm_core.planner.result import Candidate, Plan
    from meshllm_core.planner.wire import Wire

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A .gguf path, a downloaded model's name, default, a .json description, or any name together "
        "with --layers and --bytes. `tables` prints the arithmetic instead.",
    ),
]
Nodes = Annotated[
    Path | None,
    typer.Option(
        "--nodes",
        metavar="FILE",
        help="TOML or JSON: [[nodes]] with name, memory and layer (ms) or memory_bandwidth; [[links]] with "
        "between, rtt, bandwidth; rtt for all others; driver. Without it: this machine alone.",
    ),
]
WhatIf = Annotated[
    list[str] | None,
    typer.Option(
        "--what-if",
        metavar="CHANGE,…",
        help="Suppose hop=10ms (one way), hop:A:B=10ms, memory:A=24GB, layer:A=2ms, without=A, "
        "verdict:f16=exact.",
    ),
]
ContextSize = Annotated[
    int, typer.Option("--ctx-size", metavar="N", min=0, max=4_194_304, help="Tokens per lane; 0 chooses.")
]
Lanes = Annotated[
    int, typer.Option("--lanes", metavar="N", min=0, max=64, help="Requests at the same time; 0 chooses.")
]
Target = Annotated[
    str, typer.Option("--target", metavar="TIME", help="Time per output token to aim at; without: 33.3 ms.")
]
Layers = Annotated[int | None, typer.Option("--layers", metavar="N", help="Layers of a described model.")]
Size = Annotated[str, typer.Option("--bytes", metavar="SIZE", help="Its weights, such as 132GB.")]
Shape = Annotated[
    str,
    typer.Option(
        "--shape",
        metavar="KEY=VALUE,…",
        help="More of it: width, heads, kv_heads, head_dim, vocabulary, context, active_bytes, …",
    ),
]
WireDtype = Annotated[
    str,
    typer.Option("--wire-dtype", metavar="FORMAT", help="auto, f32, f16, bf16, q8 or q8x between stages."),
]
Force = Annotated[bool, typer.Option("--force-dtype", help="Use that format although it is not certified.")]
Lock = Annotated[
    Path | None,
    typer.Option(
        "--split-topology-lock", metavar="FILE", help="Use exactly this topology; it must match and fit."
    ),
]
WriteLock = Annotated[
    Path | None, typer.Option("--write-lock", metavar="FILE", help="Write the topology that was chosen.")
]
Running = Annotated[
    Path | None,
    typer.Option(
        "--running", metavar="FILE", help="A topology that runs: say whether the plan would replace it."
    ),
]


def plan(
    model: Model,
    nodes: Nodes = None,
    what_if: WhatIf = None,
    ctx_size: ContextSize = 0,
    lanes: Lanes = 0,
    target: Target = "",
    layers: Layers = None,
    size: Size = "",
    shape: Shape = "",
    wire_dtype: WireDtype = "auto",
    force: Force = False,
    lock: Lock = None,
    write_lock: WriteLock = None,
    running: Running = None,
    as_json: AsJson = False,
) -> None:
    """Say where a model would run and how fast: on one machine or split, with every reason. Needs no mesh."""
    from meshllm_core.cli.plan_text import document, refused, render
    from meshllm_core.planner.lock import honour, read_lock
    from meshllm_core.planner.plan import plan as best_plan
    from meshllm_core.planner.quantities import milliseconds
    from meshllm_core.planner.replan import replan
    from meshllm_core.planner.result import Refusal

    if model == "tables":
        _tables(as_json)
        return
    planned = _model(model, layers, size, shape)
    request = _request(planned, nodes, what_if or [], wire_dtype, force)
    request = replace(request, context=ctx_size, lanes=lanes)
    if target:
        request = replace(request, target_ms=milliseconds(target, "--target"))
    if lock is not None:
        found = _locked(honour(read_lock(_bytes(lock), str(lock)), request, str(lock)), request)
    else:
        answer = best_plan(request)
        if isinstance(answer, Refusal):
            raise refused(answer)
        found = answer
    change = None
    if running is not None:
        change = replan(honour(read_lock(_bytes(running), str(running)), request, str(running)), found.chosen)
    if write_lock is not None:
        _write(write_lock, request, found)
    if as_json:
        emit_json(document(found, change, planned.model.notes))
    else:
        emit(render(found, change, planned.model.notes))


def _tables(as_json: bool) -> None:
    from meshllm_core.planner import tables

    if not as_json:
        emit(tables.render())
        return
    emit_json(
        {
            "stage_counts": [asdict(row) for row in tables.stage_counts()],
            "split_axis": [asdict(row) for row in tables.split_axis()],
            "petals": asdict(tables.petals()),
        }
    )


def _bytes(path: Path) -> bytes:
    from meshllm_core.cli.plan_input import read_bytes

    return read_bytes(path)


def _model(model: str, layers: int | None, size: str, shape: str) -> "PlannedModel":
    from meshllm_core.cli.plan_input import from_options, read_model
    from meshllm_core.paths import default_paths

    if layers is not None or size or shape:
        return from_options(model, layers, size, shape)
    return read_model(model, default_paths())


def _request(
    planned: "PlannedModel", nodes: Path | None, changes: list[str], dtype: str, force: bool
) -> "PlanRequest":
    from meshllm_core.cli.plan_input import read_network
    from meshllm_core.config import load_settings
    from meshllm_core.models.fit import EngineSettings
    from meshllm_core.paths import default_paths
    from meshllm_core.planner.request import PlanRequest
    from meshllm_core.planner.whatif import suppose
    from meshllm_core.planner.wire import choose_wire
    from meshllm_core.wire.codecs import dtype_named

    paths = default_paths()
    settings = load_settings(paths, environ=os.environ)
    supposed = suppose(read_network(nodes, settings, paths), changes)
    if dtype != "auto":
        dtype_named(dtype)
    width = planned.model.row_width

    def wires(cuts: "Sequence[int]") -> "Wire | str":
        return choose_wire(dtype, supposed.verdicts, width, override=force)

    return PlanRequest(
        model=planned.model,
        network=supposed.network,
        windows=planned.windows,
        wires=wires,
        settings=EngineSettings(batch=settings.batch, kv_type=settings.kv_type),
        idle_sequences=settings.prefix_slots,
        indivisible=planned.indivisible,
    )


def _locked(chosen: "Candidate", request: "PlanRequest") -> "Plan":
    from meshllm_core.planner.result import Plan
    from meshllm_core.planner.words import price

    model = request.model.name
    return Plan(model, chosen, (), (), request.target_ms, f"{model} as its lock says, {price(chosen)}.")


def _write(path: Path, request: "PlanRequest", found: "Plan") -> None:
    from meshllm_core.planner.lock import write_lock

    try:
        path.write_bytes(write_lock(request.model, found.chosen))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror or error}.",
            hint="Choose another place.",
            param="--write-lock",
        ) from error
    if len(found.chosen.stages) > 1:
        last = found.chosen.stages[-1].node
        say(clean(f"The machine that is asked computes the last stage: load it on {last}."))
