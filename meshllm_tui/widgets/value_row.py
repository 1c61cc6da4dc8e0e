"""Lines that take the keyboard and say so by a marker; one of a few values behind a label."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from textual.widgets import Static

Value = TypeVar("Value")


class MarkedLine(Static, can_focus=True):
    """Is drawn anew when the keyboard comes or goes; how is for those who build on it."""

    def on_mount(self) -> None:
        """Draw it."""
        self._draw()

    def watch_has_focus(self, focused: bool) -> None:
        """The marker shows without colour too."""
        super().watch_has_focus(focused)
        if self.is_mounted:
            self._draw()

    def _draw(self) -> None:
        raise NotImplementedError


class ValueRow(MarkedLine, Generic[Value]):
    """Keeps which value is taken; how it is drawn and changed is for those who build on it."""

    def __init__(
        self, label: str, values: Sequence[tuple[Value, str]], id: str, at: int = 0, *, classes: str = ""
    ) -> None:
        """`values`: each with its words. `at`: which is taken at first."""
        super().__init__(id=id, classes=classes, markup=False)
        self._label, self._values, self._at = label, values, at

    @property
    def value(self) -> Value:
        """The one taken."""
        return self._values[self._at][0]
