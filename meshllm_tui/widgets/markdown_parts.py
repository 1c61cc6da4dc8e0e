"""Markdown as parts that know how to wrap themselves: one widget then draws any number of them.

Textual's own Markdown widget is a widget for each paragraph and each item of a list. Every piece of an
answer that streams in lays all of them out again, and with a long answer a key press waits for that.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Protocol

from textual.content import Content
from textual.style import Style

from meshllm_tui.cleaning import one_line

if TYPE_CHECKING:
    from markdown_it.token import Token

BULLETS = "•◦▪"
CODE_GROUND = "on $panel"
CODE_HIGHLIGHTED = 20_000
"""Characters; longer code is shown without colours."""
LINK_LIMIT = 2000
_DEEPEST = 8
"""Levels of lists and quotes that are indented; a model may write more."""
_NARROWEST = 12
"""Cells that a text has at least, however deep it stands."""
_MARKS = {"strong_open": "bold", "em_open": "italic", "s_open": "strike"}
_NO_TEXT = Content("")


class Part(Protocol):
    """A block of an answer."""

    @property
    def gap(self) -> bool:
        """An empty line stands before it."""

    def lines(self, width: int) -> Iterator[Content]:
        """The block in lines of at most `width` cells."""


@dataclass(frozen=True)
class TextPart:
    """Words, or code, that wrap beside what stands at their left."""

    text: Content
    first: Content = _NO_TEXT
    """At the left of the first line: bullets, bars."""
    rest: Content = _NO_TEXT
    """At the left of all others, as wide as `first`."""
    gap: bool = True
    ground: str = ""
    """Style of the whole width, for code."""

    def lines(self, width: int) -> Iterator[Content]:
        """The block, wrapped."""
        room = max(width - self.first.cell_length, _NARROWEST)
        side = self.first
        for each in self.text.wrap(room):
            row = each.pad_right(max(room - each.cell_length, 0)) if self.ground else each
            yield side + (row.stylize_before(self.ground) if self.ground else row)
            side = self.rest


@dataclass(frozen=True)
class TablePart:
    """A table; cells wrap where it is wider than the screen."""

    rows: tuple[tuple[Content, ...], ...]
    """The first is the header."""
    side: Content = _NO_TEXT
    gap: bool = True

    def lines(self, width: int) -> Iterator[Content]:
        """The rows, a rule below the header."""
        columns = max(map(len, self.rows), default=0)
        room = max(width - self.side.cell_length - 2 * (columns - 1), columns * 3)
        widths = _shared(self._natural(columns), room)
        for place, row in enumerate(self.rows):
            wrapped = [cell.wrap(wide) for cell, wide in zip(row, widths, strict=False)]
            for cells_of_line in zip_longest(*wrapped, fillvalue=_NO_TEXT):
                padded = [
                    each.pad_right(max(wide - each.cell_length, 0))
                    for each, wide in zip(cells_of_line, widths, strict=False)
                ]
                yield self.side + Content("  ").join(padded)
            if place == 0:
                rule = "  ".join("─" * wide for wide in widths)
                yield self.side + Content.styled(rule, "$muted")

    def _natural(self, columns: int) -> list[int]:
        widths = [1] * columns
        for row in self.rows:
            for place, cell in enumerate(row):
                widths[place] = max(widths[place], cell.cell_length)
        return widths


def _shared(wanted: list[int], room: int) -> list[int]:
    """Widths of columns within `room`: the widest give way first."""
    widths = list(wanted)
    while widths and sum(widths) > room:
        widest = max(widths)
        at = [place for place, wide in enumerate(widths) if wide == widest]
        below = max((wide for wide in widths if wide < widest), default=1)
        over = sum(widths) - room
        step = max(min(widest - below, -(-over // len(at))), 1)
        if widest - step < 1:
            break
        for place in at:
            widths[place] -= step
    return widths


def parts_of(tokens: Sequence["Token"], highlight: Callable[[str, str], Content]) -> list[Part]:
    """The parts of a parsed text. `highlight` gives code its colours, by its language."""
    return _Builder(highlight).build(tokens)


class _Builder:
    def __init__(self, highlight: Callable[[str, str], Content]) -> None:
        self._highlight = highlight
        self._parts: list[Part] = []
        self._sides: list[tuple[Content, Content]] = []
        """What stands at the left, level by level: for the next line, and for those after it."""
        self._numbers: list[int | None] = []
        """For each open list its next number; None: bullets."""
        self._tight = False
        self._heading = 0
        self._table: list[list[Content]] | None = None

    def build(self, tokens: Sequence["Token"]) -> list[Part]:
        for token in tokens:
            method = getattr(self, f"_on_{token.type}", None)
            if method is not None:
                method(token)
        return self._parts

    def _side(self) -> tuple[Content, Content]:
        shown = self._sides[:_DEEPEST]
        first = Content("").join(each for each, _ in shown)
        rest = Content("").join(each for _, each in shown)
        self._sides = [(after, after) for _, after in self._sides]
        return first, rest

    def _add(self, text: Content, *, ground: str = "", gap: bool | None = None) -> None:
        first, rest = self._side()
        if gap is None:
            gap = not (self._tight and self._numbers)
        self._parts.append(TextPart(text, first, rest, gap=gap, ground=ground))

    def _on_inline(self, token: "Token") -> None:
        text = inline(token.children or [])
        if self._table is not None:
            self._table[-1].append(text.stylize("bold") if len(self._table) == 1 else text)
        elif self._heading:
            self._add(text.stylize("bold $accent-text" if self._heading < 3 else "bold"))
        else:
            self._add(text)

    def _on_heading_open(self, token: "Token") -> None:
        self._heading = int(token.tag[1:] or 1)

    def _on_heading_close(self, _: "Token") -> None:
        self._heading = 0

    def _on_hr(self, _: "Token") -> None:
        self._add(Content.styled("─" * 24, "$muted"))

    def _on_bullet_list_open(self, _: "Token") -> None:
        self._numbers.append(None)

    def _on_ordered_list_open(self, token: "Token") -> None:
        self._numbers.append(int(token.attrs.get("start", 1)))

    def _on_bullet_list_close(self, _: "Token") -> None:
        self._numbers.pop()
        self._tight = bool(self._numbers)

    _on_ordered_list_close = _on_bullet_list_close

    def _on_list_item_open(self, token: "Token") -> None:
        number = self._numbers[-1] if self._numbers else None
        mark = BULLETS[(len(self._numbers) - 1) % len(BULLETS)] if number is None else f"{number}."
        if number is not None:
            self._numbers[-1] = number + 1
        first = Content.styled(f"{mark} ", "$accent-text")
        self._sides.append((first, Content(" " * first.cell_length)))
        # The first item stands apart from the text before the list; the others only where the list is loose.
        self._tight = bool(self._parts) and self._tight

    def _on_list_item_close(self, _: "Token") -> None:
        self._sides.pop()
        self._tight = True

    def _on_blockquote_open(self, _: "Token") -> None:
        bar = Content.styled("▎ ", "$muted")
        self._sides.append((bar, bar))

    def _on_blockquote_close(self, _: "Token") -> None:
        self._sides.pop()

    def _on_fence(self, token: "Token") -> None:
        code = token.content.rstrip("\n")
        language = one_line(token.info, 30).split(" ")[0]
        label = Content.assemble(
            (f" {language or 'code'}  ", "$muted"),
            Content.styled("copy", "$accent-text underline").stylize(Style.from_meta({"code": code})),
        )
        self._add(label, ground=CODE_GROUND)
        short = language and len(code) <= CODE_HIGHLIGHTED
        text = self._highlight(code, language) if short else Content(code)
        for each in text.split("\n", allow_blank=True):
            self._sides.append((Content.styled(" ", CODE_GROUND),) * 2)
            self._add(each, ground=CODE_GROUND, gap=False)
            self._sides.pop()

    _on_code_block = _on_fence

    def _on_html_block(self, token: "Token") -> None:
        self._add(Content(token.content.rstrip("\n")))

    def _on_table_open(self, _: "Token") -> None:
        self._table = []

    def _on_tr_open(self, _: "Token") -> None:
        if self._table is not None:
            self._table.append([])

    def _on_table_close(self, _: "Token") -> None:
        rows = tuple(tuple(row) for row in self._table or ())
        self._table = None
        self._parts.append(TablePart(rows, self._side()[1]))


def inline(tokens: Sequence["Token"]) -> Content:
    """Words with their marks; links carry their address as meta information, for who handles the click."""
    pieces: list[Content] = []
    marks: list[str] = []
    links: list[str] = []
    for token in tokens:
        text = ""
        if token.type in ("text", "html_inline"):
            text = token.content
        elif token.type == "code_inline":
            pieces.append(Content.styled(token.content, "$warn"))
        elif token.type in ("softbreak", "hardbreak"):
            text = "\n" if token.type == "hardbreak" else " "
        elif token.type == "image":
            text = f"[picture: {token.content}]"
        elif token.type in _MARKS:
            marks.append(_MARKS[token.type])
        elif token.type == "link_open":
            links.append(one_line(str(token.attrs.get("href", "")), LINK_LIMIT))
        elif token.type == "link_close" and links:
            links.pop()
        elif token.type.endswith("_close") and marks:
            marks.pop()
        if text:
            piece = Content.styled(text, " ".join(marks)) if marks else Content(text)
            if links:
                piece = piece.stylize("$accent-text underline").stylize(Style.from_meta({"link": links[-1]}))
            pieces.append(piece)
    return Content("").join(pieces)
