"""The dashboard's root: theme, screens, keys. It paints before the node has answered, and connects after."""

import os
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path, PurePath
from typing import Any, ClassVar

from textual import events
from textual.app import App, SystemCommand
from textual.command import Provider
from textual.geometry import Size
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from meshllm_core.errors import describe
from meshllm_tui.actions import Action
from meshllm_tui.bridge import Throttle
from meshllm_tui.commands import RegistryCommands
from meshllm_tui.connect import open_client
from meshllm_tui.join_source import DecodePicture
from meshllm_tui.keys import bindings_of
from meshllm_tui.messages import SnapshotChanged
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.help import HelpScreen
from meshllm_tui.screens.home import BREAKPOINTS, HomeScreen
from meshllm_tui.screens.small import SMALLEST, SmallScreen
from meshllm_tui.session import NodeClient, Session
from meshllm_tui.themes import DEFAULT_THEME, THEMES

NODE_STAYS = 0
"""Result of `run`: leave the node running."""
STOP_NODE = 10
"""Result of `run`: stop the node."""

START_CHECK_SECONDS = 0.25


class MeshApp(App[int]):
    """The dashboard of one node. Its result is NODE_STAYS or STOP_NODE."""

    TITLE = "meshllm"
    CSS_PATH: ClassVar[str | PurePath | list[str | PurePath] | None] = [
        "styles/base.tcss",
        "styles/home.tcss",
        "styles/dialogs.tcss",
        "styles/mesh.tcss",
        "styles/help.tcss",
        "styles/small.tcss",
    ]
    BINDINGS = bindings_of("anywhere")
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {RegistryCommands, *App.COMMANDS}
    COMMAND_PALETTE_DISPLAY = "Ctrl+P"
    HORIZONTAL_BREAKPOINTS = BREAKPOINTS

    def __init__(
        self,
        open_node: Callable[[], Awaitable[NodeClient]],
        *,
        started_by_us: bool = False,
        ended: Callable[[], bool] | None = None,
        theme: str = DEFAULT_THEME,
        decode_picture: DecodePicture | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        # With colours off, Textual would otherwise turn its colours into greys too close to the ground.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        for each in THEMES:
            self.register_theme(each)
        self.theme = theme
        self.animation_level = "none"
        self._ended = ended
        self._throttle = Throttle(self._pass_on)
        self.session = Session(
            open_node,
            self._throttle.poke,
            started_by_us=started_by_us,
            wall=wall,
        )
        self.home = HomeScreen(self.session, decode_picture)

    def get_default_screen(self) -> Screen[Any]:
        """The home screen is the first thing painted."""
        return self.home

    def on_mount(self) -> None:
        """Connect after the first paint."""
        self.call_after_refresh(self._start)

    def _start(self) -> None:
        self._fit(self.size)
        self._follow()
        if self._ended is not None:
            self._waiting = self.set_interval(START_CHECK_SECONDS, self._check_start)

    def _check_start(self) -> None:
        """A node that could not start never answers; why it could not is told on the person's own screen."""
        if self.session.snapshot is not None:
            self._waiting.stop()
        elif self._ended is not None and self._ended():
            self.exit(NODE_STAYS)

    def _follow(self) -> None:
        self.run_worker(self.session.run(), group="session", exclusive=True, exit_on_error=False)

    def on_unmount(self) -> None:
        """Nothing is left to be drawn."""
        self._throttle.stop()

    def _pass_on(self) -> None:
        view = self.session.view()
        for screen in self.screen_stack:
            screen.post_message(SnapshotChanged(view))

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault in the link must not end the dashboard: say so, and follow the node again."""
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            self.session.note("error", f"the link to the node failed: {describe(event.worker.error)}")
            self.set_timer(3.0, self._follow)

    def on_resize(self, event: events.Resize) -> None:
        """Too small for the dashboard: one sentence, until it grows."""
        self._fit(event.size)

    def _fit(self, size: Size) -> None:
        small = size.width < SMALLEST[0] or size.height < SMALLEST[1]
        shown = isinstance(self.screen, SmallScreen)
        if small and not shown:
            self.push_screen(SmallScreen())
        elif shown and not small:
            self.pop_screen()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Of Textual's own commands only those that the registry lacks."""
        yield SystemCommand(
            "Theme", "Change the colours: dark, light, high contrast", self.action_change_theme
        )
        yield SystemCommand("Screenshot", "Save a picture of this screen (SVG)", self.deliver_screenshot)

    async def perform(self, action: Action) -> None:
        """Run an action of the registry where it belongs."""
        if action.place in ("anywhere", "home"):
            target: Any = self if action.place == "anywhere" else self.home
        else:
            self.home.go(action.place)
            target = self.home.pane(action.place)
        await self.run_action(action.method, target)

    def action_help(self) -> None:
        """Show every key."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())

    def action_leave(self) -> None:
        """Leave, as Ctrl+Q does."""
        self._ask_to_leave()

    async def action_quit(self) -> None:
        """Leave; asks whether the node stays."""
        self._ask_to_leave()

    def _ask_to_leave(self) -> None:
        if isinstance(self.screen, SmallScreen):
            self.exit(NODE_STAYS)
            return
        if isinstance(self.screen, AskScreen):
            return
        if self.session.snapshot is None and not self.session.view().started_by_us:
            self.exit(NODE_STAYS)
            return
        question = AskScreen(
            "Leave the dashboard?",
            "The node can go on serving without it. `meshllm` brings this screen back.",
            (("stay", "Leave it running"), ("stop", "Stop the node"), ("cancel", "Cancel")),
        )
        self.push_screen(question, self._leave)

    def _leave(self, answer: str | None) -> None:
        if answer in ("stay", "stop"):
            self.exit(STOP_NODE if answer == "stop" else NODE_STAYS)

    def action_stop_node(self) -> None:
        """Stop the node and leave, after asking."""
        question = AskScreen(
            "Stop the node?",
            "Requests that it is answering get a moment to finish; apps that use it lose it.",
            (("cancel", "Cancel"), ("stop", "Stop the node")),
        )
        self.push_screen(question, self._leave)


def run(
    *,
    console_url: str,
    api_url: str,
    token_file: Path,
    started_by_us: bool,
    ended: Callable[[], bool] | None = None,
    decode_picture: DecodePicture | None = None,
) -> int:
    """Show the dashboard until a person leaves it: 0 when the node is to stay, 10 when it is to be stopped.

    Paints at once; the node may still be starting (`started_by_us` says that it was started for this).
    Where `ended` says that it ended before it ever answered, there is nothing to wait for: 0 at once.
    `decode_picture` reads the QR code in a picture, for the join box.
    1 when the dashboard itself failed; its traceback is then on the terminal.
    """
    open_node = partial(open_client, console_url, api_url, token_file)
    app = MeshApp(open_node, started_by_us=started_by_us, ended=ended, decode_picture=decode_picture)
    result = app.run()
    return result if result is not None else (app.return_code or NODE_STAYS)
