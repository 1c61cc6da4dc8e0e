"""Who links to whom: everybody in a small mesh, a skip ring in a large one.

In a skip ring each node draws a row of bits from its id. Level 0 is the ring of all ids in order;
level k is the ring of those whose first k bits are the same. A node's neighbours are the one before
and the one after it on each of its levels: about ±1, ±2, ±4 … in the order of ids. Two levels often
share a neighbour, so that comes to about log2 N links each, and to fewer hops between any two. Both
ends come to the same result from the same members, and one who comes or goes changes only its own
neighbours' links. Plain offsets ±2^k in the sorted list would not do: each newcomer would shift them
for half of the mesh.
"""

import hashlib
from bisect import bisect_left, insort
from functools import lru_cache

from meshllm_core.ids import NodeId
from meshllm_core.wire import limits

LEVELS = 64


@lru_cache(maxsize=2 * limits.MEMBERS)
def row_of_bits(node: NodeId) -> int:
    """LEVELS bits, the first one the lowest."""
    return int.from_bytes(hashlib.blake2s(b"meshllm ring" + node, digest_size=8).digest(), "big")


def shared_levels(one: int, other: int) -> int:
    """How many levels two rows of bits share above level 0."""
    differing = one ^ other
    return LEVELS if differing == 0 else (differing & -differing).bit_length() - 1


class SkipRing:
    """The members as one of them sees them."""

    def __init__(self, me: NodeId, full_mesh: int) -> None:
        """Up to `full_mesh` members, `me` included, all are neighbours."""
        self.me = me
        self.full_mesh = full_mesh
        self._bits = row_of_bits(me)
        self._levels: list[list[NodeId]] = [[me]]
        self._members = {me}
        self._neighbours: tuple[NodeId, ...] | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, node: NodeId) -> bool:
        return node in self._members

    def add(self, node: NodeId) -> None:
        """Safe to repeat."""
        if node in self._members:
            return
        self._members.add(node)
        for level in range(shared_levels(self._bits, row_of_bits(node)) + 1):
            if level == len(self._levels):
                self._levels.append([self.me])
            insort(self._levels[level], node)
        self._neighbours = None

    def remove(self, node: NodeId) -> None:
        """Safe to repeat; never removes `me`."""
        if node not in self._members or node == self.me:
            return
        self._members.discard(node)
        for level in range(shared_levels(self._bits, row_of_bits(node)) + 1):
            ring = self._levels[level]
            del ring[bisect_left(ring, node)]
        while len(self._levels) > 1 and len(self._levels[-1]) == 1:
            self._levels.pop()
        self._neighbours = None

    def neighbours(self) -> tuple[NodeId, ...]:
        """Of `me`, nearest level first."""
        if self._neighbours is None:
            self._neighbours = self._find()
        return self._neighbours

    def around(self, node: NodeId) -> set[NodeId]:
        """The neighbours of another member in a large mesh: those who can say whether it is alive."""
        found: set[NodeId] = set()
        ring, bits, level = self._levels[0], row_of_bits(node), 0
        while len(ring) > 1 and node in self._members:
            place = bisect_left(ring, node)
            found |= {ring[place - 1], ring[(place + 1) % len(ring)]}
            level += 1
            ring = [member for member in ring if shared_levels(bits, row_of_bits(member)) >= level]
        return found - {node}

    def _find(self) -> tuple[NodeId, ...]:
        if len(self._members) <= self.full_mesh:
            return tuple(node for node in self._levels[0] if node != self.me)
        found: dict[NodeId, None] = {}
        for ring in self._levels:
            place = bisect_left(ring, self.me)
            found[ring[place - 1]] = None
            found[ring[(place + 1) % len(ring)]] = None
        found.pop(self.me, None)
        return tuple(found)
