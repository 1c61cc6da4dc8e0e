"""The page of activity: what happened, and the logs."""

from textual.app import ComposeResult

from meshllm_tui.pages.page import MEDIUM, Page
from meshllm_tui.widgets.activity_pane import ActivityPane
from meshllm_tui.widgets.logs_pane import LogsPane

LOW = 30
"""Rows from which both panes have room."""


class ActivityPage(Page):
    """Events in words, and the logs of the node and its engines."""

    NAME = "activity"
    PANES = ("activity", "logs")
    FIRST = "activity"

    def body(self) -> ComposeResult:
        """Events above, logs below: both have long lines."""
        yield ActivityPane()
        yield LogsPane(self.session)

    def place_panes(self) -> None:
        """Both where there is room, else the pane with the keyboard."""
        columns, rows = self.app.size
        both = columns >= MEDIUM and rows >= LOW
        for name in self.PANES:
            self.query_one(f"#{name}").display = both or name == self.active
