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
from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.keys import bindings_of
from meshllm_tui.member_facts import fact_lines, member_facts, own_facts
from meshllm_tui.mesh_drawing import is_drawable
from meshllm_tui.mesh_rows import MEMBERS_LISTED, OWN, MemberRows, empty_mesh, header
from meshllm_tui.mesh_words import mesh_name, waiting_words
from meshllm_tui.present import Line, NodeView
from meshllm_tui.units import count
from meshllm_tui.widgets.mesh_map import MeshMap
from meshllm_tui.widgets.pane import RowList
from meshllm_tui.widgets.styled import content

_FACTS_HEIGHT = 6
"""Lines that the facts take below the members while the pane has the keyboard; kept free in any case."""
_ON_A_MEMBER = ("details", "revoke", "block", "forget")


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
            """details, revoke, block, forget, admit or leave_mesh."""
            self.row = row

    def __init__(self) -> None:
        super().__init__(id="mesh", classes="pane")
        self._view = NodeView()
        self._made = MemberRows()
        self._facts: tuple[Line, ...] = ()
        self._header: Line = ()
        self._waits: Line = ()
        self._open = False
        self._drawn: tuple[object, ...] = ()
        """What the rows were made of; ages in them are minutes."""
        self._wanted = ""
        """The row to choose once there are rows."""
        self._table = False
        """A person asked for the table where the drawing would fit."""
        self.border_title = Content("Mesh")

    def compose(self) -> ComposeResult:
        """Names of the columns, rows, facts."""
        yield Static(id="mesh-waiting", markup=False)
        yield Static(id="mesh-header", markup=False)
        yield MemberList()
        yield MeshMap()
        yield Static(id="mesh-facts", markup=False)

    @property
    def _map(self) -> MeshMap:
        return self.query_one(MeshMap)

    @property
    def _list(self) -> MemberList:
        return self.query_one(MemberList)

    def show(self, view: NodeView) -> None:
        """Draw `view`, if it says anything new."""
        self._view = view
        # The pane itself may not be laid out yet; the rows' own padding, and room for the scroll bar.
        width = max(self.content_region.width - 3, 20)
        waits = bool(view.snapshot and view.snapshot.mesh and view.snapshot.mesh.waiting)
        height = self.content_region.height - _FACTS_HEIGHT - waits
        drawn = (view.snapshot, view.link, int(view.wall // 60), width, height, self._table, view.rtts.taken)
        if not self.display or (view.snapshot is not None and _same(drawn, self._drawn)):
            return
        self._drawn = drawn
        snapshot = view.snapshot
        as_map = not self._table and is_drawable(width, height) and bool(snapshot and snapshot.mesh)
        self._swap(as_map=as_map)
        self._show_waiting(snapshot)
        if snapshot is None or snapshot.mesh is None:
            self._head((), "Mesh")
            self._list.show_note(empty_mesh(view, width))
        elif as_map:
            self._head((), f"Mesh {mesh_name(snapshot.mesh)}", len(snapshot.peers) + 1)
            self._map.draw(snapshot, width, height, view.rtts.bars)
            self.refresh_bindings()
        else:
            self._head(header(width), f"Mesh {mesh_name(snapshot.mesh)}", len(snapshot.peers) + 1)
            keys, rows = self._made.rows(view, width)
            if self._list.show_rows(keys, rows):
                self.refresh_bindings()
            if self._wanted in keys:
                self._list.highlighted = keys.index(self._wanted)
            self._wanted = ""
        self._show_facts()

    def _show_waiting(self, snapshot: NodeSnapshot | None) -> None:
        words = waiting_words(snapshot.mesh) if snapshot is not None and snapshot.mesh is not None else ()
        if words != self._waits:
            self._waits = words
            waiting = self.query_one("#mesh-waiting", Static)
            waiting.update(content([words]))
            waiting.display = bool(words)
            self.refresh_bindings()

    def on_click(self, event: events.Click) -> None:
        """A click on who waits is the question whether to let it in."""
        if event.widget is not None and event.widget.id == "mesh-waiting":
            event.stop()
            self.action_admit()

    def _swap(self, *, as_map: bool) -> None:
        """Table or drawing: the same member stays chosen, and the keyboard stays in the pane."""
        if self._map.display == as_map:
            return
        chosen, had_keys = self.chosen_key, self.has_focus_within
        self._map.display, self._list.display = as_map, not as_map
        if as_map and chosen is not None:
            self._map.chosen = chosen
        elif chosen is not None:
            self._wanted = chosen
        if had_keys:
            self.focus_main()

    def _head(self, names: Line, title: str, members: int = 0) -> None:
        words = Content(title)
        if self.border_title != words:
            self.border_title = words
        most = f", {MEMBERS_LISTED} listed; `meshllm members` has all" if members > MEMBERS_LISTED + 1 else ""
        under = Content(count(members, "member") + most if members else "")
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
            facts = fact_lines(member_facts(row, self._view), width, beside_rows=not self._map.display)
        elif self.chosen_key == OWN:
            facts = fact_lines(own_facts(self._view), width, beside_rows=not self._map.display)
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
    def chosen_key(self) -> str | None:
        """Id of the highlighted member, OWN for this node; None when there is none."""
        return self._map.chosen if self._map.display else self._list.chosen

    @property
    def chosen_member(self) -> PeerRow | None:
        """The highlighted member; None for this node itself."""
        chosen, snapshot = self.chosen_key, self._view.snapshot
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
        (self._map if self._map.display else self._list).focus()

    def on_mesh_map_moved(self, event: MeshMap.Moved) -> None:
        """Another member, other facts and other keys."""
        event.stop()
        self._show_facts()
        self.refresh_bindings()

    def on_mesh_map_opened(self, event: MeshMap.Opened) -> None:
        """Enter or a click on a chosen member shows all of it."""
        event.stop()
        self.action_details()

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
        if action in ("leave_mesh", "table"):
            return snapshot is not None and snapshot.mesh is not None
        if action == "admit":
            return bool(self._waits)
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

    def action_table(self) -> None:
        """Show the table, or the drawing where it fits."""
        self._table = not self._table
        self._drawn = ()
        self.show(self._view)
        if self._table is False and not self._map.display:
            self.notify("The drawing needs a larger window.", markup=False)

    def action_admit(self) -> None:
        """Let the machine in that has waited longest, or do not."""
        self._want("admit")

    def action_block(self) -> None:
        """Do not talk to the chosen member, or talk to it again."""
        self._want("block")

    def action_revoke(self) -> None:
        """Revoke the chosen member."""
        self._want("revoke")

    def action_forget(self) -> None:
        """Stop listing the chosen member."""
        self._want("forget")

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
