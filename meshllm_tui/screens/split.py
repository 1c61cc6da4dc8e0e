"""How a model is spread over machines: every stage, what it costs, and why so; scrolls."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from meshllm_core.ids import ModelId
from meshllm_tui.cleaning import fit
from meshllm_tui.messages import SnapshotChanged
from meshllm_tui.present import Line, NodeView, line, muted
from meshllm_tui.screens.dialog import Dialog
from meshllm_tui.split_rows import split_page
from meshllm_tui.widgets.styled import content

_AROUND = 7
"""Cells of border, padding and scroll bar around a line."""


class SplitScreen(Dialog[None]):
    """Follows its model while it is open."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,q,s", "close", "Close", show=False),
        Binding("j", "scroll(1)", "Down", show=False),
        Binding("k", "scroll(-1)", "Up", show=False),
    ]

    def __init__(self, view: Callable[[], NodeView], model: ModelId) -> None:
        super().__init__()
        self._view_now = view
        self._model = model

    def compose(self) -> ComposeResult:
        """The page."""
        with VerticalScroll(classes="dialog", id="split") as frame:
            frame.border_title = Content(fit(self._model, 60))
            frame.border_subtitle = Content("Esc closes")
            yield Static(id="split-page", markup=False)

    def on_mount(self) -> None:
        """Draw what is known, once there is a width to draw it in."""
        self.call_after_refresh(self._draw)

    def on_snapshot_changed(self, event: SnapshotChanged) -> None:
        """Draw the newest state."""
        event.stop()
        self._draw()

    def on_resize(self) -> None:
        """Fit the page to the new width."""
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        snapshot = self._view_now().snapshot
        model = snapshot.model(self._model) if snapshot is not None else None
        width = max(self.query_one("#split").outer_size.width - _AROUND, 20)
        page: tuple[Line, ...] = (line(muted("It is not loaded any more.")),)
        if model is not None:
            page = split_page(model, width)
        shown = content(page)
        static = self.query_one("#split-page", Static)
        if static.content != shown:
            static.update(shown)

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self.query_one("#split").scroll_relative(y=lines, animate=False)
