"""The benchmark of splits: an unsplit node, two stages over a delayed link, and llama.cpp's RPC, in turn.

Everything runs at once on one machine and is asked in turn (A B A B …), so that a slow minute strikes all.
"""

import asyncio
import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

from meshllm_core.bench.completion import Target, complete, find_target
from meshllm_core.bench.endpoint import parse_endpoint
from meshllm_core.bench.memory import family
from meshllm_core.bench.prompts import PromptMaker
from meshllm_core.bench.raw import RawLog
from meshllm_core.bench.session import Say, Side, measure
from meshllm_core.bench.split_figures import (
    AtDelay,
    Figure,
    StageMemory,
    concurrency_figure,
    decode_figures,
    memory_figures,
    prefill_figures,
)
from meshllm_core.bench.split_limits import limits
from meshllm_core.bench.split_link import Link, delayed_link
from meshllm_core.bench.split_nodes import BenchNode, Settings, join, node, resident
from meshllm_core.bench.split_peer import rpc_pair
from meshllm_core.bench.split_plan import SplitPlan
from meshllm_core.bench.stats import Summary, summarize
from meshllm_core.errors import NodeError

HALF, QUARTER = 0.5, 0.25
"""Share of the layers on the other machine."""
_WAY_TOKENS = 64


@dataclass
class _Bench:
    """What all parts share."""

    plan: SplitPlan
    settings: Settings
    link: Link
    folder: Path
    whole: Side
    raw: RawLog
    say: Say
    figures: list[Figure]
    deadline: float
    complete: bool = True
    measurements: int = 0

    def add(self, figures: Sequence[Figure]) -> None:
        """Keeps them, and writes them down at once."""
        self.figures += figures
        for figure in figures:
            self.raw.line("figure", figure.as_json())

    def measure(self, sides: Sequence[Side], clients: tuple[int, ...]) -> None:
        """Runs all sides in turn; each begins afresh. Raises what `complete` raises."""
        for side in sides:
            side.runs, side.disturbed = [], []
        self.measurements += 1
        left = max(1.0, self.deadline - time.monotonic())
        plan = replace(self.plan.measurement(self.measurements, left), clients=clients)
        self.complete &= asyncio.run(measure(sides, plan, say=self.say, on_run=self.raw.run))


def run_split(plan: SplitPlan, folder: Path, raw: RawLog, say: Say) -> tuple[list[Figure], bool]:
    """Everything that the plan names; the figures, and whether no time limit cut it short.

    Raises NodeError and EngineTimeout (a node failed), ConfigError, and what `complete` raises.
    """
    settings = Settings(plan.model, plan.context, plan.clients, plan.threads, plan.wire_dtype)
    raw.line("split plan", {**asdict(plan), "model": plan.model.name, "rpc_programs": None})
    deadline = time.monotonic() + plan.time_limit
    with delayed_link() as link, node("whole", link, folder, settings, on_b=False, memory=0) as alone:
        alone.load(settings, split=False)
        bench = _Bench(plan, settings, link, folder, _side("whole", [alone]), raw, say, [], deadline)
        if {"decode", "clients", "prefill"} & set(plan.parts):
            _tls(bench)
        if "quic" in plan.parts:
            _quic(bench)
        if "memory" in plan.parts:
            _memory(bench)
    return bench.figures, bench.complete


def _tls(bench: _Bench) -> None:
    with contextlib.ExitStack() as stack:
        first, second, split = stack.enter_context(_split(bench, "tls", HALF))
        rpc = None
        if bench.plan.rpc_programs is not None:
            layers, _ = _layers(first, second.name)
            url, pids = stack.enter_context(
                rpc_pair(bench.link, bench.plan.rpc_programs, bench.folder, bench.settings, layers)
            )
            rpc = Side("rpc", asyncio.run(find_target(parse_endpoint(url), None)), pids)
        if "decode" in bench.plan.parts:
            for delay in bench.plan.delays:
                _decode(bench, split, rpc if delay in bench.plan.rpc_delays else None, delay, "tls")
        if "clients" in bench.plan.parts:
            _clients(bench, split)
        if "prefill" in bench.plan.parts:
            _prefill(bench, split)


def _quic(bench: _Bench) -> None:
    """A link that loses TCP leaves QUIC alone."""
    bench.link.set(0, tcp=False)
    with _split(bench, "quic", HALF) as (_, _, split):
        _decode(bench, split, None, 0, "quic")
    bench.link.set(0)


def _memory(bench: _Bench) -> None:
    bench.link.set(0)
    with _split(bench, "quarter", QUARTER) as (first, second, split):
        asyncio.run(complete(split.target, PromptMaker(256, 1).make("memory"), 16))
        (stage,) = (s for s in second.get("/api/status")["runtime"]["stages"] if s["kind"] == "hosted")
        (told,) = (s for s in first.get("/api/status")["runtime"]["stages"] if s["node_name"] == second.name)
        layers, of_layers = _layers(first, second.name)
        bench.add(
            memory_figures(
                StageMemory(
                    layers=layers,
                    of_layers=of_layers,
                    weights=int(told["bytes"]),
                    needed=int(told["memory_needed_bytes"]),
                    resident=resident(int(stage["pid"])),
                    bare=bare_engine(),
                    foreign=tuple(foreign_models([first, second])),
                )
            )
        )


def _decode(bench: _Bench, split: Side, rpc: Side | None, delay: float, way: str) -> None:
    bench.link.set(delay, tcp=way != "quic")
    link_ms = bench.link.one_way_ms()
    bench.say(f"{way}, {delay:g} ms one way (measured {link_ms:.2f})")
    bench.measure([bench.whole, split, *([rpc] if rpc else [])], (1,))
    whole, divided = _rate(bench.whole), _rate(split)
    other = _rate(rpc) if rpc else None
    if whole and divided:
        bench.add(decode_figures(AtDelay(delay, link_ms, whole, divided, other, way)))


def _clients(bench: _Bench, split: Side) -> None:
    delay, clients = bench.plan.busy_delay, bench.plan.clients
    bench.link.set(delay)
    bench.measure([bench.whole, split], (1, clients))
    for side in (bench.whole, split):
        one, many = (side.summaries(level).get("aggregate_tok_s") for level in (1, clients))
        if one and many:
            bench.add([concurrency_figure(one, many, clients, delay if side is split else None)])


def _rate(side: Side) -> Summary | None:
    """Tokens per second of one client."""
    return side.summaries(1).get("decode_tok_s")


def _prefill(bench: _Bench, split: Side) -> None:
    plan = bench.plan
    bench.link.set(plan.busy_delay)
    seconds: dict[str, list[float]] = {"whole": [], "flight": [], "lock_step": []}
    for run in range(plan.prefill_runs):
        if time.monotonic() > bench.deadline:
            bench.complete = False
            break
        maker = PromptMaker(plan.prefill_tokens, 1)
        for name, target in (("whole", bench.whole.target), ("flight", split.target)):
            timing = asyncio.run(complete(target, maker.make("prefill", name, run), 1))
            seconds[name].append(timing.time_to_first_token)
        seconds["lock_step"].append(asyncio.run(_lock_step(split.target, plan, maker.make("lock", run))))
        taken = {name: values[-1] for name, values in seconds.items()}
        bench.raw.line("prefill", {"run": run, "seconds": taken})
        bench.say("prefill: " + ", ".join(f"{name} {value:.2f} s" for name, value in taken.items()))
    whole, flight, lock = (summarize(seconds[name]) for name in ("whole", "flight", "lock_step"))
    if whole and flight and lock:
        bench.add(prefill_figures(flight, lock, whole, plan.prefill_tokens, plan.busy_delay))


async def _lock_step(target: Target, plan: SplitPlan, prompt: str) -> float:
    """Seconds of the prompt when each chunk begins after the one before it has passed all stages.

    Each chunk is a request that repeats what is in the cache already. Raises NodeError when it is not.
    """
    words, seconds = prompt.split(), 0.0
    for end in range(plan.chunk, len(words) + 1, plan.chunk):
        timing = await complete(target, "".join(f" {word}" for word in words[:end]), 1)
        seconds += timing.time_to_first_token
        if end > plan.chunk and timing.prompt_tokens - timing.cached_tokens > 2 * plan.chunk:
            raise NodeError(
                f"Of {timing.prompt_tokens} tokens only {timing.cached_tokens} were taken from the cache: "
                "lock-step cannot be measured this way.",
                hint="Leave prefill out with --only.",
            )
    return seconds


@contextlib.contextmanager
def _split(bench: _Bench, name: str, share: float) -> Iterator[tuple[BenchNode, BenchNode, Side]]:
    """Coordinator on A, a second node on B with `share` of the layers, and both as a side."""
    mine, other = limits(bench.settings, bench.folder, share)
    one = node(f"{name}-a", bench.link, bench.folder, bench.settings, on_b=False, memory=mine)
    two = node(f"{name}-b", bench.link, bench.folder, bench.settings, on_b=True, memory=other)
    with one as first, two as second:
        join(first, second)
        first.load(bench.settings, split=True)
        layers, of_layers = _layers(first, second.name)
        bench.say(f"{name}: {layers} of {of_layers} layers on the other machine")
        side = _side(name, [first, second])
        _check_way(bench.link, side.target, "tls" if bench.link.tcp else "quic")
        yield first, second, side


def _check_way(link: Link, target: Target, wanted: str) -> None:
    """Raises NodeError when rows do not travel as the figures will say.

    QUIC sends a datagram for each row at least. What members tell each other is counted in a pause.
    """
    first, began = link.datagrams(), time.monotonic()
    asyncio.run(complete(target, PromptMaker(8, 1).make("way"), _WAY_TOKENS))
    second, seconds = link.datagrams(), time.monotonic() - began
    time.sleep(seconds)
    extra = (second - first) - (link.datagrams() - second)
    seen = "quic" if extra > _WAY_TOKENS else "tls"
    if seen != wanted:
        raise NodeError(
            f"Rows travel by {seen}, not by {wanted}: {extra} datagrams for {_WAY_TOKENS} tokens.",
            hint="Without TCP between two machines there is only QUIC.",
        )


def _layers(first: BenchNode, other: str) -> tuple[int, int]:
    """Layers that the node `other` computes, and all. Raises NodeError when the model was not split."""
    stages = [s for s in first.get("/api/status")["runtime"]["stages"] if s["kind"] == "split"]
    if len(stages) < 2:
        raise NodeError("The model was not split.", hint="See `meshllm plan`.")
    mine = [s["layer_end"] - s["layer_start"] for s in stages if s["node_name"] == other]
    return sum(mine), max(int(s["layer_end"]) for s in stages)


def _side(name: str, nodes: Sequence[BenchNode]) -> Side:
    target = asyncio.run(find_target(parse_endpoint(nodes[0].url), None))
    return Side(name, target, [one.process.pid for one in nodes])


def bare_engine() -> int:
    """Resident bytes of an interpreter with the engine's code and llama.cpp, and no model."""
    code = "import meshllm_core.engine.worker, meshllm_core.engine.stage_worker; print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = resident(process.pid)
        process.communicate(b"\n", timeout=10)
    return found


def foreign_models(nodes: Sequence[BenchNode]) -> list[str]:
    """Names of mapped model files that are no stage of their node's own."""
    found = []
    for one in nodes:
        own = re.compile(re.escape(str(one.home / "cache")) + r"/.*/stage-\d+-\d+\.gguf")
        for process in family([one.process.pid]):
            with contextlib.suppress(psutil.NoSuchProcess):
                paths = [mapping.path for mapping in process.memory_maps()]
                found += [Path(path).name for path in paths if ".gguf" in path and not own.match(path)]
    return found
