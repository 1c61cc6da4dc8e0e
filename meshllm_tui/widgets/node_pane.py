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
        # The border, the padding and room for the scroll bar, so that lines fit when it comes.
        lines = node_lines(view, max(self.outer_size.width - 5, 20))
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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is an id to copy only when the node has told one."""
        return action != "copy_id" or bool(self._view.snapshot and self._view.snapshot.node)

    def action_copy_id(self) -> None:
        """Copy the node's whole id."""
        if self._view.snapshot is not None:
            self.app.copy_to_clipboard(self._view.snapshot.node)
            self.notify("Copied this node's id.", markup=False)
