"""The dashboard's root: theme, screens, keys. It paints before the node has answered, and connects after."""

import importlib
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path, PurePath
from typing import Any, ClassVar, cast

from textual import events
from textual.app import App, SystemCommand
from textual.command import Provider
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget
from textual.worker import Worker, WorkerState

from meshllm_core.errors import MeshError, describe
from meshllm_core.ids import ModelId
from meshllm_tui.actions.action import ANYWHERE, PAGE, Action
from meshllm_tui.actions.pages import PAGES
from meshllm_tui.actions.registry import PLACES
from meshllm_tui.bridge import Throttle
from meshllm_tui.cleaning import one_line
from meshllm_tui.commands import RegistryCommands
from meshllm_tui.connect import open_client
from meshllm_tui.first_run import FirstRun
from meshllm_tui.join_source import DecodePicture, ScanCamera, Sources
from meshllm_tui.keys import bindings_of
from meshllm_tui.messages import ActionDone, ActionFailed, SnapshotChanged
from meshllm_tui.pages.mesh import MeshPage
from meshllm_tui.pages.page import BREAKPOINTS, Page
from meshllm_tui.preferences import Preferences
from meshllm_tui.present import endpoint
from meshllm_tui.renewal import renew_pages
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.help import HelpScreen
from meshllm_tui.screens.load import LoadScreen
from meshllm_tui.screens.mesh_desk import MeshDesk
from meshllm_tui.screens.small import SMALLEST, SmallScreen
from meshllm_tui.session import NodeClient, Session
from meshllm_tui.spare_time import SparingApp
from meshllm_tui.themes import THEMES, theme_of

NODE_STAYS = 0
"""Result of `run`: leave the node running."""
STOP_NODE = 10
"""Result of `run`: stop the node."""

START_CHECK_SECONDS = 0.25


class MeshApp(SparingApp):
    """The dashboard of one node. Its result is NODE_STAYS or STOP_NODE."""

    TITLE = "meshllm"
    CSS_PATH: ClassVar[str | PurePath | list[str | PurePath] | None] = [
        "styles/base.tcss",
        "styles/pages.tcss",
        "styles/dialogs.tcss",
        "styles/mesh.tcss",
        "styles/invite.tcss",
        "styles/welcome.tcss",
        "styles/models.tcss",
        "styles/requests.tcss",
        "styles/activity.tcss",
        "styles/chat.tcss",
        "styles/help.tcss",
        "styles/small.tcss",
        "styles/split.tcss",
        "styles/certify.tcss",
        "styles/settings.tcss",
    ]
    BINDINGS = bindings_of(ANYWHERE)
    DEFAULT_MODE = "mesh"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {RegistryCommands, *App.COMMANDS}
    COMMAND_PALETTE_DISPLAY = "Ctrl+P"
    HORIZONTAL_BREAKPOINTS = BREAKPOINTS

    def __init__(
        self,
        open_node: Callable[[], Awaitable[NodeClient]],
        *,
        started_by_us: bool = False,
        ended: Callable[[], bool] | None = None,
        preferences: Preferences | None = None,
        decode_picture: DecodePicture | None = None,
        scan_camera: ScanCamera | None = None,
        chats_file: Path | None = None,
        welcome_marker: Path | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        # With colours off, Textual would otherwise turn its colours into greys too close to the ground.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        wished = preferences or Preferences()
        own = (theme_of(wished.own[0], wished.own[1], dark=wished.own[2]),) if wished.own else ()
        for each in (*THEMES, *own):
            self.register_theme(each)
        self.theme = wished.theme
        self.key_map = wished.keys
        """Keys of the person's own, by an action's id."""
        self.set_keymap(dict(wished.keys))
        self.animation_level = "none"
        self._ended = ended
        self.chats_file = chats_file
        """Where conversations are kept; None: nowhere."""
        self._first_run = FirstRun(self, welcome_marker)
        self._node = ""
        """Id of the node that is shown."""
        self._throttle = Throttle(self._pass_on)
        self.session = Session(
            open_node,
            self._throttle.poke,
            started_by_us=started_by_us,
            wall=wall,
        )
        self.sources = Sources(decode_picture, scan_camera)
        """Ways to an invite besides its text."""
        self.desk = MeshDesk(self, self.session)
        self.home = MeshPage(self.session)
        """The first page."""
        for page in PAGES:
            self.add_mode(page.name, partial(self.make_page, page.made_by))

    def make_page(self, made_by: str) -> Page:
        """A page; its module is imported when it is first opened, so that the first paint is soon."""
        made: Page = self.home
        if made_by != PAGES[0].made_by:
            module, _, name = made_by.partition(":")
            made = getattr(importlib.import_module(f"meshllm_tui.pages.{module}"), name)(self.session)
        # It has the styles of now; Textual would read all style sheets again, twice, which takes 100 ms.
        made._css_update_count = self._css_update_count
        return made

    @property
    def page(self) -> Page:
        """The page that is open; dialogs may lie over it."""
        base = self.screen_stack[0]
        assert isinstance(base, Page)
        return base

    def frame_lines(self) -> Iterable[Widget]:
        """Lines that every page has above its keys; none, as long as a real node is shown."""
        return ()

    def go(self, page: str, pane: str = "") -> None:
        """Open a page, and give the keyboard to one of its panes if that is named."""
        self.call_next(self.open, page, pane)

    async def open(self, page: str, pane: str = "") -> Page:
        """The same; returns when the page is there."""
        await self.switch_mode(page)
        if pane:
            self.page.go(pane)
        return self.page

    def action_page(self, name: str) -> None:
        """Open a page."""
        self.go(name)

    def on_mount(self) -> None:
        """Connect after the first paint."""
        self.app_resume_signal.subscribe(self, self._back_from_shell)
        self.call_after_refresh(self._start)

    def _back_from_shell(self, _app: App[Any]) -> None:
        """After `fg` the terminal is empty, and Textual paints only what changes from then on."""
        self.screen.refresh()

    def _start(self) -> None:
        self.fit(self.size)
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
        node = view.snapshot.node if view.snapshot else ""
        if node and self._node not in ("", node):
            self.call_next(renew_pages, self)
        self._node = node or self._node
        for screen in self.screen_stack:
            screen.post_message(SnapshotChanged(view))
        self._first_run.look(view)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault of the dashboard's own must not end it, and not be silent; the node is followed again."""
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            follows = event.worker.group == "session"
            what = "the link to the node" if follows else "the dashboard"
            self.session.note("error", f"{what} failed: {describe(event.worker.error)}")
            if follows:
                self.set_timer(3.0, self._follow)

    def on_resize(self, event: events.Resize) -> None:
        """Too small for the dashboard: one sentence, until it grows."""
        self.fit(event.size)

    def fit(self, size: Size) -> None:
        """Say that the terminal is too small, or take that back."""
        small = size.width < SMALLEST[0] or size.height < SMALLEST[1]
        shown = isinstance(self.screen, SmallScreen)
        if small and not shown:
            self.push_screen(SmallScreen())
        elif shown and not small:
            self.pop_screen()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Of Textual's own commands only those that the registry lacks."""
        yield SystemCommand(
            "Theme", "Other colours for now; the setting theme keeps them", self.action_change_theme
        )
        yield SystemCommand(
            "Suspend", "Back to the shell until `fg`; the node goes on", self.action_suspend_process
        )
        yield SystemCommand("Screenshot", "Save a picture of this screen (SVG)", self.deliver_screenshot)

    async def perform(self, action: Action) -> None:
        """Run an action of the registry where it belongs."""
        place, target = PLACES[action.place], cast("Any", self)
        if action.place == PAGE:
            target = self.page
        elif place.page:
            page = await self.open(place.page, action.place)
            target = page.pane(action.place)
        method = action.method if "(" in action.method else f"{action.method}()"
        await self.run_action(method, target)

    def action_invite(self) -> None:
        """Invite a machine."""
        self.go("invite", "invite")

    def action_join(self) -> None:
        """Join a mesh."""
        self.go("invite", "join")

    def action_lending(self) -> None:
        """Pause lending, or lend again."""
        self.desk.lending()

    def action_public(self) -> None:
        """List the mesh publicly, or take the listing back."""
        self.desk.public()

    def action_write(self) -> None:
        """Go to the chat's prompt."""
        self.go("chat", "chat")

    def chat_with(self, model: ModelId) -> None:
        """Let a model answer in the chat."""
        self.call_next(self._chat_with, model)

    async def _chat_with(self, model: ModelId) -> None:
        from meshllm_tui.pages.chat import ChatPage

        page = await self.open("chat", "chat")
        assert isinstance(page, ChatPage)
        page.chat.use(model)

    def action_copy_endpoint(self) -> None:
        """Copy the endpoint's URL."""
        snapshot = self.session.snapshot
        if snapshot is None:
            self.notify("The node has not answered yet.", severity="warning", markup=False)
            return
        self.copy_to_clipboard(endpoint(snapshot))
        self.notify(f"Copied {endpoint(snapshot)}", markup=False)

    def action_load(self) -> None:
        """Ask which model to load."""
        snapshot = self.session.snapshot
        self.push_screen(LoadScreen(self._load, [model.ref for model in snapshot.models] if snapshot else []))

    async def _load(self, ref: str) -> None:
        await self.session.act("load", model=ref)
        self.post_message(ActionDone(f"Loading {one_line(ref, 80)}."))

    def act(self, name: str, done: str, /, **arguments: object) -> None:
        """Ask the node for an action; `done` is said when it did it."""
        self.run_asking(name, self._acting(name, done, **arguments))

    def run_asking(self, what: str, asking: Coroutine[None, None, None]) -> None:
        """Do something that asks the node; a refusal is told."""
        self.run_worker(self._told(what, asking), group="act", exit_on_error=False)

    async def _told(self, what: str, asking: Coroutine[None, None, None]) -> None:
        try:
            await asking
        except MeshError as error:
            self.post_message(ActionFailed(what, error))

    async def _acting(self, name: str, done: str, /, **arguments: object) -> None:
        await self.session.act(name, **arguments)
        self.post_message(ActionDone(done))

    def on_action_done(self, event: ActionDone) -> None:
        """Say that it worked."""
        event.stop()
        self.notify(one_line(event.text), markup=False)

    def on_action_failed(self, event: ActionFailed) -> None:
        """Say what failed; the log keeps it after the toast is gone."""
        event.stop()
        text = f"{event.what} failed: {event.error}"
        self.session.note("error", text)
        self.notify(one_line(text, 300), severity="error", timeout=10, markup=False)

    def action_help(self) -> None:
        """Show every key."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.key_map, self.page.NAME))

    def action_leave(self) -> None:
        """Leave, as Ctrl+Q does."""
        self._ask_to_leave()

    async def action_quit(self) -> None:
        """Leave; asks whether the node stays."""
        self._ask_to_leave()

    def _ask_to_leave(self) -> None:
        if self.screen.id == "leave":
            return
        view = self.session.view()
        nobody = view.link == "lost" or (view.snapshot is None and not view.started_by_us)
        if nobody or isinstance(self.screen, SmallScreen):
            self.exit(NODE_STAYS)
            return
        question = AskScreen(
            "Leave the dashboard?",
            "The node can go on serving without it. `meshllm` brings this screen back.",
            (("stay", "Leave it running"), ("stop", "Stop the node"), ("cancel", "Cancel")),
        )
        question.id = "leave"
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
    scan_camera: ScanCamera | None = None,
    chats_file: Path | None = None,
    welcome_marker: Path | None = None,
    preferences: Preferences | None = None,
) -> int:
    """Show the dashboard until a person leaves it: 0 when the node is to stay, 10 when it is to be stopped.

    Paints at once; the node may still be starting (`started_by_us` says that it was started for this).
    Where `ended` says that it ended before it ever answered, there is nothing to wait for: 0 at once.
    `decode_picture` reads the QR code in a picture, `scan_camera` one before the camera, for the join box.
    `chats_file` keeps conversations. `welcome_marker`: ask the first run's questions, and note it there.
    `preferences` are the person's colours, keys and mouse.
    1 when the dashboard itself failed; its traceback is then on the terminal.
    """
    open_node = partial(open_client, console_url, api_url, token_file)
    app = MeshApp(
        open_node,
        started_by_us=started_by_us,
        ended=ended,
        decode_picture=decode_picture,
        scan_camera=scan_camera,
        chats_file=chats_file,
        welcome_marker=welcome_marker,
        preferences=preferences,
    )
    result = app.run(mouse=preferences is None or preferences.mouse)
    return result if result is not None else (app.return_code or NODE_STAYS)
