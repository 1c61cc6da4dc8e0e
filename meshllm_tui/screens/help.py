"""Every key, made from the registry of actions."""

from collections.abc import Mapping
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content

from meshllm_tui.actions.registry import help_rows
from meshllm_tui.hanging import hang
from meshllm_tui.present import Line, Span, line
from meshllm_tui.screens.dialog import Dialog
from meshllm_tui.widgets.long_text import LongText

_KEYS_WIDTH = 20
"""Cells of the column of keys."""
_WIDEST = 84
"""Cells of the dialog where the terminal has them, as its style sheet says."""
_FRAME = 7
"""Cells of its border, its padding and its scroll bar."""


def help_lines(key_map: Mapping[str, str], page: str, width: int) -> tuple[Line, ...]:
    """The help in lines of `width` cells; what works on the open page comes first."""
    lines: list[Line] = []
    for title, rows in help_rows(key_map, page):
        lines += [line(Span(title, "strong"))]
        for keys, text in rows:
            row = line("  ", Span(keys.ljust(_KEYS_WIDTH), "accent"), text)
            lines += hang(row, width, _KEYS_WIDTH + 2)
        lines += [line("")]
    return tuple(lines[:-1])


class HelpScreen(Dialog[None]):
    """All keys by place; scrolls; Esc, F1, ? and q close it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1,question_mark,q", "close", "Close", show=False),
        Binding("j", "scroll(1)", "Down", show=False),
        Binding("k", "scroll(-1)", "Up", show=False),
    ]

    def __init__(self, key_map: Mapping[str, str], page: str) -> None:
        """`key_map`: keys that a person changed. `page`: name of the one that is open."""
        super().__init__()
        self._key_map, self._page = key_map, page

    def compose(self) -> ComposeResult:
        """The table of keys."""
        with VerticalScroll(classes="dialog", id="help") as frame:
            frame.border_title = Content("Help")
            frame.border_subtitle = Content("Esc closes")
            yield LongText(self._lines(self.app.size.width))

    def on_resize(self, event: events.Resize) -> None:
        """What goes on in another line stands below its own text, however wide the dialog is."""
        self.query_one(LongText).say(self._lines(event.size.width))

    def _lines(self, columns: int) -> tuple[Line, ...]:
        width = min(_WIDEST, columns * 95 // 100) - _FRAME
        return help_lines(self._key_map, self._page, width)

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self.query_one("#help").scroll_relative(y=lines, animate=False)
