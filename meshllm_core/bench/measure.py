"""One run: N clients at once, and the figures that come out of it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from meshllm_core.bench.completion import Target, Timing, complete
from meshllm_core.bench.machine import Meter
from meshllm_core.bench.prompts import PromptMaker


@dataclass(frozen=True)
class Metric:
    """A figure of a run: its name in JSON, its words and unit in a table, and which way is better."""

    name: str
    words: str
    unit: str
    higher_is_better: bool
    value: Callable[["Run"], float | None]


@dataclass(frozen=True)
class Run:
    """The requests of one run, which began together."""

    clients: int
    index: int
    timings: tuple[Timing, ...]
    disturbance: float | None
    """Share of the machine's processor time that neither the server nor this client took; None if unknown."""

    @property
    def tokens(self) -> int:
        """Generated tokens of all clients."""
        return sum(timing.completion_tokens for timing in self.timings)

    @property
    def aggregate_rate(self) -> float:
        """All generated tokens per second, from sending to the end of the last answer."""
        return self.tokens / (self._ended - min(timing.sent for timing in self.timings))

    @property
    def streaming_rate(self) -> float | None:
        """All generated tokens per second, from the first text of the first client to the end of the last."""
        seconds = self._ended - min(timing.first for timing in self.timings)
        return self.tokens / seconds if seconds > 0 else None

    @property
    def longest_gap(self) -> float:
        """Longest wait between two pieces of any client's answer, in seconds."""
        return max(timing.longest_gap for timing in self.timings)

    @property
    def _ended(self) -> float:
        return max(timing.ended for timing in self.timings)

    def middle(self, value: Callable[[Timing], float | None]) -> float | None:
        """Median over the clients."""
        known = [figure for timing in self.timings if (figure := value(timing)) is not None]
        return median(known) if known else None

    def as_json(self) -> list[dict[str, Any]]:
        """One object per request."""
        return [
            {
                "clients": self.clients,
                "run": self.index,
                "client": client,
                "prompt_tokens": timing.prompt_tokens,
                "cached_tokens": timing.cached_tokens,
                "completion_tokens": timing.completion_tokens,
                "events": timing.events,
                "sent_s": timing.sent - self.timings[0].sent,
                "ttft_s": timing.time_to_first_token,
                "decode_s": timing.ended - timing.first,
                "longest_gap_s": timing.longest_gap,
                "disturbance": self.disturbance,
            }
            for client, timing in enumerate(self.timings)
        ]


def _per_client(value: Callable[[Timing], float | None]) -> Callable[[Run], float | None]:
    return lambda run: run.middle(value)


METRICS = (
    Metric("decode_tok_s", "decode, per client", "tok/s", True, _per_client(lambda t: t.decode_rate)),
    Metric("prompt_tok_s", "prompt, per client", "tok/s", True, _per_client(lambda t: t.prompt_rate)),
    Metric("ttft_ms", "time to first token", "ms", False, _per_client(lambda t: t.time_to_first_token * 1e3)),
    Metric("aggregate_tok_s", "aggregate, sent to end", "tok/s", True, lambda run: run.aggregate_rate),
    Metric("streaming_tok_s", "aggregate, first token to end", "tok/s", True, lambda run: run.streaming_rate),
    Metric("longest_gap_ms", "longest pause", "ms", False, lambda run: run.longest_gap * 1e3),
)


async def run_once(
    target: Target,
    maker: PromptMaker,
    meter: Meter,
    *,
    clients: int,
    max_tokens: int,
    labels: tuple[object, ...],
) -> Run:
    """Sends `clients` requests at once and waits for all. The first failure cancels the rest and is raised.

    `labels` tell this run from every other, so that no prompt repeats; the last one is its index.
    """
    prompts = [maker.make(*labels, client) for client in range(clients)]
    meter.start()
    tasks = [asyncio.ensure_future(complete(target, prompt, max_tokens)) for prompt in prompts]
    try:
        timings = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    index = labels[-1]
    return Run(clients, index if isinstance(index, int) else 0, tuple(timings), meter.stop())
