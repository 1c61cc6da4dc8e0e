"""A model's layers drawn to scale over the whole width, one part for each stage. No Textual here.

    attic                    desk             shed
    ┣━━━━━━━━━━━━━━━━━━━━━━━━╋━━━━━━──────────╋━━━━━━━━┫
    0                        24               40       48
    ◐ loading                ↓ fetching 41 %  ● ready

Figures may come from other machines: none is believed to be in order, or small.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from meshllm_tui.cleaning import cells, fit
from meshllm_tui.present import Line, Span, Tone, line, muted

NARROWEST = 5
"""Cells of a part, with the mark at its left."""
_LARGEST = 999_999


@dataclass(frozen=True, slots=True)
class Part:
    """Layers [start, end) on one machine."""

    name: str
    start: int
    end: int
    below: Span
    """What is said below it: a state with its glyph, or a figure."""
    short: str = ""
    """The same in a few cells."""
    done: float = 1.0
    """How much of it is drawn heavy, 0 to 1."""
    tone: Tone = "plain"


def layer_map(parts: Sequence[Part], width: int) -> tuple[Line, ...]:
    """Four lines of at most `width` cells; none where there are too many parts to tell them apart."""
    if not parts or len(parts) * NARROWEST + 1 > width:
        return ()
    widths = _widths(parts, width - 1)
    names: list[Span] = []
    bar: list[Span] = []
    below: list[Span] = []
    for number, (part, room) in enumerate(zip(parts, widths, strict=True)):
        names.append(Span(_padded(fit(part.name, room - 1) or "–", room), "strong"))
        bar += [muted("╋" if number else "┣"), *_bar(part, room - 1)]
        shown = next((text for text in (part.below.text, part.short) if 0 < cells(text) < room), "")
        below.append(Span(_padded(shown or part.below.text[:1], room), part.below.tone))
    bar.append(muted("┫"))
    return (line(*names), line(*bar), line(muted(_numbers(parts, widths, width))), line(*below))


def _widths(parts: Sequence[Part], width: int) -> list[int]:
    """Cells of each part: by its layers, at least NARROWEST."""
    shares = [min(max(part.end - part.start, 1), _LARGEST) for part in parts]
    spare, total = width - NARROWEST * len(parts), sum(shares)
    ends, so_far = [0], 0
    for share in shares:
        so_far += share
        ends.append(round(so_far * spare / total))
    # What a part has too little of comes from all others, so the longer ones lose least of their share.
    return [NARROWEST + ends[place + 1] - ends[place] for place in range(len(parts))]


def _bar(part: Part, room: int) -> tuple[Span, Span]:
    heavy = round(min(max(part.done, 0.0), 1.0) * room)
    return Span("━" * heavy, part.tone), muted("─" * (room - heavy))


def _numbers(parts: Sequence[Part], widths: Sequence[int], width: int) -> str:
    """Where each part begins, and how many layers there are; what has no room is left out."""
    text = ""
    at = 0
    for part, room in zip(parts, widths, strict=True):
        if len(text) <= at:
            text = text.ljust(at) + layer_number(part.start)
        at += room
    last = layer_number(parts[-1].end)
    if len(text) < width - len(last):
        text = text.ljust(width - len(last)) + last
    return text


def layer_number(value: int) -> str:
    """A layer's number, however large it claims to be."""
    return str(min(max(value, 0), _LARGEST))


def _padded(text: str, room: int) -> str:
    return text + " " * max(room - cells(text), 0)
