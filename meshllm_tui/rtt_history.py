"""The latest round trips of each member, as this dashboard saw them, and how they look. No Textual here."""

from collections import deque

from meshllm_core.state.snapshot import NodeSnapshot

KEPT = 60
"""Round trips kept of a member."""
EVERY_SECONDS = 2.0
BARS = 8
"""Bars that a row of a table has room for."""
_GLYPHS = "▁▂▃▄▅▆▇█"


class RttHistory:
    """Bounded by the members that a snapshot has, and by KEPT. Nothing is asked of the node for it."""

    def __init__(self) -> None:
        self._kept: dict[str, deque[float]] = {}
        self._at = float("-inf")
        self.taken = 0
        """How often round trips were noted."""

    def take(self, snapshot: NodeSnapshot, wall: float) -> bool:
        """Notes all round trips, if it is time; whether it was. `wall`: now, in seconds since the epoch."""
        if 0 <= wall - self._at < EVERY_SECONDS:
            return False
        self._at = wall
        self.taken += 1
        known = [row for row in snapshot.peers if row.rtt_source != "unknown" and row.rtt_ms > 0]
        fresh = {row.node: self._kept.get(row.node) or deque[float](maxlen=KEPT) for row in known}
        for row in known:
            fresh[row.node].append(row.rtt_ms)
        self._kept = fresh
        return True

    def of(self, node: str) -> tuple[float, ...]:
        """In milliseconds, oldest first."""
        return tuple(self._kept.get(node, ()))

    def bars(self, node: str, width: int = BARS) -> str:
        """The last `width` of them as bars, the tallest for the longest of those; empty before the second."""
        return bars(self.of(node)[-width:])


def trend(values: tuple[float, ...]) -> str:
    """The latest as bars, and the least and the most in words: `▁▂█ 1.0 to 4.2 ms`."""
    return (
        f"{bars(values[-BARS * 2 :])}  {min(values):.1f} to {max(values):.1f} ms" if len(values) > 1 else ""
    )


def bars(values: tuple[float, ...]) -> str:
    """One glyph for each value, from nothing at all to the largest."""
    if len(values) < 2:
        return ""
    most = max(values)
    return "".join(_GLYPHS[min(int(value / most * len(_GLYPHS)), len(_GLYPHS) - 1)] for value in values)
