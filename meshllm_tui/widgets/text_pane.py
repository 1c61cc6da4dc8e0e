"""A pane of presented lines that scrolls."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from meshllm_tui.hanging import hang_all
from meshllm_tui.present import Line, plain
from meshllm_tui.widgets.styled import content


class TextPane(VerticalScroll):
    """Shows lines; j and k scroll, as the arrows do."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
    ]

    class Resized(Message):
        """Lines are made for a width, and it is another one."""

    def __init__(self, id: str, title: str) -> None:
        super().__init__(id=id, classes="pane text-pane")
        self.border_title = Content(title)
        self._lines: tuple[Line, ...] = ()
        self._hung_for = 0
        """Cells of a line when they were drawn."""

    def compose(self) -> ComposeResult:
        """The text."""
        yield Static(markup=False)

    @property
    def text(self) -> str:
        """What it says, as it is copied."""
        return plain(self._lines)

    @property
    def room(self) -> int:
        """Cells of a line, with room for the scroll bar."""
        return max(self.outer_size.width - 5, 20)

    def say(self, lines: tuple[Line, ...], title: str | None = None) -> None:
        """Show these lines, if they are others."""
        if title is not None and self.border_title != Content(title):
            self.border_title = Content(title)
        if (lines, self.room) != (self._lines, self._hung_for):
            self._lines, self._hung_for = lines, self.room
            self.query_one(Static).update(content(hang_all(lines, self.room)))

    def on_resize(self) -> None:
        """What is shown has to be made anew."""
        self.post_message(self.Resized())

    def focus_main(self) -> None:
        """Give the keyboard to this pane."""
        self.focus()
