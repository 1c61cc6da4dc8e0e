"""A line for words that narrow a list. It is there while it has words, or the keyboard."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

WORDS_LIMIT = 200


class FilterBox(Input):
    """Says `Filtered` at each change; Enter gives the keyboard back, Esc takes the words away too."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear", "Clear", key_display="Esc", tooltip="Take the filter away.")
    ]

    class Filtered(Message):
        """Other words."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    class Left(Message):
        """The keyboard goes back to the list."""

    def __init__(self, id: str) -> None:
        super().__init__(
            id=id, classes="filter", placeholder="words to look for", max_length=WORDS_LIMIT, compact=True
        )
        self.display = False

    def open(self) -> None:
        """Ask for words."""
        self.display = True
        self.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Narrow the list while the words are written."""
        event.stop()
        self.post_message(self.Filtered(event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the words."""
        event.stop()
        self._leave()

    def action_clear(self) -> None:
        """Take the words away."""
        self.value = ""
        self._leave()

    def _leave(self) -> None:
        self.display = bool(self.value)
        self.post_message(self.Left())
