"""Joining a mesh: the box for an invite, then the checklist as it comes true."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Button, Input, Static
from textual.worker import Worker, WorkerState

from meshllm_core.errors import MeshError, describe
from meshllm_core.state.snapshot import JoinView
from meshllm_tui.join_source import BOX_LIMIT, Sources, token_from
from meshllm_tui.join_words import box_lines, checklist, ending, next_keys
from meshllm_tui.keys import bindings_of
from meshllm_tui.present import Line, NodeView, Span, error_lines, line, link_words, plain
from meshllm_tui.widgets.styled import content


class TokenInput(Input):
    """An input that takes a paste of several lines as one: mail programs break tokens."""

    def _on_paste(self, event: events.Paste) -> None:
        # Textual calls the input's own handler after this one.
        event.text = " ".join(event.text[: BOX_LIMIT * 2].split())


class JoinBox(Vertical):
    """The input and its buttons; the arrows go from one to the other."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,right", "app.focus_next", "Next", show=False),
        Binding("up,left", "app.focus_previous", "Back", show=False),
    ]


class JoinPane(VerticalScroll):
    """Asks for an invite unless a join runs, whose checklist it shows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of("join"),
        Binding("escape", "leave_box", "Back", show=False),
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
    ]

    class Wanted(Message):
        """`what`: "mesh" or "picture"."""

        def __init__(self, what: str) -> None:
            super().__init__()
            self.what = what

    def __init__(self, act: Callable[..., Awaitable[Any]], sources: Sources) -> None:
        super().__init__(id="join", classes="pane")
        self.border_title = Content("Join a mesh")
        self._act, self._sources = act, sources
        self._view = NodeView()
        self._token = ""
        self._before = 0.0
        """When the try before this one began: its checklist is not this one's."""
        self._ended = 0.0
        """When the join began whose end was scrolled to."""
        self._asking = True
        self._said: tuple[Line, ...] = ()
        self._stop_camera: threading.Event | None = None

    def compose(self) -> ComposeResult:
        """The box, what it takes, the checklist, how it ended."""
        with JoinBox(id="join-box"):
            yield TokenInput(
                id="join-token", placeholder="paste the invite here", max_length=BOX_LIMIT, compact=True
            )
            with Horizontal(id="join-buttons"):
                yield Button(Content("Join"), id="join-go", compact=True)
                yield Button(Content("Open a picture"), id="join-picture", compact=True)
                yield Button(Content("Camera"), id="join-camera", compact=True)
            yield Static(id="join-forms", markup=False)
        yield Static(id="join-steps", markup=False)
        yield Static(id="join-note", markup=False)

    def on_mount(self) -> None:
        """Nothing blinks."""
        self.query_one(Input).cursor_blink = False

    def on_unmount(self) -> None:
        """Nobody looks any more."""
        self._end_camera()

    @property
    def _join(self) -> JoinView | None:
        return self._view.snapshot.join if self._view.snapshot is not None else None

    @property
    def _over(self) -> JoinView | None:
        """The join of this checklist, when it has ended."""
        view = self._join
        if self._asking or view is None or view.started_at == self._before or view.state == "running":
            return None
        return view

    def focus_main(self) -> None:
        """Give the keyboard to the box, or to the checklist."""
        (self.query_one(TokenInput) if self._asking else self).focus()

    def show(self, view: NodeView) -> None:
        """Draw what is new; a join that began elsewhere is shown as it goes."""
        self._view = view
        join = self._join
        untouched = not self.query_one(TokenInput).value and not self._said
        if self._asking and untouched and join is not None and join.state == "running":
            self._before = 0.0
            self._ask(False)
        self._draw()

    def on_resize(self) -> None:
        """The checklist is made for a width."""
        self._draw()

    def _ask(self, asking: bool) -> None:
        """Show the box, or the checklist."""
        had = self.screen.focused is not None and self in self.screen.focused.ancestors_with_self
        self._asking = asking
        self.query_one("#join-box").display = asking
        self.query_one("#join-steps").display = not asking
        self.query_one("#join-steps", Static).update("")
        self._say(())
        if had:
            self.focus_main()
        self._draw()

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        stale = plain((link_words(self._view),)) if self._view.snapshot is not None else ""
        if self.border_subtitle != stale:
            self.border_subtitle = stale
        if self._asking:
            self._put("#join-forms", box_lines(self._view))
        elif (view := self._join) is not None and view.started_at != self._before:
            width = max(self.outer_size.width - 5, 40)
            self._put("#join-steps", checklist(view, width))
            self._say((*ending(view, self._view.wall), *next_keys(view, again=bool(self._token))))
            if view.state != "running" and self._ended != view.started_at:
                # How it ended stands at the bottom.
                self._ended = view.started_at
                self.call_after_refresh(self.scroll_end, animate=False)
        self.refresh_bindings()

    def _put(self, where: str, lines: tuple[Line, ...]) -> None:
        place, words = self.query_one(where, Static), content(lines)
        if place.content != words:
            place.update(words)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Read what is written, and ask the node to join."""
        event.stop()
        self._submit()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """The same as the keys."""
        event.stop()
        {"join-go": self._submit, "join-picture": self.action_picture, "join-camera": self.action_camera}[
            event.button.id or ""
        ]()

    def _submit(self) -> None:
        text = self.query_one(TokenInput).value
        if text.strip():
            self.start(text)
        else:
            self._say((line(Span("Paste an invite, or name a file that holds one.", "warn")),))

    def on_input_changed(self, event: Input.Changed) -> None:
        """An old refusal goes while a person writes."""
        event.stop()
        if event.value:
            self._say(())

    def start(self, text: str) -> None:
        """Join with an invite, or with what is in the file of that name."""
        self._say((line(Span("◌ asking the node…", "accent")),))
        self.run_worker(self._send(text), group="join", exclusive=True, exit_on_error=False)

    async def _send(self, text: str) -> None:
        before = self._join
        try:
            self._token = await asyncio.to_thread(token_from, text, self._sources.decode_picture)
            await self._act("join", token=self._token)
        except MeshError as error:
            self._ask(True)
            self._say(error_lines(error.message, error.hint))
            return
        self.query_one(Input).value = ""
        self._before = before.started_at if before is not None and before.state != "running" else 0.0
        self._ask(False)
        now = self._join
        if now is None or now.started_at == self._before:
            self._say((line(Span("◌ the node begins to join…", "accent")),))

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault of the dashboard's own must not look like waiting."""
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            self._say(error_lines(describe(event.worker.error), "Please report it with the log."))

    def _say(self, lines: tuple[Line, ...]) -> None:
        self._said = lines
        self.query_one("#join-note").display = bool(lines)
        self._put("#join-note", lines)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Those of the box while it asks; those below the checklist when it has ended."""
        over = self._over
        match action:
            case "go_on":
                return self._asking or (over is not None and over.state == "joined")
            case "picture" | "camera":
                return self._asking
            case "again":
                return over is not None and over.state == "failed" and bool(self._token)
            case "another":
                return over is not None
            case "copy":
                return not self._asking
        return True

    def action_go_on(self) -> None:
        """Write an invite; after joining, show the mesh."""
        if self._asking:
            self.focus_main()
        else:
            self.post_message(self.Wanted("mesh"))

    def action_leave_box(self) -> None:
        """Stop the camera, else give the keyboard from the box to the pane, where letters are keys."""
        if self._stop_camera is not None:
            self._end_camera()
        else:
            self.focus()

    def action_picture(self) -> None:
        """Choose a picture."""
        self.post_message(self.Wanted("picture"))

    def action_camera(self) -> None:
        """Look through the camera until an invite is seen, or Esc."""
        if self._stop_camera is None:
            self.focus()
            self.run_worker(self._look(), group="join", exclusive=True, exit_on_error=False)

    async def _look(self) -> None:
        if self._sources.scan_camera is None:
            self._say(error_lines("There is no camera here.", "Paste the invite, or open a picture of it."))
            return
        self._stop_camera = stop = threading.Event()
        self._say(
            (line(Span("◌ looking: hold the code before the camera…", "accent")), line("Esc stops it."))
        )
        try:
            token = await asyncio.to_thread(self._sources.scan_camera, stop.is_set)
        except MeshError as error:
            self._say(() if stop.is_set() else error_lines(error.message, error.hint))
        else:
            self.start(token)
        finally:
            self._stop_camera = None

    def _end_camera(self) -> None:
        if self._stop_camera is not None:
            self._stop_camera.set()

    def action_again(self) -> None:
        """The same invite once more."""
        self.start(self._token)

    def action_another(self) -> None:
        """Ask for another invite."""
        self._ask(True)
        self.focus_main()

    def action_copy(self) -> None:
        """Copy the checklist: for whoever is asked why it failed."""
        view = self._join
        if view is not None:
            self.app.copy_to_clipboard(plain((*checklist(view, 200), *ending(view, self._view.wall))))
            self.notify("Copied the checklist. The invite itself is not in it.", markup=False)
