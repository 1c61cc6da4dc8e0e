"""Joining a mesh: the box for an invite, then the checklist as it comes true."""

import asyncio
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static
from textual.worker import Worker, WorkerState

from meshllm_core.errors import MeshError, describe
from meshllm_core.state.snapshot import JoinView
from meshllm_tui.join_source import BOX_LIMIT, DecodePicture, token_from
from meshllm_tui.join_words import checklist, ending
from meshllm_tui.messages import SnapshotChanged
from meshllm_tui.present import Line, Span, error_lines, line, muted
from meshllm_tui.screens.dialog import Dialog
from meshllm_tui.session import Session
from meshllm_tui.widgets.styled import content

FORMS: tuple[Line, ...] = (
    line(muted("It begins with MESHLLM: and line breaks in it do no harm. A path works")),
    line(muted("too: of a file with the invite, or of a picture of its code.")),
)


class TokenInput(Input):
    """An input that takes a paste of several lines as one: mail programs break tokens."""

    def _on_paste(self, event: events.Paste) -> None:
        # Textual calls the input's own handler after this one.
        event.text = " ".join(event.text[: BOX_LIMIT * 2].split())


class JoinScreen(Dialog[str]):
    """Gives back "mesh" when a person wants to see the mesh that was joined, else None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "go_on", "Go on", show=False),
        Binding("r", "again", "Again", show=False),
        Binding("n", "another", "Another", show=False),
    ]

    def __init__(self, session: Session, decode_picture: DecodePicture | None) -> None:
        super().__init__()
        self._session = session
        self._decode_picture = decode_picture
        self._token = ""
        self._before = 0.0
        """When the try before this one began: its checklist is not this one's."""
        self._asking = True

    def compose(self) -> ComposeResult:
        """The box, what it takes, the checklist, how it ended."""
        with Vertical(classes="dialog", id="join") as frame:
            frame.border_title = Content("Join a mesh")
            yield TokenInput(placeholder="paste the invite here", max_length=BOX_LIMIT, compact=True)
            yield Static(content(FORMS), classes="hint", id="join-forms", markup=False)
            yield Static(id="join-steps", markup=False)
            yield Static(id="join-note", classes="note", markup=False)

    def on_mount(self) -> None:
        """A join that runs already is shown as it is; else ask for an invite."""
        self.query_one(Input).cursor_blink = False
        self.set_interval(1.0, self._draw)
        view = self._join()
        self._ask(view is None or view.state != "running")

    def _join(self) -> JoinView | None:
        snapshot = self._session.snapshot
        return snapshot.join if snapshot is not None else None

    def _ask(self, asking: bool) -> None:
        """Show the box, or the checklist."""
        self._asking = asking
        box = self.query_one(TokenInput)
        box.display = self.query_one("#join-forms").display = asking
        self.query_one("#join-steps").display = not asking
        frame = self.query_one("#join", Vertical)
        frame.border_subtitle = Content("Enter joins, Esc closes" if asking else "Esc closes")
        self._say(())
        if asking:
            box.focus()
        else:
            self.set_focus(None)
            self._draw()

    def on_snapshot_changed(self, event: SnapshotChanged) -> None:
        """A line of the checklist may have changed."""
        event.stop()
        self._draw()

    def _draw(self) -> None:
        view = self._join()
        if self._asking or view is None or view.started_at == self._before:
            return
        # The frame, its padding, and room for the scroll bar of a small terminal.
        width = max(self.query_one("#join").outer_size.width - 7, 40)
        steps = self.query_one("#join-steps", Static)
        lines = content(checklist(view, width))
        if steps.content != lines:
            steps.update(lines)
        self._say((*ending(view, self._session.view().wall), *self._keys(view)))

    def _keys(self, view: JoinView) -> tuple[Line, ...]:
        """What to press next."""
        if view.state == "joined":
            return (line(""), line(Span("Enter", "accent"), muted(" shows the mesh")))
        if view.state == "failed":
            again = (Span("r", "accent"), muted(" tries the same invite again  ")) if self._token else ()
            return (line(""), line(*again, Span("n", "accent"), muted(" takes another invite")))
        return ()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Read what is written, and ask the node to join."""
        event.stop()
        if not event.value.strip():
            self._say((line(Span("Paste an invite, or name a file that holds one.", "warn")),))
            return
        self._start(event.value)

    def on_input_changed(self, event: Input.Changed) -> None:
        """An old refusal goes while a person writes."""
        event.stop()
        if event.value:
            self._say(())

    def _start(self, text: str) -> None:
        self._say((line(Span("◌ asking the node…", "accent")),))
        self.run_worker(self._send(text), group="join", exclusive=True, exit_on_error=False)

    async def _send(self, text: str) -> None:
        before = self._join()
        try:
            self._token = await asyncio.to_thread(token_from, text, self._decode_picture)
            await self._session.act("join", token=self._token)
        except MeshError as error:
            self._ask(True)
            self._say(error_lines(error.message, error.hint))
            return
        self.query_one(Input).value = ""
        now = self._join()
        self._before = before.started_at if before is not None and before.state != "running" else 0.0
        self._ask(False)
        if now is None or now.started_at == self._before:
            self.query_one("#join-steps", Static).update("")
            self._say((line(Span("◌ the node begins to join…", "accent")),))

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault of the dashboard's own must not look like waiting."""
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            self._say(error_lines(describe(event.worker.error), "Please report it with the log."))

    def _say(self, lines: tuple[Line, ...]) -> None:
        note = self.query_one("#join-note", Static)
        note.display = bool(lines)
        words = content(lines)
        if note.content != words:
            note.update(words)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The keys below the checklist work when it has ended."""
        view = self._join()
        over = not self._asking and view is not None and view.started_at != self._before
        if action == "go_on":
            return over and view is not None and view.state == "joined"
        if action == "again":
            return over and view is not None and view.state == "failed" and bool(self._token)
        if action == "another":
            return over and view is not None and view.state == "failed"
        return True

    def action_go_on(self) -> None:
        """Show the mesh."""
        self.dismiss("mesh")

    def action_again(self) -> None:
        """The same invite once more."""
        self._start(self._token)

    def action_another(self) -> None:
        """Ask for another invite."""
        self._ask(True)
