"""Replicas that failed rest for a while, longer each time; then one request tries again. Pure."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

Key = tuple[bytes, str]
"""A node's id and the name of a model on it."""

FIRST_SECONDS, MOST_SECONDS = 1.0, 30.0
KEPT = 1024
"""Replicas that are remembered; the one that failed longest ago is forgotten first."""


@dataclass
class _Failures:
    count: int
    until: float
    why: str
    trying: bool = False


class Health:
    """Only replicas that failed last are in here. Times are seconds of a clock that never goes back."""

    def __init__(self) -> None:
        self._failed: dict[Key, _Failures] = {}

    def usable(self, key: Key, now: float) -> bool:
        """Whether a request may go there; after the rest one at a time may, until it worked."""
        failures = self._failed.get(key)
        return failures is None or (now >= failures.until and not failures.trying)

    def rests(self, key: Key, now: float) -> float:
        """Seconds until it may be tried again; 0 for a replica that may."""
        failures = self._failed.get(key)
        return max(0.0, failures.until - now) if failures else 0.0

    def why(self, key: Key) -> str:
        """How it failed last; empty if it did not."""
        failures = self._failed.get(key)
        return failures.why if failures else ""

    @contextmanager
    def attempt(self, key: Key) -> Iterator[None]:
        """Around a request to a replica: of those that failed only one at a time is tried."""
        failures = self._failed.get(key)
        if failures is not None:
            failures.trying = True
        try:
            yield
        finally:
            if failures is not None:
                failures.trying = False

    def succeeded(self, key: Key) -> None:
        """It answered: all is forgotten."""
        self._failed.pop(key, None)

    def failed(self, key: Key, now: float, why: str) -> None:
        """It did not answer."""
        before = self._failed.pop(key, None)
        count = before.count + 1 if before else 1
        rest = min(MOST_SECONDS, FIRST_SECONDS * 2 ** min(count - 1, 16))
        self._failed[key] = _Failures(count, now + rest, why)
        if len(self._failed) > KEPT:
            del self._failed[next(iter(self._failed))]
