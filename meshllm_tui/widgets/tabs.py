"""The panes' names in one row, where not all panes fit; each can be clicked, or reached by its number."""

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Static

PANES: tuple[tuple[str, str], ...] = (
    ("node", "Node"),
    ("models", "Models"),
    ("chat", "Chat"),
    ("log", "Log"),
    ("mesh", "Mesh"),
)


class _Tab(Static):
    """One pane's name."""

    def __init__(self, pane: str, text: str) -> None:
        super().__init__(text, id=f"tab-{pane}", markup=False)
        self._pane = pane

    def on_click(self, event: events.Click) -> None:
        """Ask for the pane."""
        event.stop()
        self.post_message(PaneTabs.Chosen(self._pane))


class PaneTabs(Horizontal):
    """One tab per pane."""

    class Chosen(Message):
        """A tab was clicked."""

        def __init__(self, pane: str) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self) -> None:
        super().__init__(id="tabs")

    def compose(self) -> ComposeResult:
        """The names with their numbers."""
        for number, (pane, title) in enumerate(PANES, 1):
            yield _Tab(pane, f"{number} {title}")

    def mark(self, active: str) -> None:
        """Show which pane is active."""
        for tab in self.query(_Tab):
            tab.set_class(tab.id == f"tab-{active}", "-active")
