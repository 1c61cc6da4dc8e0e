"""What all dialogs share: Esc closes them, and nothing behind them is lost."""

from typing import ClassVar, TypeVar

from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

Result = TypeVar("Result")


class Overlay(ModalScreen[Result]):
    """Lies over a page until it is dismissed, once: keys that were pressed quickly may reach it later."""

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close with a result. Does nothing when it is closed already, or something lies over it."""
        return super().dismiss(result) if self.is_active else AwaitComplete()


class Dialog(Overlay[Result]):
    """A dialog in a frame; Esc closes it without a result."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Cancel", key_display="Esc", tooltip="Close this dialog.")
    ]

    def action_close(self) -> None:
        """Close without a result."""
        self.dismiss(None)
