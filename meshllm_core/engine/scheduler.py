"""What the next step computes: every waiting decode first, then as much prefill as time allows. Pure."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

PREFILL_ALONE_SECONDS = 2.0
"""A step without decodes takes about this long at most: who comes meanwhile waits for its end."""
UNINTERRUPTED_SECONDS = 0.7
"""The same where a step cannot be interrupted, so that a cancelled request is noticed within a second."""
PREFILL_BESIDE_DECODE_SECONDS = 0.6
"""A step that also carries decodes takes about this long, so that streams keep moving. Shorter steps mean
smaller chunks, and those cost throughput: with 0.25 s four clients together were 4 % slower."""
SMALLEST_CHUNK = 32
"""Tokens; smaller prefill chunks waste more than they save."""


class Job(Protocol):
    """What the scheduler has to know of a request that has a lane."""

    def missing(self) -> int:
        """Tokens of prompt and answer that are not in the KV cache yet (1 when decoding)."""


J = TypeVar("J", bound=Job)


@dataclass(frozen=True)
class Work(Generic[J]):
    """A part of the next batch: the next `count` missing tokens of one job."""

    job: J
    count: int
    finishes: bool
    """Whether the job's last token is included, so that its logits are wanted."""


@dataclass
class PrefillRate:
    """Prompt tokens per second as measured; decides how many fit in a step."""

    tokens_per_second: float = 64.0
    """A guess until something was measured: a first step that is too long cannot be shortened any more."""
    largest_chunk: int = 512
    """Tokens; the most that one step takes, however fast the machine is."""
    alone_seconds: float = PREFILL_ALONE_SECONDS
    measured: bool = False

    def note(self, tokens: int, seconds: float) -> None:
        """A step computed this many tokens. Small steps say little and are left out."""
        if tokens >= SMALLEST_CHUNK and seconds > 0:
            weight = 0.5 if self.measured else 1.0
            self.tokens_per_second += weight * (tokens / seconds - self.tokens_per_second)
            self.measured = True

    def budget(self, *, decoding: bool, capacity: int) -> int:
        """Prefill tokens for the next step, at most `capacity`."""
        seconds = PREFILL_BESIDE_DECODE_SECONDS if decoding else self.alone_seconds
        wanted = max(SMALLEST_CHUNK, int(self.tokens_per_second * seconds))
        return min(capacity, self.largest_chunk, wanted)


@dataclass
class FixedChunk(PrefillRate):
    """Chunks of one size: those that come next can be on their way before they are asked for."""

    def budget(self, *, decoding: bool, capacity: int) -> int:
        """Always the same, where there is room."""
        return min(capacity, self.largest_chunk)


@dataclass
class Lanes(Generic[J]):
    """Jobs that compute and jobs that wait. `waiting` is bounded by whoever fills it."""

    count: int
    active: list[J] = field(default_factory=list)
    waiting: deque[J] = field(default_factory=deque)

    def free(self) -> bool:
        """Whether a waiting job may start."""
        return len(self.active) < self.count


def plan_step(active: Sequence[J], rate: PrefillRate, *, capacity: int) -> list[Work[J]]:
    """The next batch, at most `capacity` tokens. Decodes come first and are never left out for prefill."""
    decoding = [job for job in active if job.missing() == 1][:capacity]
    work = [Work(job, 1, finishes=True) for job in decoding]
    left = rate.budget(decoding=bool(decoding), capacity=capacity - len(work)) if capacity > len(work) else 0
    for job in active:
        missing = job.missing()
        if missing <= 1 or left <= 0:
            continue
        count = min(missing, left)
        work.append(Work(job, count, finishes=count == missing))
        left -= count
    return work
