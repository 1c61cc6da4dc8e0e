"""Every key, made from the registry of actions."""

import textwrap
from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from meshllm_tui.actions.registry import help_rows
from meshllm_tui.present import Line, Span, line
from meshllm_tui.screens.dialog import Dialog
from meshllm_tui.widgets.styled import content

_KEYS_WIDTH = 20
"""Cells of the column of keys."""
_TEXT_WIDTH = 54
"""Cells of the column of texts, where the dialog is as wide as it gets."""


def help_lines(key_map: Mapping[str, str], page: str) -> tuple[Line, ...]:
    """The help as lines; what works on the open page comes first."""
    lines: list[Line] = []
    for title, rows in help_rows(key_map, page):
        lines += [line(Span(title, "strong"))]
        for keys, text in rows:
            first, *more = textwrap.wrap(text, _TEXT_WIDTH) or [""]
            lines += [line("  ", Span(keys.ljust(_KEYS_WIDTH), "accent"), first)]
            lines += [line(" " * (_KEYS_WIDTH + 2), rest) for rest in more]
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
            yield Static(content(help_lines(self._key_map, self._page)), markup=False)

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self.query_one("#help").scroll_relative(y=lines, animate=False)
