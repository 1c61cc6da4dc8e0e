"""Which tokens each KV-cache sequence holds, how many cells that takes, what can be reused. Pure.

A cell belongs to every sequence that shares it; it is free when none is left. The ledger mirrors
what llama.cpp's unified cache does, so that room is made before a step and not after it failed.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class SequenceState:
    """What one sequence holds."""

    tokens: list[int] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)
    owner: str = ""
    """The request that computes in it; empty when idle."""
    last_used: int = 0


@dataclass(frozen=True)
class Match:
    """A sequence whose first `length` tokens are those of a prompt."""

    sequence: int
    length: int
    idle: bool


class Ledger:
    """Book-keeping for `sequences` sequences over `total` cells."""

    def __init__(self, sequences: int, total: int) -> None:
        self.total = total
        self.sequences = [SequenceState() for _ in range(sequences)]
        self._users: Counter[int] = Counter()
        self._next_cell = 0
        self._clock = 0

    @property
    def used(self) -> int:
        """Cells that hold something."""
        return len(self._users)

    @property
    def free(self) -> int:
        """Cells that hold nothing."""
        return self.total - len(self._users)

    def best_match(self, prompt: Sequence[int]) -> Match | None:
        """The sequence that shares the longest beginning with `prompt`; an idle one on a tie."""
        best: Match | None = None
        for index, state in enumerate(self.sequences):
            length = common_prefix(state.tokens, prompt)
            if length and (best is None or (length, not state.owner) > (best.length, best.idle)):
                best = Match(index, length, not state.owner)
        return best

    def vacant(self) -> int | None:
        """An empty idle sequence, else the idle one unused for longest, else None."""
        idle = [(bool(s.tokens), s.last_used, i) for i, s in enumerate(self.sequences) if not s.owner]
        return min(idle)[2] if idle else None

    def oldest_idle(self) -> int | None:
        """The idle sequence with tokens that was unused for longest."""
        idle = [(s.last_used, i) for i, s in enumerate(self.sequences) if not s.owner and s.tokens]
        return min(idle)[1] if idle else None

    def idle_cells(self) -> int:
        """Cells that only idle sequences hold."""
        owned = {cell for state in self.sequences if state.owner for cell in state.cells}
        return len(self._users) - len(owned)

    def claim(self, sequence: int, owner: str) -> None:
        """A request computes in this sequence from now on."""
        self._clock += 1
        state = self.sequences[sequence]
        state.owner, state.last_used = owner, self._clock

    def release(self, sequence: int) -> None:
        """The request is over; its tokens stay for reuse."""
        self._clock += 1
        state = self.sequences[sequence]
        state.owner, state.last_used = "", self._clock

    def extend(self, sequence: int, tokens: Sequence[int]) -> None:
        """Tokens were computed at the end of the sequence."""
        state = self.sequences[sequence]
        cells = range(self._next_cell, self._next_cell + len(tokens))
        self._next_cell += len(tokens)
        state.tokens.extend(tokens)
        state.cells.extend(cells)
        self._users.update(cells)

    def trim(self, sequence: int, length: int) -> None:
        """Forget everything from position `length` on."""
        state = self.sequences[sequence]
        for cell in state.cells[length:]:
            self._users[cell] -= 1
            if not self._users[cell]:
                del self._users[cell]
        del state.cells[length:]
        del state.tokens[length:]

    def share(self, source: int, target: int, length: int) -> None:
        """`target`, empty before, now also holds the first `length` cells of `source`."""
        origin, state = self.sequences[source], self.sequences[target]
        state.tokens = origin.tokens[:length]
        state.cells = origin.cells[:length]
        self._users.update(state.cells)


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Number of equal elements at the start of both."""
    limit = min(len(left), len(right))
    if list(left[:limit]) == list(right[:limit]):
        return limit
    for index in range(limit):
        if left[index] != right[index]:
            return index
    return limit
