"""Prompts that are kept outside the KV cache for requests that begin alike. Pure: states are opaque bytes.

Every step of a unified cache looks at all cells up to the highest that is used, whoever owns them, so idle
prefixes in it slow down everybody: a dozen of 512 tokens cost a tenth of the speed. Moving one out or back
in takes some milliseconds, computing it again takes seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from meshllm_core.engine.kv import common_prefix


@dataclass(frozen=True)
class Parked:
    """One sequence as llama.cpp saved it."""

    tokens: tuple[int, ...]
    state: bytearray


class Parking:
    """Bounded in bytes; the one that was parked first leaves first."""

    def __init__(self, limit: int) -> None:
        """`limit` in bytes; 0 keeps nothing."""
        self._limit = limit
        self._entries: list[Parked] = []

    @property
    def size(self) -> int:
        """Bytes held."""
        return sum(len(entry.state) for entry in self._entries)

    def admits(self, size: int) -> bool:
        """Whether a state of this many bytes would be kept at all."""
        return 0 < size <= self._limit

    def make_room(self, size: int, tokens: Sequence[int]) -> None:
        """Before a state of `size` bytes for `tokens` is made: entries that it continues leave, as they say
        less, and then the oldest. Old and new never lie in memory together beyond the limit."""
        self._entries = [
            other for other in self._entries if common_prefix(other.tokens, tokens) < len(other.tokens)
        ]
        while self._entries and self.size + size > self._limit:
            self._entries.pop(0)

    def add(self, entry: Parked) -> None:
        """Keep it, at the price of others; nothing happens when it is larger than the limit."""
        if self.admits(len(entry.state)):
            self.make_room(len(entry.state), entry.tokens)
            self._entries.append(entry)

    def best_match(self, prompt: Sequence[int]) -> tuple[Parked, int] | None:
        """The entry that shares the longest beginning with `prompt`, and that length."""
        scored = [(common_prefix(entry.tokens, prompt), entry) for entry in self._entries]
        length, entry = max(scored, key=lambda pair: pair[0], default=(0, None))
        return (entry, length) if entry is not None and length else None

    def remove(self, entry: Parked) -> None:
        """It lives in the KV cache again."""
        self._entries.remove(entry)
