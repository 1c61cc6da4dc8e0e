"""One setting with a few values, changed with the left and right keys."""

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from meshllm_tui.present import Span, line, muted
from meshllm_tui.widgets.styled import content
from meshllm_tui.widgets.value_row import Value, ValueRow

_LABEL = 16


class Choice(ValueRow[Value]):
    """Shows its label and the chosen value's words; `value` is the chosen one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l,space", "turn(1)", "Change", key_display="← →", tooltip="Take the next value."),
        Binding("left,h", "turn(-1)", "Change", show=False),
        Binding("down,j", "app.focus_next", "Next", show=False),
        Binding("up,k", "app.focus_previous", "Back", show=False),
    ]

    def __init__(self, label: str, values: Sequence[tuple[Value, str]], id: str, at: int = 0) -> None:
        super().__init__(label, values, id, at, classes="choice")

    def on_click(self, event: events.Click) -> None:
        """A click takes the next value."""
        event.stop()
        self.focus()
        self.action_turn(1)

    def action_turn(self, by: int) -> None:
        """Take the next value, or the one before."""
        self._at = (self._at + by) % len(self._values)
        self._draw()

    def _draw(self) -> None:
        words = self._values[self._at][1]
        focused = self.has_focus
        mark = "▸ " if focused else "  "
        value = Span(words, "strong" if focused else "plain")
        sides = [Span(arrow if focused else "  ", "accent") for arrow in ("‹ ", " ›")]
        self.update(
            content([line(Span(mark, "accent"), muted(self._label.ljust(_LABEL)), sides[0], value, sides[1])])
        )
