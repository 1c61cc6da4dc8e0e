"""The dashboard over a recording: the same pages, and a line that says where it is and moves it."""

import os
from collections.abc import Iterable
from typing import Any, ClassVar

from textual import events
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from meshllm_tui.app import NODE_STAYS, MeshApp
from meshllm_tui.palettes import DEFAULT_THEME
from meshllm_tui.preferences import Preferences
from meshllm_tui.present import Line, Span, line, muted
from meshllm_tui.recording_file import Recording
from meshllm_tui.replay_client import ReplayClient
from meshllm_tui.session import NodeClient
from meshllm_tui.units import bar
from meshllm_tui.widgets.styled import content

STEP_SECONDS = 10.0
REPAINT_SECONDS = 0.5


def moment(seconds: float) -> str:
    """A place in the recording: "1:05", "2:03:09"."""
    whole = int(max(seconds, 0.0))
    hours, rest = divmod(whole, 3600)
    minutes = f"{rest // 60:02}" if hours else str(rest // 60)
    return f"{f'{hours}:' if hours else ''}{minutes}:{rest % 60:02}"


def replay_line(client: ReplayClient, width: int) -> Line:
    """Where the recording is, in one line of `width` cells."""
    whole, at = client.recording.index.seconds, client.position
    if client.paused:
        state = Span("‖ paused", "warn")
    elif client.ended and at >= whole:
        state = Span("■ at its end", "muted")
    else:
        state = Span("▶ playing", "ok")
    speed = f" ×{client.speed:g}" if client.speed != 1 else ""
    place = f" {moment(at)} of {moment(whole)}{speed} "
    keys = "  Space pauses  ← → 10 s"
    redacted = "  names replaced" if client.recording.index.header.redacted else ""
    words = Span("Recording ", "strong")
    used = len(words.text) + len(state.text) + len(place) + len(keys)
    redacted = redacted if used + len(redacted) + 12 <= width else ""
    filled, empty = bar(at / whole if whole else 1.0, min(max(width - used - len(redacted), 0), 60))
    return line(words, state, Span(place), Span(filled, "accent"), muted(empty + redacted), muted(keys))


class ReplayBar(Static):
    """The line; a click on its left half goes back, on its right half on, on the state pauses."""

    class Pressed(Message):
        """A person wants the recording moved."""

        def __init__(self, what: str) -> None:
            super().__init__()
            self.what = what
            """pause, back or on."""

    def __init__(self, client: ReplayClient) -> None:
        super().__init__(id="replay", markup=False)
        self._client = client
        self.tooltip = "Click here to pause or go on, right of the time to move by 10 seconds."

    def on_mount(self) -> None:
        """Keep the time true."""
        self.draw()
        self.set_interval(REPAINT_SECONDS, self.draw)

    def on_resize(self) -> None:
        """Fit the line."""
        self.draw()

    def draw(self) -> None:
        """Draw the line, if it says anything new."""
        words = content([replay_line(self._client, max(self.size.width - 2, 20))])
        if self.content != words:
            self.update(words)

    def on_click(self, event: events.Click) -> None:
        """Pause, or move."""
        event.stop()
        before = len("Recording ‖ paused  ")
        middle = (self.size.width + before) // 2
        self.post_message(self.Pressed("pause" if event.x < before else "back" if event.x < middle else "on"))


class ReplayApp(MeshApp):
    """The dashboard of a node as it was."""

    TITLE = "meshllm replay"
    CSS = """
    #replay { height: 1; padding: 0 1; background: $panel; text-wrap: nowrap; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space,f8", "pause", "Pause", show=False, tooltip="Pause, or go on."),
        Binding("left,f7", "step(-1)", "Back", show=False, tooltip="Go back 10 seconds."),
        Binding("right,f9", "step(1)", "On", show=False, tooltip="Go on 10 seconds."),
    ]

    def __init__(self, client: ReplayClient, theme: str = DEFAULT_THEME) -> None:
        self.client = client

        async def open_node() -> NodeClient:
            return client

        super().__init__(open_node, preferences=Preferences(theme=theme), wall=client.wall)

    def frame_lines(self) -> Iterable[Widget]:
        """The recording's line, on each page."""
        yield ReplayBar(self.client)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """What moves the recording, too."""
        yield from super().get_system_commands(screen)
        yield SystemCommand("Recording: pause", "Pause, or go on. Key: Space, F8", self.action_pause)
        yield SystemCommand("Recording: back", "Go back 10 seconds. Key: ←, F7", lambda: self.action_step(-1))
        yield SystemCommand("Recording: on", "Go on 10 seconds. Key: →, F9", lambda: self.action_step(1))

    def on_replay_bar_pressed(self, event: ReplayBar.Pressed) -> None:
        """A click on the line."""
        event.stop()
        if event.what == "pause":
            self.action_pause()
        else:
            self.action_step(1 if event.what == "on" else -1)

    def action_pause(self) -> None:
        """Pause, or go on."""
        at_end = self.client.ended and self.client.position >= self.client.recording.index.seconds
        self.client.pause(not self.client.paused and not at_end)
        self._redraw()

    def action_step(self, by: int) -> None:
        """Move by 10 seconds."""
        self.client.seek(self.client.position + by * STEP_SECONDS)
        self._redraw()

    def _redraw(self) -> None:
        for line_ in self.screen.query(ReplayBar):
            line_.draw()

    def _ask_to_leave(self) -> None:
        self.exit(NODE_STAYS)

    def action_stop_node(self) -> None:
        """There is no node to stop."""
        self.notify("This is a recording: no node is behind it.", severity="warning", markup=False)


def run_replay(recording: Recording, speed: float) -> int:
    """Show a recording until a person leaves it; an exit code."""
    os.environ.pop("MESHLLM_API_KEY", None)
    app = ReplayApp(ReplayClient(recording, speed))
    result = app.run()
    return result if result is not None else (app.return_code or NODE_STAYS)
