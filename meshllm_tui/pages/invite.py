"""The page of invites: make one and show its code, see who used which, join a mesh."""

from functools import partial
from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Horizontal

from meshllm_core.errors import MeshError
from meshllm_core.state.mesh_events import InviteRow
from meshllm_tui.cleaning import one_line
from meshllm_tui.pages.page import MEDIUM, WIDE, Page
from meshllm_tui.present import Span, error_lines, line
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.invite_code import CodeScreen
from meshllm_tui.screens.open_picture import PictureScreen
from meshllm_tui.widgets.invite_pane import InvitePane
from meshllm_tui.widgets.invites_pane import InvitesPane
from meshllm_tui.widgets.join_pane import JoinPane

TALL = 37
"""Rows from which the code has room on the page, above the list and the join box."""
BOTH = 24
"""Rows from which the form has room above the list."""


class InvitePage(Page):
    """How a machine gets in, and how this one gets into a mesh."""

    NAME = "invite"
    PANES = ("invite", "invites", "join")
    FIRST = "invite"

    def body(self) -> ComposeResult:
        """The form with its code; below it the list and the join box."""
        yield InvitePane(self.session.act)
        with Horizontal(id="invite-below"):
            yield InvitesPane()
            yield JoinPane(self.session.act, self.dashboard.sources)

    def place_panes(self) -> None:
        """All of them where there is room; else form and list, or the join box; else one."""
        columns, rows = self.app.size
        everything = columns >= WIDE and rows >= TALL
        both = columns >= MEDIUM and rows >= BOTH
        joining = self.active == "join"
        shown = {
            "invite": everything or (not joining if both else self.active == "invite"),
            "invites": everything or (not joining if both else self.active == "invites"),
            "join": everything or joining,
        }
        for name in self.PANES:
            self.query_one(f"#{name}").display = shown[name]
        self.query_one("#invite-below").display = shown["invites"] or shown["join"]
        self.set_class(shown["invites"] or shown["join"], "-both")
        self._invite.give_room(everything)

    @property
    def _invite(self) -> InvitePane:
        return self.query_one(InvitePane)

    def on_invite_pane_full(self, event: InvitePane.Full) -> None:
        """The code over the whole screen."""
        event.stop()
        self.app.push_screen(CodeScreen(self.session, event.made))

    async def on_invites_pane_wanted(self, event: InvitesPane.Wanted) -> None:
        """Something with one of the invites."""
        event.stop()
        row, made = event.row, self._invite.token(event.row.id)
        if event.what == "revoke":
            ask = AskScreen(
                f"Take invite {one_line(row.id, 10)} back?",
                "Nobody can join with it any more. Who joined with it stays a member.",
                (("cancel", "Keep it"), ("revoke", "Take it back")),
            )
            self.app.push_screen(ask, partial(self._revoke, row))
        elif event.what == "copy":
            self.app.copy_to_clipboard(made.token if made is not None else row.id)
            what = "token. Whoever has it can join" if made is not None else "invite's id"
            self.notify(f"Copied the {what}.", markup=False)
        elif made is not None:
            await self._invite.take(made)
        else:
            words = "Its code was shown when it was made, and is kept nowhere. Make another invite."
            self._invite.say((line(Span(words, "warn")),))

    def _revoke(self, row: InviteRow, answer: str | None) -> None:
        if answer == "revoke":
            self.run_worker(self._revoking(row.id), group="invite", exclusive=True, exit_on_error=False)

    async def _revoking(self, invite: str) -> None:
        try:
            await self.session.act("revoke", target=invite, confirm=True)
        except MeshError as error:
            self._invite.say(error_lines(error.message, error.hint))
        else:
            self._invite.forget(invite)
            self._invite.say((line(f"Invite {one_line(invite, 10)} is taken back."),))

    def on_join_pane_wanted(self, event: JoinPane.Wanted) -> None:
        """Show the mesh, or ask for a picture."""
        event.stop()
        if event.what == "mesh":
            self.dashboard.go("mesh", "mesh")
        else:
            self.app.push_screen(PictureScreen(), self._opened)

    def _opened(self, path: Path | None) -> None:
        if path is not None:
            self.query_one(JoinPane).start(str(path))
