"""What is shown when the terminal is too small for anything else."""

from textual.app import ComposeResult
from textual.screen import ModalScreen
from textual.widgets import Static

SMALLEST = (60, 20)
"""Columns and rows that the dashboard needs."""


class SmallScreen(ModalScreen[None]):
    """One sentence with the size that is needed; goes away by itself when the terminal grows."""

    def compose(self) -> ComposeResult:
        """The sentence."""
        columns, rows = SMALLEST
        yield Static(f"meshllm needs {columns}×{rows} characters: make this terminal larger.", markup=False)
