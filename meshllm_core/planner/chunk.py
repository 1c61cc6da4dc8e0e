"""How a long prompt is cut for a chain of stages: into chunks that keep all of them at work at the same time.

While one stage computes a chunk, the one before it computes the next. Small chunks fill the chain quickly;
each costs one reading of the weights and one hand-over at every stage, so they must not be too small either.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log

from meshllm_core.planner.network import HOP_OVERHEAD_MS

USUAL_ROWS = 128
"""Tokens of a chunk where no speed is known, and …"""
USUAL_AHEAD = 3
"""… chunks on their way while one is computed."""
MOST_AHEAD = 8
SIZES = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192, 16_384)
PROMPT = 2048
"""Tokens of the prompt that the size is chosen for."""
LONGEST_STEP_MS = 250.0
"""A decode that comes while a stage computes a chunk waits for it: so long at most, where that can be had."""
EQUAL = 1.03
"""Sizes within this factor of the best are as good; the one nearest to USUAL_ROWS is taken."""
UNDER_WAY_BYTES = 64 << 20
"""Of hidden states that may be on their way to one machine."""


@dataclass(frozen=True)
class StagePace:
    """A stage, and the way from the one before it; for the first stage that is the last one."""

    read_ms: float | None
    """Going through the stage's weights once, as every step must."""
    token_ms: float | None
    """Computing one token of a prompt among many."""
    one_way_ms: float = 0.0
    bytes_per_second: float | None = None
    """Of the link; None: not known, and taken for fast enough."""


@dataclass(frozen=True)
class Chunks:
    """How a prompt is cut."""

    rows: int
    """Tokens of a chunk."""
    ahead: int
    """Chunks that may be on their way while one is computed."""


def choose_chunks(stages: Sequence[StagePace], *, row_bytes: int, batch: int) -> Chunks:
    """For a chain in the order of its layers; the last stage drives and the first gets tokens from it.

    `row_bytes`: one hidden state on its way. `batch`: tokens of one step at most. Pure.
    """
    sizes = sorted({min(size, batch) for size in SIZES})
    known = [_Chain(stages, row_bytes, size) for size in sizes] if _known(stages) else []
    if not known:
        rows = min(USUAL_ROWS, batch)
        return Chunks(rows, min(USUAL_AHEAD, _most_ahead(rows, row_bytes)))
    prompt = [each for each in known if each.slowest_step_ms <= LONGEST_STEP_MS] or known[:1]
    least = min(each.prompt_ms for each in prompt)
    good = [each for each in prompt if each.prompt_ms <= least * EQUAL]
    best = min(good, key=lambda each: abs(log(each.rows / USUAL_ROWS)))
    return Chunks(best.rows, best.ahead)


def _known(stages: Sequence[StagePace]) -> bool:
    return len(stages) > 1 and all(each.token_ms is not None and each.read_ms is not None for each in stages)


def _most_ahead(rows: int, row_bytes: int) -> int:
    return max(1, min(MOST_AHEAD, UNDER_WAY_BYTES // max(1, rows * row_bytes)))


class _Chain:
    """What a prompt takes in chunks of one size."""

    def __init__(self, stages: Sequence[StagePace], row_bytes: int, rows: int) -> None:
        self.rows = rows
        steps = [(each.read_ms or 0.0) + (each.token_ms or 0.0) * rows + HOP_OVERHEAD_MS for each in stages]
        # Only numbers of tokens go to the first stage: they take no time on any link.
        sent = [
            rows * row_bytes / after.bytes_per_second * 1000 if after.bytes_per_second else 0.0
            for _, after in pairwise(stages)
        ]
        self.slowest_step_ms = max(steps)
        self._pace_ms = max(*steps, *sent)
        """From one chunk that is through to the next, as long as enough are on their way."""
        self._way_ms = sum(steps[:-1]) + sum(sent) + sum(each.one_way_ms for each in stages)
        """From the driver, until the driver has the hidden states."""
        self._last_ms = steps[-1]
        self._most_ahead = _most_ahead(rows, row_bytes)

    @property
    def prompt_ms(self) -> float:
        """All chunks of a prompt: the first on its way through all stages, the others behind it."""
        through = self._way_ms + self._last_ms
        every = max(self._pace_ms, through / (self._most_ahead + 1))
        return through + (ceil(PROMPT / self.rows) - 1) * every

    @property
    def ahead(self) -> int:
        """So many that one arrives whenever one is computed, and one more for a link that hesitates."""
        return min(ceil(self._way_ms / self._pace_ms) + 1, self._most_ahead)
