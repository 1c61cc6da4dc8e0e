"""The node: its state, addresses, memory, devices."""

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from meshllm_tui.keys import bindings_of
from meshllm_tui.present import Line, NodeView, plain
from meshllm_tui.rows import node_lines
from meshllm_tui.widgets.styled import content


class NodePane(VerticalScroll):
    """Facts of the node, one a line."""

    BINDINGS = bindings_of("node")

    def __init__(self) -> None:
        super().__init__(id="node", classes="pane")
        self.border_title = Content("Node")
        self._view = NodeView()
        self._lines: tuple[Line, ...] = ()

    def compose(self) -> ComposeResult:
        """The text that holds all facts."""
        yield Static(id="node-facts", markup=False)

    def show(self, view: NodeView) -> None:
        """Draw `view`, if it says anything new."""
        self._view = view
        lines = node_lines(view, self.content_region.width or 40)
        if lines != self._lines:
            self._lines = lines
            self.query_one("#node-facts", Static).update(content(lines))

    def on_resize(self, _: events.Resize) -> None:
        """Fit the lines to the new width."""
        self.show(self._view)

    def focus_main(self) -> None:
        """Give the keyboard to this pane."""
        self.focus()

    def action_copy(self) -> None:
        """Copy what the pane says."""
        self.app.copy_to_clipboard(plain(self._lines))
        self.notify("Copied what the node pane says.", markup=False)
