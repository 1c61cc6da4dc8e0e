"""A setting on a scale: moved with the left and right keys, or by a click on its track."""

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from meshllm_tui.present import Span, line, muted
from meshllm_tui.widgets.styled import content
from meshllm_tui.widgets.value_row import Value, ValueRow

LABEL = 12


class Slider(ValueRow[Value]):
    """Shows label, track and the words of the value. It stops at both ends."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,plus", "move(1)", "Change", key_display="← →", tooltip="Take the next value."),
        Binding("left,minus", "move(-1)", "Change", show=False),
        Binding("home", "to(0)", "First", show=False),
        Binding("end", "to(999)", "Last", show=False),
        Binding("down,j", "app.focus_next", "Next", show=False),
        Binding("up,k", "app.focus_previous", "Back", show=False),
    ]

    class Moved(Message):
        """Another value was taken."""

    def __init__(self, label: str, values: Sequence[tuple[Value, str]], id: str, at: int = 0) -> None:
        super().__init__(label, values, id, at, classes="slider")
        self._first = at

    @property
    def moved(self) -> bool:
        """Whether it is elsewhere than at the beginning."""
        return self._at != self._first

    def reset(self) -> None:
        """Take the value of the beginning, without a word."""
        self._at = self._first
        self._draw()

    def on_click(self, event: events.Click) -> None:
        """A click on the track takes the value there; elsewhere it only gives the keyboard."""
        event.stop()
        self.focus()
        at = event.x - 2 - LABEL
        if 0 <= at < len(self._values):
            self.action_to(at)

    def action_move(self, by: int) -> None:
        """The next value, or the one before."""
        self.action_to(self._at + by)

    def action_to(self, at: int) -> None:
        """A value by its place."""
        at = min(max(at, 0), len(self._values) - 1)
        if at != self._at:
            self._at = at
            self._draw()
            self.post_message(self.Moved())

    def _draw(self) -> None:
        mark = "▸ " if self.has_focus else "  "
        rest = "─" * (len(self._values) - 1 - self._at)
        words = Span(f"  {self._values[self._at][1]}", "strong" if self.has_focus else "plain")
        track = (Span("━" * self._at + "●", "accent"), muted(rest))
        pad = " " * (10 - len(self._values))
        label = muted(self._label.ljust(LABEL))
        self.update(content([line(Span(mark, "accent"), label, *track, pad, words)]))
