"""Invites: make one, see those that were made, take them back."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import msgspec
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, OptionList, Static
from textual.worker import Worker, WorkerState

from meshllm_core.api.schema_mesh import InviteAnswer
from meshllm_core.errors import MeshError, NodeError, describe
from meshllm_core.state.mesh_events import InviteRow
from meshllm_tui.cleaning import one_line
from meshllm_tui.join_words import invite_line
from meshllm_tui.messages import SnapshotChanged
from meshllm_tui.present import Line, Span, error_lines, line, muted
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.dialog import Dialog
from meshllm_tui.screens.invite_code import CodeScreen
from meshllm_tui.session import Session
from meshllm_tui.widgets.choice import Choice
from meshllm_tui.widgets.pane import RowList
from meshllm_tui.widgets.styled import content

HOUR, DAY = 3600.0, 86_400.0
USES: tuple[tuple[int, str], ...] = (
    (1, "one machine"),
    (3, "3 machines"),
    (10, "10 machines"),
    (0, "any number"),
)
EXPIRY: tuple[tuple[float, str], ...] = (
    (HOUR, "1 hour"),
    (DAY, "1 day"),
    (7 * DAY, "1 week"),
    (30 * DAY, "30 days"),
)
ROLES: tuple[tuple[str, str], ...] = (("host", "host: computes for others"), ("client", "client: only asks"))
MAY_INVITE: tuple[tuple[bool, str], ...] = ((False, "no"), (True, "yes, others in turn"))
TOKENS_KEPT = 32
"""Tokens of invites made here that can be shown again; the oldest are forgotten."""
INVITES_SHOWN = 50


class InviteScreen(Dialog[None]):
    """The form and the list. Tokens that were made in this dashboard can be shown again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "app.focus_previous", "Back", show=False),
        Binding("down", "app.focus_next", "Next", show=False),
        Binding("x", "revoke", "Revoke", key_display="x", tooltip="Take the chosen invite back."),
    ]

    def __init__(self, session: Session, tokens: dict[str, InviteAnswer]) -> None:
        super().__init__()
        self._session = session
        self._tokens = tokens

    def compose(self) -> ComposeResult:
        """Four choices, the button, the list, room for a refusal."""
        with Vertical(classes="dialog", id="invite") as frame:
            frame.border_title = Content("Invite a machine")
            frame.border_subtitle = Content("↑ ↓ choose a line, ← → change it, Esc closes")
            yield Choice("For", USES, id="uses")
            yield Choice("Usable for", EXPIRY, id="expiry", at=1)
            yield Choice("Role", ROLES, id="role")
            yield Choice("May invite", MAY_INVITE, id="may-invite")
            with Horizontal(classes="buttons"):
                yield Button(Content("Make the invite"), id="make", compact=True)
            yield Static(id="invite-note", classes="note", markup=False)
            yield Static(id="invites-title", markup=False)
            yield RowList("invites", "", classes="")

    def on_mount(self) -> None:
        """Enter makes an invite at once; ages stay true."""
        self.query_one("#make").focus()
        self.set_interval(1.0, self._draw)
        self._draw()

    def on_snapshot_changed(self, event: SnapshotChanged) -> None:
        """An invite may have been used."""
        event.stop()
        self._draw()

    def _invites(self) -> tuple[InviteRow, ...]:
        snapshot = self._session.snapshot
        rows = snapshot.mesh.invites if snapshot and snapshot.mesh else ()
        newest = sorted(rows, key=lambda row: (row.state != "open", -row.created_at))
        return tuple(newest[:INVITES_SHOWN])

    def _draw(self) -> None:
        rows, wall = self._invites(), self._session.view().wall
        shown = self.query_one("#invites", RowList)
        shown.display = bool(rows)
        title = self.query_one("#invites-title", Static)
        title.display = bool(rows)
        if rows:
            keys = (Span("x", "accent"), muted(" takes one back, "), Span("Enter", "accent"))
            words = content([line(Span("Invites", "strong"), "  ", *keys, muted(" shows its code again"))])
            if title.content != words:
                title.update(words)
            width = max(shown.outer_size.width - 3, 40)
            shown.show_rows([row.id for row in rows], [(invite_line(row, wall, width),) for row in rows])

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Make it."""
        event.stop()
        self._say((line(Span("◌ asking the node…", "accent")),))
        asked: dict[str, Any] = {
            "uses": self.query_one("#uses", Choice).value,
            "expires_seconds": self.query_one("#expiry", Choice).value,
            "role": self.query_one("#role", Choice).value,
            "may_invite": self.query_one("#may-invite", Choice).value,
        }
        self.run_worker(self._make(asked), group="invite", exclusive=True, exit_on_error=False)

    async def _make(self, asked: Mapping[str, Any]) -> None:
        try:
            made = _read_answer(await self._session.act("invite", **asked))
        except MeshError as error:
            self._say(error_lines(error.message, error.hint))
            return
        self._say(())
        self._tokens[made.id] = made
        while len(self._tokens) > TOKENS_KEPT:
            del self._tokens[next(iter(self._tokens))]
        self._show_code(made)

    def _show_code(self, made: InviteAnswer) -> None:
        self.app.push_screen(CodeScreen(self._session, made))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Show the code again, if it was made here."""
        event.stop()
        chosen = self.query_one("#invites", RowList).chosen
        known = self._tokens.get(chosen or "")
        if known is not None:
            self._show_code(known)
        else:
            words = "Its code was shown when it was made, and is kept nowhere. Make another invite."
            self._say((line(Span(words, "warn")),))

    def action_revoke(self) -> None:
        """Take the chosen invite back, after asking."""
        chosen = self.query_one("#invites", RowList).chosen
        row = next((each for each in self._invites() if each.id == chosen), None)
        if row is None or row.state != "open":
            self._say((line(Span("Only an open invite can be taken back.", "warn")),))
            return
        ask = AskScreen(
            f"Take invite {one_line(row.id, 10)} back?",
            "Nobody can join with it any more. Who joined with it stays a member.",
            (("cancel", "Keep it"), ("revoke", "Take it back")),
        )
        self.app.push_screen(ask, partial(self._revoke, row.id))

    def _revoke(self, invite: str, answer: str | None) -> None:
        if answer == "revoke":
            self.run_worker(self._revoking(invite), group="invite", exclusive=True, exit_on_error=False)

    async def _revoking(self, invite: str) -> None:
        try:
            await self._session.act("revoke", target=invite, confirm=True)
        except MeshError as error:
            self._say(error_lines(error.message, error.hint))
        else:
            self._tokens.pop(invite, None)
            self._say((line(f"Invite {one_line(invite, 10)} is taken back."),))

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault of the dashboard's own must not look like waiting."""
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            self._say(error_lines(describe(event.worker.error), "Please report it with the log."))

    def _say(self, lines: tuple[Line, ...]) -> None:
        note = self.query_one("#invite-note", Static)
        note.display = bool(lines)
        note.update(content(lines))


def _read_answer(answer: Mapping[str, Any]) -> InviteAnswer:
    try:
        return msgspec.convert(dict(answer), InviteAnswer)
    except msgspec.ValidationError:
        raise NodeError(
            "The node made an invite and its answer is not understood.",
            hint="It may be of another version of meshllm: `meshllm stop`, then start it again.",
        ) from None
