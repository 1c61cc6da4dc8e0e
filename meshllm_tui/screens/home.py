"""The home screen: mesh, node, models, chat and log; as many side by side as the terminal has room for."""

from collections.abc import Coroutine
from functools import partial

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import Static
from textual.worker import Worker, WorkerState

from meshllm_core.errors import MeshError, describe
from meshllm_core.ids import ModelId
from meshllm_tui.chat_models import ChatModel
from meshllm_tui.cleaning import fit, one_line
from meshllm_tui.join_source import DecodePicture
from meshllm_tui.keys import bindings_of
from meshllm_tui.mesh_words import mesh_status
from meshllm_tui.messages import ActionDone, ActionFailed, SnapshotChanged
from meshllm_tui.present import NodeView, endpoint, status_line
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.load import LoadScreen
from meshllm_tui.screens.mesh_desk import MeshDesk
from meshllm_tui.screens.split import SplitScreen
from meshllm_tui.session import Session
from meshllm_tui.widgets.chat_pane import ChatPane
from meshllm_tui.widgets.key_line import KeyLine
from meshllm_tui.widgets.log_pane import LogPane
from meshllm_tui.widgets.mesh_pane import MeshPane
from meshllm_tui.widgets.models_pane import ModelsPane
from meshllm_tui.widgets.node_pane import NodePane
from meshllm_tui.widgets.styled import content
from meshllm_tui.widgets.tabs import PaneTabs

WIDE, MEDIUM = 120, 80
"""Columns from which all panes, or two columns of panes, are shown."""
TALL = 36
"""Rows from which the mesh can have the keyboard and leave room for the others."""
BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-narrow"), (MEDIUM, "-medium"), (WIDE, "-wide")]
"""Classes that the screen has from so many columns."""
TICK_SECONDS = 1.0

Pane = NodePane | ModelsPane | ChatPane | LogPane | MeshPane
NAMES = ("node", "models", "chat", "log", "mesh")
"""The panes in the order of their numbers."""


class HomeScreen(Screen[None]):
    """Shows what the session knows; every change goes through the node's actions."""

    BINDINGS = bindings_of("home")
    AUTO_FOCUS = ""

    def __init__(self, session: Session, decode_picture: DecodePicture | None = None) -> None:
        super().__init__()
        self._session = session
        self._view = session.view()
        self._active = "models"
        self._right = "chat"
        self._desk = MeshDesk(self, session, decode_picture)

    def compose(self) -> ComposeResult:
        """Status line, tabs, panes, keys."""
        yield Static(id="status", markup=False)
        yield PaneTabs()
        yield MeshPane()
        with Horizontal(id="panes"):
            with Vertical(id="left"):
                yield NodePane()
                yield ModelsPane()
            with Vertical(id="right"):
                yield ChatPane(self._session)
                yield LogPane()
        yield KeyLine()

    def on_mount(self) -> None:
        """Draw at once what is known, which is nothing yet; then keep ages true."""
        self._arrange()
        self._show(self._session.view())
        self.pane("models").focus_main()
        self.set_interval(TICK_SECONDS, lambda: self._show(self._session.view()))

    def pane(self, name: str) -> Pane:
        """A pane by its name."""
        kinds: dict[str, type[Pane]] = {
            "node": NodePane,
            "models": ModelsPane,
            "chat": ChatPane,
            "log": LogPane,
            "mesh": MeshPane,
        }
        return self.query_one(kinds[name])

    @property
    def chat(self) -> ChatPane:
        """The chat pane."""
        return self.query_one(ChatPane)

    @property
    def ready_models(self) -> tuple[ChatModel, ...]:
        """Models that can chat now."""
        return self.chat.ready_models

    def on_snapshot_changed(self, event: SnapshotChanged) -> None:
        """Draw the newest state."""
        event.stop()
        self._show(event.view)

    def _show(self, view: NodeView) -> None:
        self._view = view
        mesh = mesh_status(view.snapshot) if view.snapshot and view.link == "live" else ()
        status = content([status_line(view, mesh)])
        line = self.query_one("#status", Static)
        if line.content != status:
            line.update(status)
        for name in NAMES:
            self.pane(name).show(view)

    def on_resize(self, event: events.Resize) -> None:
        """Another size may show more panes or fewer."""
        self._arrange(event.size)

    def _arrange(self, size: Size | None = None) -> None:
        columns, rows = size or self.app.size
        active = self._active
        alone = active == "mesh" and (columns < WIDE or rows < TALL)
        beside = columns >= MEDIUM and not alone
        for name in NAMES:
            if columns >= WIDE and not alone:
                shown = True
            elif beside:
                shown = name in ("node", "models", self._right)
            else:
                shown = name == active
            self.pane(name).display = shown
        self.query_one(MeshPane).stand(not alone)
        self.query_one("#panes").display = not alone
        self.query_one("#left").display = beside or active in ("node", "models")
        self.query_one("#right").display = beside or active in ("chat", "log")
        tabs = self.query_one(PaneTabs)
        tabs.display = columns < WIDE or alone
        tabs.mark(active)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The pane with the keyboard is the active one."""
        for widget in event.widget.ancestors_with_self:
            if widget.has_class("pane") and widget.id:
                self._activate(widget.id)
                return

    def _activate(self, name: str) -> None:
        if name != self._active:
            self._active = name
            self._right = name if name in ("chat", "log") else self._right
            self._arrange()

    def go(self, name: str) -> None:
        """Give the keyboard to a pane, and show it."""
        self._activate(name)
        self.pane(name).focus_main()

    def on_pane_tabs_chosen(self, event: PaneTabs.Chosen) -> None:
        """A click on a tab."""
        event.stop()
        self.go(event.pane)

    def _step(self, by: int) -> None:
        self.go(NAMES[(NAMES.index(self._active) + by) % len(NAMES)])

    def action_next_pane(self) -> None:
        """Go to the next pane."""
        self._step(1)

    def action_last_pane(self) -> None:
        """Go to the pane before."""
        self._step(-1)

    def action_go_node(self) -> None:
        """Go to the node."""
        self.go("node")

    def action_go_models(self) -> None:
        """Go to the models."""
        self.go("models")

    def action_go_chat(self) -> None:
        """Go to the chat."""
        self.go("chat")

    def action_go_log(self) -> None:
        """Go to the log."""
        self.go("log")

    def action_go_mesh(self) -> None:
        """Go to the mesh."""
        self.go("mesh")

    def action_invite(self) -> None:
        """Invite a machine."""
        self._desk.invite()

    def action_join(self) -> None:
        """Join a mesh."""
        self._desk.join()

    def on_mesh_pane_wanted(self, event: MeshPane.Wanted) -> None:
        """Something with the mesh, or with a member."""
        event.stop()
        self._desk.do(event.what, event.row)

    def action_write(self) -> None:
        """Go to the chat's prompt."""
        self.go("chat")

    def action_copy_endpoint(self) -> None:
        """Copy the endpoint's URL."""
        snapshot = self._view.snapshot
        if snapshot is None:
            self.notify("The node has not answered yet.", severity="warning", markup=False)
            return
        self.app.copy_to_clipboard(endpoint(snapshot))
        self.notify(f"Copied {endpoint(snapshot)}", markup=False)

    def action_load(self) -> None:
        """Ask which model to load."""
        known = [model.ref for model in self._view.snapshot.models] if self._view.snapshot else []
        self.app.push_screen(LoadScreen(self._load, known))

    async def _load(self, ref: str) -> None:
        await self._session.act("load", model=ref)
        self.post_message(ActionDone(f"Loading {one_line(ref, 80)}."))

    def use_model(self, model: ModelId) -> None:
        """Let a model answer in the chat."""
        self.chat.use(model)
        self.go("chat")

    def on_models_pane_wanted(self, event: ModelsPane.Wanted) -> None:
        """Use, unload or retry a model, or show its stages."""
        event.stop()
        model, name = event.model, one_line(event.model.id, 80)
        if event.what == "unload":
            text = "Requests that it is answering will end with an error."
            answers = (("cancel", "Keep it"), ("unload", "Unload"))
            ask = AskScreen(f"Unload {fit(name, 40)}?", text, answers)
            self.app.push_screen(ask, partial(self._unload, model.id))
        elif event.what == "stages":
            self.app.push_screen(SplitScreen(self._session.view, model.id))
        elif event.what == "retry":
            self.act("load", f"Loading {name} again.", model=model.ref)
        elif model.status == "ready" and model.chat:
            self.use_model(model.id)
        else:
            reason = "does not chat" if model.status == "ready" else f"is not ready: {model.status}"
            self.notify(f"{name} {reason}.", severity="warning", markup=False)

    def _unload(self, model: ModelId, answer: str | None) -> None:
        if answer == "unload":
            self.act("unload", f"Unloaded {one_line(model, 80)}.", model=model)

    def act(self, name: str, done: str, /, **arguments: object) -> None:
        """Ask the node for an action; `done` is said when it did it."""
        self.run(name, self._acting(name, done, **arguments))

    def run(self, what: str, asking: Coroutine[None, None, None]) -> None:
        """Do something that asks the node; a refusal is told."""
        self.run_worker(self._told(what, asking), group="act", exit_on_error=False)

    async def _told(self, what: str, asking: Coroutine[None, None, None]) -> None:
        try:
            await asking
        except MeshError as error:
            self.post_message(ActionFailed(what, error))

    async def _acting(self, name: str, done: str, /, **arguments: object) -> None:
        await self._session.act(name, **arguments)
        self.post_message(ActionDone(done))

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault of the dashboard's own must not be silent."""
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            self._session.note("error", f"the dashboard failed: {describe(event.worker.error)}")

    def on_action_done(self, event: ActionDone) -> None:
        """Say that it worked."""
        event.stop()
        self.app.notify(one_line(event.text), markup=False)

    def on_action_failed(self, event: ActionFailed) -> None:
        """Say what failed; the log keeps it after the toast is gone."""
        event.stop()
        text = f"{event.what} failed: {event.error}"
        self._session.note("error", text)
        self.app.notify(one_line(text, 300), severity="error", timeout=10, markup=False)
