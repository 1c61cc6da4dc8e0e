"""The mesh: its members as a table, and what is known of the chosen one."""

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static

from meshllm_core.state.mesh_events import PeerRow
from meshllm_tui.keys import bindings_of
from meshllm_tui.member_facts import fact_lines, member_facts, own_facts
from meshllm_tui.mesh_rows import OWN, MemberRows, empty_mesh, header
from meshllm_tui.mesh_words import mesh_name
from meshllm_tui.present import Line, NodeView
from meshllm_tui.units import count
from meshllm_tui.widgets.pane import RowList
from meshllm_tui.widgets.styled import content

_ON_A_MEMBER = ("details", "revoke", "forget")


class MemberList(RowList):
    """The members' rows; its own Enter carries the pane's word for it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter", "select", "More", key_display="Enter", tooltip="Show all that is known of the member."
        )
    ]

    def __init__(self) -> None:
        super().__init__("members", "", classes="")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """This node's own facts are all in its pane."""
        return action != "select" or self.chosen not in (None, OWN)


class MeshPane(Vertical):
    """One row per member, this node first. The chosen one's facts show while the pane has the keyboard."""

    BINDINGS = bindings_of("mesh")

    class Wanted(Message):
        """A person asked for something to be done with the mesh, or with a member of it."""

        def __init__(self, what: str, row: PeerRow | None = None) -> None:
            super().__init__()
            self.what = what
            """details, revoke, forget, public or leave."""
            self.row = row

    def __init__(self) -> None:
        super().__init__(id="mesh", classes="pane")
        self._view = NodeView()
        self._made = MemberRows()
        self._facts: tuple[Line, ...] = ()
        self._header: Line = ()
        self._open = False
        self._drawn: tuple[object, ...] = ()
        """What the rows were made of; ages in them are minutes."""
        self.border_title = Content("Mesh")

    def compose(self) -> ComposeResult:
        """Names of the columns, rows, facts."""
        yield Static(id="mesh-header", markup=False)
        yield MemberList()
        yield Static(id="mesh-facts", markup=False)

    @property
    def _list(self) -> MemberList:
        return self.query_one(MemberList)

    def show(self, view: NodeView) -> None:
        """Draw `view`, if it says anything new."""
        self._view = view
        # The pane itself may not be laid out yet; the rows' own padding, and room for the scroll bar.
        width = max(self.content_region.width - 3, 20)
        drawn = (view.snapshot, view.link, int(view.wall // 60), width)
        if not self.display or (view.snapshot is not None and _same(drawn, self._drawn)):
            return
        self._drawn = drawn
        snapshot = view.snapshot
        if snapshot is None or snapshot.mesh is None:
            self._head((), "Mesh")
            self._list.show_note(empty_mesh(view))
        else:
            self._head(header(width), f"Mesh {mesh_name(snapshot.mesh)}", len(snapshot.peers) + 1)
            keys, rows = self._made.rows(view, width)
            if self._list.show_rows(keys, rows):
                self.refresh_bindings()
        self._show_facts()

    def _head(self, names: Line, title: str, members: int = 0) -> None:
        words = Content(title)
        if self.border_title != words:
            self.border_title = words
        under = Content(count(members, "member") if members else "")
        if self.border_subtitle != under:
            self.border_subtitle = under
        if names != self._header:
            self._header = names
            line = self.query_one("#mesh-header", Static)
            line.update(content([names]))
            line.display = bool(names)

    def _show_facts(self) -> None:
        width = max(self.content_region.width - 2, 20)
        row = self.chosen_member
        facts: tuple[Line, ...] = ()
        if row is not None:
            facts = fact_lines(member_facts(row, self._view), width)
        elif self._list.chosen == OWN:
            facts = fact_lines(own_facts(self._view), width)
        below = self.query_one("#mesh-facts", Static)
        if facts != self._facts:
            self._facts = facts
            below.update(content(facts), layout=False)
        below.display = bool(facts) and self._open

    def on_descendant_focus(self) -> None:
        """With the keyboard the pane says more of the chosen member."""
        self._open = True
        self._show_facts()

    def on_descendant_blur(self) -> None:
        """Without it, the other panes have the room."""
        self._open = False
        self._show_facts()

    @property
    def chosen_member(self) -> PeerRow | None:
        """The highlighted member; None for this node itself."""
        chosen, snapshot = self._list.chosen, self._view.snapshot
        if chosen is None or snapshot is None:
            return None
        return next((row for row in snapshot.peers if row.node == chosen), None)

    def on_resize(self, _: events.Resize) -> None:
        """Fit the rows to the new width."""
        self.show(self._view)

    def on_show(self) -> None:
        """Nothing was drawn while the pane was hidden."""
        self.show(self._view)

    def focus_main(self) -> None:
        """Give the keyboard to the members."""
        self._list.focus()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Another member, other facts and other keys."""
        event.stop()
        self._show_facts()
        self.refresh_bindings()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter or a click on a member shows all of it."""
        event.stop()
        if event.option_list.has_focus:
            self.action_details()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Most need a mesh, some a member, forgetting one that is gone."""
        snapshot = self._view.snapshot
        if action in ("public", "leave_mesh"):
            return snapshot is not None and snapshot.mesh is not None
        if action in _ON_A_MEMBER:
            row = self.chosen_member
            return row is not None and (action != "forget" or row.status in ("down", "left"))
        return True

    def _want(self, what: str) -> None:
        if self.check_action(what, ()):
            self.post_message(self.Wanted(what, self.chosen_member))

    def action_details(self) -> None:
        """Show all that is known of the chosen member."""
        self._want("details")

    def action_revoke(self) -> None:
        """Revoke the chosen member."""
        self._want("revoke")

    def action_forget(self) -> None:
        """Stop listing the chosen member."""
        self._want("forget")

    def action_public(self) -> None:
        """List the mesh publicly, or take the listing back."""
        self._want("public")

    def action_leave_mesh(self) -> None:
        """Leave the mesh."""
        self._want("leave_mesh")

    def action_copy(self) -> None:
        """Copy the chosen member's id, or this node's."""
        snapshot, row = self._view.snapshot, self.chosen_member
        node = row.node if row is not None else snapshot.node if snapshot is not None else ""
        if node:
            self.app.copy_to_clipboard(node)
            self.notify("Copied the id.", markup=False)


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Whether nothing changed. Snapshots are compared by identity: a new one is made for every event."""
    return bool(other) and one[0] is other[0] and one[1:] == other[1:]
