"""The whole benchmark: one server, or several in turn, so that a slow minute strikes all alike."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from meshllm_core.bench.calibrate import calibrate
from meshllm_core.bench.completion import Target
from meshllm_core.bench.machine import CpuMeter, Meter
from meshllm_core.bench.measure import METRICS, Run, run_once
from meshllm_core.bench.memory import MemoryUse, memory_use
from meshllm_core.bench.plan import Plan
from meshllm_core.bench.prompts import PromptMaker
from meshllm_core.bench.stats import Summary, summarize

Say = Callable[[str], None]
"""Takes one line about the progress."""


@dataclass
class Side:
    """One server under measurement and what has been measured of it."""

    name: str
    target: Target
    pids: Sequence[int] = ()
    """Its processes, for memory; their descendants belong to them."""
    maker: PromptMaker = field(default_factory=lambda: PromptMaker(1, 0))
    runs: list[Run] = field(default_factory=list)
    disturbed: list[Run] = field(default_factory=list)
    """Runs that do not count, since other programs took too much of the processor meanwhile."""
    memory: MemoryUse | None = None

    def level(self, clients: int) -> list[Run]:
        """Runs with so many clients."""
        return [run for run in self.runs if run.clients == clients]

    def summaries(self, clients: int) -> dict[str, Summary]:
        """Each metric over the runs of a level; metrics that no run has are absent."""
        runs = self.level(clients)
        found = {metric.name: summarize(metric.value(run) for run in runs) for metric in METRICS}
        return {name: summary for name, summary in found.items() if summary is not None}

    def note_memory(self) -> None:
        """Keeps the highest use seen. Called between runs, since reading it costs the processes time."""
        if self.pids:
            use = memory_use(self.pids)
            self.memory = use.highest(self.memory) if self.memory else use

    def as_json(self, plan: Plan) -> dict[str, Any]:
        """Figures of this server."""
        timings = [timing for run in self.runs for timing in run.timings]
        return {
            "name": self.name,
            "url": self.target.endpoint.url,
            "model": self.target.model,
            "route": self.target.route,
            "ignore_eos": self.target.ignore_eos,
            "prompt_tokens": _json(summarize(t.prompt_tokens for t in timings)),
            "cached_tokens": _json(summarize(t.cached_tokens for t in timings)),
            "completion_tokens": _json(summarize(t.completion_tokens for t in timings)),
            "levels": [
                {
                    "clients": level,
                    **{name: summary.as_json() for name, summary in self.summaries(level).items()},
                    "disturbance": _json(summarize(run.disturbance for run in self.level(level))),
                }
                for level in plan.clients
            ],
            "disturbed_runs": len(self.disturbed),
            "memory": self.memory.as_json() if self.memory else None,
        }


async def measure(
    sides: Sequence[Side],
    plan: Plan,
    *,
    say: Say,
    pause: float = 0.0,
    on_run: Callable[[Side, Run, bool], None] = lambda side, run, kept: None,
    make_meter: Callable[[Sequence[int]], Meter] = CpuMeter,
) -> bool:
    """Runs the plan on every side in turn (A B A B …). False when the time limit cut it short.

    `pause` is a rest in seconds before each run; `on_run` gets every measured run and whether it counts.
    Raises what `complete` raises.
    """
    deadline = time.monotonic() + plan.time_limit
    for side in sides:
        side.target, side.maker = await calibrate(side.target, plan)
        side.note_memory()
        say(f"{side.name}: {side.target.model}, {side.maker.words} words for {plan.prompt_tokens} tokens")
    for clients in plan.clients:
        index, attempt = -plan.warmup, 0
        while index < plan.runs:
            labels = (clients, attempt, index)
            runs = await _round(
                [(side, make_meter(side.pids)) for side in sides], plan, labels, pause, deadline, say
            )
            if runs is None:
                say(f"The time limit of {plan.time_limit:g} s is over: what follows is left out.")
                return False
            quiet = all(_is_quiet(run, plan) for run in runs)
            attempt = 0 if quiet else attempt + 1
            if index >= 0:
                for side, run in zip(sides, runs, strict=True):
                    (side.runs if quiet else side.disturbed).append(run)
                    on_run(side, run, quiet)
            if quiet or index < 0:
                index += 1
            else:
                say("other programs took too much of the processor: this round is done again")
    return True


async def _round(
    sides: Sequence[tuple[Side, Meter]],
    plan: Plan,
    labels: tuple[int, int, int],
    pause: float,
    deadline: float,
    say: Say,
) -> list[Run] | None:
    """A run on each side; None when the deadline passed before all were begun."""
    runs = []
    for side, meter in sides:
        await asyncio.sleep(pause)
        if plan.quiet is not None:
            await _wait_for_quiet(meter, plan.quiet, plan.settle, deadline)
        if time.monotonic() > deadline:
            return None
        run = await run_once(
            side.target,
            side.maker,
            meter,
            clients=labels[0],
            max_tokens=plan.max_tokens,
            labels=(side.name, *labels),
        )
        side.note_memory()
        say(_line(side, run))
        runs.append(run)
    return runs


async def _wait_for_quiet(meter: Meter, share: float, seconds: float, deadline: float) -> None:
    """Returns when others took less than `share` for `seconds`, or at the deadline (`time.monotonic`)."""
    while time.monotonic() < deadline:
        meter.start()
        await asyncio.sleep(seconds)
        if (meter.stop() or 0.0) <= share:
            return


def _is_quiet(run: Run, plan: Plan) -> bool:
    return plan.quiet is None or run.disturbance is None or run.disturbance <= plan.quiet


def _line(side: Side, run: Run) -> str:
    what = "warm-up" if run.index < 0 else f"run {run.index + 1}"
    figures = [
        f"{value:.1f} {metric.unit}" for metric in METRICS[:4] if (value := metric.value(run)) is not None
    ]
    noise = f", others took {run.disturbance:.0%} of the processor" if run.disturbance is not None else ""
    return f"{side.name}, {run.clients} client(s), {what}: {', '.join(figures)}{noise}"


def _json(summary: Summary | None) -> dict[str, float] | None:
    return summary.as_json() if summary else None
