"""Members that nobody here hears of, and that may be back: whom to look for beside what gossip asks for."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from meshllm_core.ids import NodeId

LOOK_SECONDS = 15.0
"""Between two looks for members of which nothing was heard since this node started, or that left."""
LOOKED_FOR = 2
"""Of them at a time, by chance."""
SEEN_SECONDS = 10.0
"""So long a node is dialled that said on the local network that it is here."""
SEEN = 256
"""Nodes of which that is remembered; the one seen longest ago goes."""


@dataclass
class Absent:
    """Two members may each know of the other by nothing but a certificate, or not even by that."""

    random: Callable[[], float]
    """0 to 1."""
    _seen: dict[NodeId, float] = field(default_factory=dict)
    _look_at: float = 0.0

    def seen(self, node: NodeId, now: float) -> None:
        """Something says that it is here, and where."""
        self._seen.pop(node, None)
        self._seen[node] = now + SEEN_SECONDS
        if len(self._seen) > SEEN:
            del self._seen[next(iter(self._seen))]

    def found(self, node: NodeId) -> None:
        """There is a link to it."""
        self._seen.pop(node, None)

    def wanted(self, silent: Collection[NodeId], now: float) -> list[NodeId]:
        """Whom to dial now. `silent`: members without a link that gossip does not care for."""
        for node in [node for node, until in self._seen.items() if until <= now]:
            del self._seen[node]
        nearby = list(self._seen)
        if now < self._look_at or not silent:
            return nearby
        self._look_at = now + LOOK_SECONDS * (0.5 + self.random())
        chosen = sorted(silent, key=lambda _: self.random())[:LOOKED_FOR]
        return list(dict.fromkeys([*nearby, *chosen]))
