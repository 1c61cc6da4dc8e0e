"""Counts what was refused, and tells of it at most once a second per kind."""

from collections.abc import Callable
from dataclasses import dataclass, field

from meshllm_core.discovery.text import clean_text
from meshllm_core.state.mesh_events import RefusalCounted
from meshllm_core.transport.link import Clock

SECONDS = 1.0
KINDS = 32
"""Kinds that are told apart; more are counted together."""
DETAIL = 160


@dataclass
class _Count:
    total: int = 0
    told: int = 0
    told_at: float = float("-inf")
    detail: str = ""


@dataclass
class Refusals:
    """Called from the node's loop only."""

    clock: Clock
    append: Callable[[RefusalCounted], None]
    _counts: dict[str, _Count] = field(default_factory=dict)

    def count(self, kind: str, detail: str) -> None:
        """One more of `kind`."""
        if kind not in self._counts and len(self._counts) >= KINDS:
            kind = "other"
        count = self._counts.setdefault(kind, _Count())
        count.total += 1
        count.detail = clean_text(detail, DETAIL)
        self._tell(kind, count)

    def flush(self) -> None:
        """Tells what was held back; call it now and then."""
        for kind, count in self._counts.items():
            self._tell(kind, count)

    def total(self, kind: str) -> int:
        """How often `kind` was refused."""
        count = self._counts.get(kind)
        return count.total if count else 0

    def _tell(self, kind: str, count: _Count) -> None:
        now = self.clock.monotonic()
        if count.told == count.total or now - count.told_at < SECONDS:
            return
        count.told, count.told_at = count.total, now
        event = RefusalCounted(at=self.clock.time(), kind=kind, count=count.total, detail=count.detail)
        self.append(event)
