"""Lines that go on below their own text, not below what stands before it. No Textual here."""

import re
from collections.abc import Iterable, Iterator

from meshllm_tui.cleaning import cells
from meshllm_tui.present import Line, Span

_PARTS = re.compile(r"\S+|\s+")


def hang(text: Line, width: int, indent: int) -> tuple[Line, ...]:
    """`text` in lines of at most `width` cells; all but the first begin with `indent` spaces.

    Breaks at spaces only. A word that is wider than a line stays whole, and the terminal breaks it.
    """
    if _cells(text) <= width:
        return (text,)
    lines: list[list[Span]] = [[]]
    used, has_words = 0, False
    for word in _words(text):
        size = _cells(word)
        if word[0].text.isspace():
            lines[-1] += word
        elif has_words and used + size > width:
            lines[-1] = lines[-1][:-1]
            lines.append([Span(" " * indent), *word])
            used = indent
        else:
            lines[-1] += word
            has_words = True
        used += size
    return tuple(tuple(each) for each in lines)


def hang_all(lines: Iterable[Line], width: int) -> Iterator[Line]:
    """Each line hung below its first words: after a label, a bullet, or the spaces that it begins with."""
    for each in lines:
        yield from hang(each, width, _indent(each))


def _indent(text: Line) -> int:
    first = text[0].text if text else ""
    if first.startswith("· "):
        return 2
    if first.strip() and first.endswith("  "):
        return cells(first)
    whole = "".join(span.text for span in text)
    return len(whole) - len(whole.lstrip(" "))


def _words(text: Line) -> Iterator[list[Span]]:
    """What must stay together, and the spaces between: a word may be of several tones."""
    word: list[Span] = []
    for span in text:
        for part in _PARTS.findall(span.text):
            piece = Span(part, span.tone)
            if part.isspace() and word:
                yield word
                word = []
            if part.isspace():
                yield [piece]
            else:
                word.append(piece)
    if word:
        yield word


def _cells(text: Line | list[Span]) -> int:
    return sum(cells(span.text) for span in text)
