"""The pane that makes an invite: a form, and beside it the code with its words."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

import msgspec
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Button, Static

from meshllm_core.api.schema_mesh import InviteAnswer
from meshllm_core.errors import MeshError, NodeError
from meshllm_core.state.mesh_events import InviteRow
from meshllm_tui.invite_page import INTRO, SIDE_WIDTH, Beside, Code, beside, code_of
from meshllm_tui.keys import bindings_of
from meshllm_tui.present import Line, NodeView, Span, error_lines, line
from meshllm_tui.widgets.choice import Choice
from meshllm_tui.widgets.code_view import code_content, save_code
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
ROLES: tuple[tuple[str, str], ...] = (("host", "host: computes too"), ("client", "client: only asks"))
MAY_INVITE: tuple[tuple[bool, str], ...] = ((False, "no"), (True, "yes, others in turn"))
APPROVE: tuple[tuple[bool, str], ...] = ((False, "who has the invite"), (True, "whom I let in"))
FORM_WIDTH = 42
TOKENS_KEPT = 32
"""Tokens of invites made here that can be shown again; the oldest are forgotten."""


class InvitePane(VerticalScroll, can_focus=False):
    """Tokens that were made in this dashboard can be shown again; nothing else keeps them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of("invite"),
        Binding("down,j", "app.focus_next", "Next", show=False),
        Binding("up,k", "app.focus_previous", "Back", show=False),
    ]

    class Full(Message):
        """The code is to be shown over the whole screen."""

        def __init__(self, made: InviteAnswer) -> None:
            super().__init__()
            self.made = made

    def __init__(self, act: Callable[..., Awaitable[Mapping[str, Any]]]) -> None:
        super().__init__(id="invite", classes="pane")
        self._act = act
        self.border_title = Content("Invite a machine")
        self._view = NodeView()
        self._tokens: dict[str, InviteAnswer] = {}
        self._shown: InviteAnswer | None = None
        self._code: Code | None = None
        self._tall = False

    def compose(self) -> ComposeResult:
        """Five choices, the button, room for a refusal; the code, its words."""
        with Horizontal(id="invite-parts"):
            with Vertical(id="invite-form"):
                yield Choice("For", USES, id="uses")
                yield Choice("Usable for", EXPIRY, id="expiry", at=1)
                yield Choice("Role", ROLES, id="role")
                yield Choice("May invite", MAY_INVITE, id="may-invite")
                yield Choice("Lets in", APPROVE, id="approve")
                with Horizontal(classes="buttons"):
                    yield Button(Content("Make the invite"), id="make", compact=True)
                yield Static(id="invite-note", markup=False)
            yield Static(id="invite-code", markup=False)
            yield Static(id="invite-words", markup=False)

    @property
    def shown(self) -> InviteAnswer | None:
        """The invite whose code is shown here."""
        return self._shown

    def token(self, invite: str) -> InviteAnswer | None:
        """An invite that was made here."""
        return self._tokens.get(invite)

    def forget(self, invite: str) -> None:
        """It was taken back."""
        self._tokens.pop(invite, None)

    def focus_main(self) -> None:
        """Enter makes an invite at once."""
        self.query_one("#make").focus()

    def on_resize(self) -> None:
        """There may be room for the words, or none any more."""
        self._draw()

    def give_room(self, tall: bool) -> None:
        """Whether the page can give this pane the height of a code."""
        self._tall = tall
        self._draw()

    def show(self, view: NodeView) -> None:
        """An invite may have been used; ages stay true."""
        self._view = view
        self._draw()

    def _row(self, made: InviteAnswer) -> InviteRow | None:
        snapshot = self._view.snapshot
        rows = snapshot.mesh.invites if snapshot and snapshot.mesh else ()
        return next((row for row in rows if row.id == made.id), None)

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        made, code, wall = self._shown, self._code, self._view.wall
        width = self.size.width - FORM_WIDTH
        if made is not None and code is not None:
            colour = not self.app.no_color
            shown = beside(made, self._row(made), code, wall, width, tall=self._tall, colour=colour)
        else:
            shown = Beside(INTRO if width >= SIDE_WIDTH else ())
        place, words = self.query_one("#invite-code", Static), self.query_one("#invite-words", Static)
        place.display = shown.drawn
        words.display = bool(shown.words)
        text = content(shown.words)
        if words.content != text:
            words.update(text)
        self.set_class(width < SIDE_WIDTH, "-stacked")
        self.set_class(shown.drawn, "-drawn")
        self.refresh_bindings()

    def drawn(self) -> bool:
        """Whether the code is on the page, whole."""
        return bool(self.query_one("#invite-code").display)

    async def take(self, made: InviteAnswer) -> None:
        """Show an invite that was made here: on the page where there is room, else over it."""
        self._tokens[made.id] = made
        while len(self._tokens) > TOKENS_KEPT:
            del self._tokens[next(iter(self._tokens))]
        # Making the code takes longer than a frame.
        code = await asyncio.to_thread(code_of, made.token)
        self._shown, self._code = made, code
        self.query_one("#invite-code", Static).update(code_content(code))
        self._draw()
        if not self.drawn():
            self.post_message(self.Full(made))

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Make it."""
        event.stop()
        self.action_make()

    def action_make(self) -> None:
        """Ask the node for an invite as the form says."""
        self.say((line(Span("◌ asking the node…", "accent")),))
        asked: dict[str, Any] = {
            "uses": self.query_one("#uses", Choice).value,
            "expires_seconds": self.query_one("#expiry", Choice).value,
            "role": self.query_one("#role", Choice).value,
            "may_invite": self.query_one("#may-invite", Choice).value,
            "approve": self.query_one("#approve", Choice).value,
        }
        self.run_worker(self._make(asked), group="invite", exclusive=True, exit_on_error=False)

    async def _make(self, asked: Mapping[str, Any]) -> None:
        try:
            made = _read_answer(await self._act("invite", **asked))
        except MeshError as error:
            self.say(error_lines(error.message, error.hint))
            return
        self.say(())
        await self.take(made)

    def say(self, lines: tuple[Line, ...]) -> None:
        """What is asked, or was refused."""
        note = self.query_one("#invite-note", Static)
        note.display = bool(lines)
        note.update(content(lines))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The keys of a code need one."""
        return action not in ("full", "copy", "save") or self._shown is not None

    def action_full(self) -> None:
        """The code over the whole screen."""
        if self._shown is not None:
            self.post_message(self.Full(self._shown))

    def action_copy(self) -> None:
        """Copy the token."""
        if self._shown is not None:
            self.app.copy_to_clipboard(self._shown.token)
            self.notify("Copied the token. Whoever has it can join.", markup=False)

    async def action_save(self) -> None:
        """Save the code as a picture."""
        if self._shown is not None:
            await save_code(self, self._shown)


def _read_answer(answer: Mapping[str, Any]) -> InviteAnswer:
    try:
        return msgspec.convert(dict(answer), InviteAnswer)
    except msgspec.ValidationError:
        raise NodeError(
            "The node made an invite and its answer is not understood.",
            hint="It may be of another version of meshllm: `meshllm stop`, then start it again.",
        ) from None
