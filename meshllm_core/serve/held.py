"""What must be held back of a text that may be about to become a marker. Pure."""

from collections.abc import Sequence

BLANK_LIMIT = 64
"""White space before a marker that belongs to the marker; more than that is text."""


def find_first(text: str, markers: Sequence[str]) -> tuple[int, str]:
    """Where the first marker stands in `text`, and which; (-1, "") without one."""
    hits = [(at, marker) for marker in markers if (at := text.find(marker)) >= 0]
    return min(hits, default=(-1, ""))


def certain_length(text: str, markers: Sequence[str]) -> int:
    """How much of `text`, which holds no whole marker, cannot become white space and a marker."""
    begun = max((_begun(text, marker) for marker in markers), default=0)
    return len(text) - begun - blank_end(text[: len(text) - begun])


def blank_end(text: str) -> int:
    """Length of the white space at the end, at most BLANK_LIMIT."""
    tail = text[-BLANK_LIMIT:]
    return len(tail) - len(tail.rstrip())


def _begun(text: str, marker: str) -> int:
    """Length of the longest end of `text` that begins `marker`."""
    for size in range(min(len(text), len(marker) - 1), 0, -1):
        if marker.startswith(text[-size:]):
            return size
    return 0
