"""A Markdown text that grows: what cannot change any more is parsed and wrapped once."""

from typing import TYPE_CHECKING

from textual.content import Content

from meshllm_tui.widgets.markdown_parts import Part, parts_of

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

TAIL_LIMIT = 16_000
"""Characters of one block that are parsed again with each piece; a longer block is taken as several."""
_FENCE_LIMIT = 64


class Document:
    """Lines of a text for one width."""

    def __init__(self) -> None:
        self._tail = ""
        """The text from the last block on: it may still change."""
        self._settled: list[Part] = []
        self._open: list[Part] = []
        self._width = 0
        self._lines: list[Content] = []
        """Of the settled parts in `_width`."""
        self._wrapped = 0
        """So many settled parts are in `_lines`."""

    def append(self, text: str) -> None:
        """Add a piece at the end."""
        self._tail += text
        tokens = _parser().parse(self._tail)
        start = _last_block(tokens)
        lines = self._tail.splitlines(keepends=True)
        last = tokens[-1] if tokens else None
        if start:
            head = [token for token in tokens if token.map is None or token.map[0] < start]
            # The closing tokens of the last block have no place of their own.
            cut = _index_of_block(tokens, start)
            self._settled += parts_of(tokens[:cut] if cut else head, highlighted)
            self._tail = "".join(lines[start:])
            tokens = tokens[cut:]
        if len(self._tail) > TAIL_LIMIT:
            self._settled += parts_of(tokens, highlighted)
            self._tail = _opening(last) if last is not None and last.type == "fence" else ""
            tokens = []
        self._open = parts_of(tokens, highlighted)

    def lines(self, width: int) -> list[Content]:
        """All lines of at most `width` cells."""
        if width != self._width:
            self._width, self._lines, self._wrapped = width, [], 0
        for part in self._settled[self._wrapped :]:
            _put(self._lines, part, width)
        self._wrapped = len(self._settled)
        if not self._open:
            return list(self._lines)
        shown = list(self._lines)
        for part in self._open:
            _put(shown, part, width)
        return shown


def _put(lines: list[Content], part: Part, width: int) -> None:
    if part.gap and lines:
        lines.append(Content(""))
    lines.extend(part.lines(width))


def _last_block(tokens: list["Token"]) -> int:
    """The line that the last block begins in."""
    return next((token.map[0] for token in reversed(tokens) if token.level == 0 and token.map), 0)


def _index_of_block(tokens: list["Token"], start: int) -> int:
    """Where the tokens of the block that begins in line `start` begin."""
    for place, token in enumerate(tokens):
        if token.level == 0 and token.map and token.map[0] == start:
            return place
    return 0


def _opening(fence: "Token") -> str:
    """The line that opens a fence anew, for the rest of code that is taken as several blocks."""
    return f"{fence.markup[:_FENCE_LIMIT]}{fence.info[:_FENCE_LIMIT]}\n"


def _parser() -> "MarkdownIt":
    # Not needed before the first answer, and would delay the page.
    from markdown_it import MarkdownIt

    return MarkdownIt("gfm-like")


def highlighted(code: str, language: str) -> Content:
    """Code in its language's colours."""
    from textual.highlight import highlight

    return highlight(code, language=language)
