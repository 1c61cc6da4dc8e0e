"""Deltas put together again, so that two ways of cutting a text can be compared."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import strategies as st

from meshllm_core.serve.deltas import (
    ChatDelta,
    ContentDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallStarted,
)


@dataclass
class Joined:
    """What a client has after the last delta."""

    content: str = ""
    reasoning: str = ""
    names: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

    @property
    def calls(self) -> list[tuple[str, str]]:
        """(name, arguments) of each call."""
        return list(zip(self.names, self.arguments, strict=True))


def join(deltas: Iterable[ChatDelta]) -> Joined:
    """Put deltas together, checking that each is one that a client can use."""
    joined = Joined()
    for delta in deltas:
        match delta:
            case ContentDelta(text):
                assert text
                joined.content += text
            case ReasoningDelta(text):
                assert text
                joined.reasoning += text
            case ToolCallStarted(index, call_id, name):
                assert index == len(joined.names)
                joined.names.append(name)
                joined.arguments.append("")
                joined.ids.append(call_id)
            case ToolCallArguments(index, fragment):
                assert fragment
                assert index == len(joined.names) - 1
                joined.arguments[index] += fragment
    return joined


class Counter:
    """Entropy that repeats nothing and can be told in advance."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, size: int) -> bytes:
        self.count += 1
        return self.count.to_bytes(size, "big")


def pieces(text: str, cuts: Sequence[int]) -> list[str]:
    """`text` cut at these places (taken modulo its length)."""
    places = sorted({cut % (len(text) + 1) for cut in cuts} | {0, len(text)})
    return [text[a:b] for a, b in pairwise(places)]


cuts = st.lists(st.integers(min_value=0, max_value=10_000), max_size=12)
"""Places to cut a text at."""
