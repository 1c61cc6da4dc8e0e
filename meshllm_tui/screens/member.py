"""All that is known of one member; scrolls."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from meshllm_tui.cleaning import fit
from meshllm_tui.member_facts import member_page
from meshllm_tui.mesh_words import name_of
from meshllm_tui.messages import SnapshotChanged
from meshllm_tui.present import Line, NodeView, line, muted
from meshllm_tui.screens.dialog import Dialog
from meshllm_tui.widgets.styled import content

_WIDEST = 82
"""Cells of the dialog where the terminal has them, as its style sheet says."""
_FRAME = 7
"""Cells of its border, its padding and its scroll bar."""


class MemberScreen(Dialog[None]):
    """Follows its member while it is open."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,q", "close", "Close", show=False),
        Binding("j", "scroll(1)", "Down", show=False),
        Binding("k", "scroll(-1)", "Up", show=False),
    ]

    def __init__(self, view: Callable[[], NodeView], node: str) -> None:
        super().__init__()
        self._view_now = view
        self._node = node

    def compose(self) -> ComposeResult:
        """The page."""
        with VerticalScroll(classes="dialog", id="member") as frame:
            frame.border_subtitle = Content("Esc closes")
            yield Static(id="member-page", markup=False)

    def on_mount(self) -> None:
        """Draw what is known now, and keep ages true."""
        self.set_interval(1.0, self._draw)
        self._draw()

    def on_resize(self) -> None:
        """Lines are made for a width."""
        self._draw()

    def on_snapshot_changed(self, event: SnapshotChanged) -> None:
        """Draw the newest state."""
        event.stop()
        self._draw()

    def _draw(self) -> None:
        view = self._view_now()
        peers = view.snapshot.peers if view.snapshot else ()
        row = next((each for each in peers if each.node == self._node), None)
        page: tuple[Line, ...] = (line(muted("It is not listed any more.")),)
        if row is not None:
            width = min(_WIDEST, self.app.size.width * 95 // 100) - _FRAME
            page = member_page(row, view, width)
            self.query_one("#member").border_title = Content(fit(name_of(row), 60))
        shown = content(page)
        static = self.query_one("#member-page", Static)
        if static.content != shown:
            static.update(shown)

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self.query_one("#member").scroll_relative(y=lines, animate=False)
