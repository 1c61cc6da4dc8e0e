"""What all dialogs share: Esc closes them, and nothing behind them is lost."""

from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

Result = TypeVar("Result")


class Dialog(ModalScreen[Result]):
    """A dialog in a frame; Esc closes it without a result."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Cancel", key_display="Esc", tooltip="Close this dialog.")
    ]

    def action_close(self) -> None:
        """Close without a result."""
        self.dismiss(None)
