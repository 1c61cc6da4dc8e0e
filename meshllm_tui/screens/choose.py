"""A list to choose one thing from."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from meshllm_tui.screens.dialog import Dialog
from meshllm_tui.widgets.pane import KeyedList

_WIDEST = 64
"""Cells of the dialog where the terminal has them, as its style sheet says."""
_FRAME = 10
"""Cells of its border, its padding, that of a row, and the scroll bar."""


def row_width(terminal: int) -> int:
    """Cells that a row may have so that it is one line, in a terminal of so many columns."""
    return min(_WIDEST, terminal * 95 // 100) - _FRAME


class ChooseScreen(Dialog[str]):
    """Gives back the key of the chosen row, or None for Esc."""

    def __init__(self, title: str, choices: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._title = title
        self._choices = choices

    def compose(self) -> ComposeResult:
        """The rows."""
        with Vertical(classes="dialog choose") as frame:
            frame.border_title = Content(self._title)
            frame.border_subtitle = Content("Enter chooses, Esc closes")
            yield KeyedList(*(Option(Content(words)) for _, words in self._choices), markup=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Give the row's key back."""
        event.stop()
        self.dismiss(self._choices[event.option_index][0])
