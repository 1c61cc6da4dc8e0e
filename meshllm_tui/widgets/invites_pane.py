"""The invites that were made: open ones first, who used them, how long they last."""

from textual.message import Message
from textual.widgets import OptionList

from meshllm_core.state.mesh_events import InviteRow
from meshllm_tui.join_words import empty_invites, invite_lines
from meshllm_tui.keys import bindings_of
from meshllm_tui.present import NodeView, link_words, plain
from meshllm_tui.widgets.pane import RowList

INVITES_SHOWN = 50


class InvitesPane(RowList):
    """The live list."""

    BINDINGS = bindings_of("invites")

    class Wanted(Message):
        """`what` is to be done with an invite: code, revoke, copy."""

        def __init__(self, what: str, row: InviteRow) -> None:
            super().__init__()
            self.what, self.row = what, row

    def __init__(self) -> None:
        super().__init__("invites", "Invites")
        self._rows_by_id: dict[str, InviteRow] = {}
        self._view = NodeView()

    def show(self, view: NodeView) -> None:
        """Draw what is new; ages stay true."""
        self._view = view
        snapshot = view.snapshot
        rows = snapshot.mesh.invites if snapshot and snapshot.mesh else ()
        newest = sorted(rows, key=lambda row: (row.state != "open", -row.created_at))[:INVITES_SHOWN]
        self._rows_by_id = {row.id: row for row in newest}
        more = (
            f"{len(rows) - INVITES_SHOWN} older ones: `meshllm invites`" if len(rows) > INVITES_SHOWN else ""
        )
        stale = plain((link_words(view),)) if snapshot is not None else ""
        if self.border_subtitle != (stale or more):
            self.border_subtitle = stale or more
        if not newest:
            self.show_note(empty_invites(view))
        else:
            width = max(self.outer_size.width - 5, 40)
            self.show_rows(
                [row.id for row in newest], [invite_lines(row, view.wall, width) for row in newest]
            )
        self.refresh_bindings()

    def on_resize(self) -> None:
        """Rows are made for a width."""
        self.show(self._view)

    @property
    def _row(self) -> InviteRow | None:
        return self._rows_by_id.get(self.chosen or "")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """All need an invite; only an open one can be taken back."""
        if action not in ("code", "revoke", "copy"):
            return True
        return self._row is not None and (action != "revoke" or self._row.state == "open")

    def on_option_list_option_highlighted(self) -> None:
        """Another invite may have other keys."""
        self.refresh_bindings()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter, or a click."""
        event.stop()
        self._want("code")

    def _want(self, what: str) -> None:
        if self._row is not None:
            self.post_message(self.Wanted(what, self._row))

    def action_code(self) -> None:
        """Show its code again."""
        self._want("code")

    def action_revoke(self) -> None:
        """Take it back."""
        self._want("revoke")

    def action_copy(self) -> None:
        """Copy its token or id."""
        self._want("copy")
