"""A question with a few answers, each a button."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Static

from meshllm_tui.screens.dialog import Dialog


class AskScreen(Dialog[str]):
    """Gives back the key of the chosen answer, or None for Esc. The first answer is the default."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "app.focus_previous", "Choose", key_display="← →"),
        Binding("right,l", "app.focus_next", "Choose", show=False),
    ]

    def __init__(self, question: str, text: str, answers: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._question = question
        self._text = text
        self._answers = answers

    def compose(self) -> ComposeResult:
        """The question, what it means, the answers."""
        with Vertical(classes="dialog") as frame:
            frame.border_title = Content(self._question)
            frame.border_subtitle = Content("Esc cancels")
            yield Static(self._text, markup=False)
            with Horizontal(classes="buttons"):
                for key, words in self._answers:
                    yield Button(Content(words), id=f"answer-{key}", compact=True)

    def on_mount(self) -> None:
        """Enter takes the first answer."""
        self.query(Button).first(Button).focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Give the answer back."""
        event.stop()
        self.dismiss((event.button.id or "").removeprefix("answer-"))
