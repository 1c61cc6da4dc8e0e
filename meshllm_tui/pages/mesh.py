"""The first page: the mesh, this node, its models, and what happened last."""

from functools import partial

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from meshllm_core.ids import ModelId
from meshllm_tui.cleaning import fit, one_line
from meshllm_tui.pages.page import MEDIUM, WIDE, Page
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.widgets.log_pane import LogPane
from meshllm_tui.widgets.mesh_pane import MeshPane
from meshllm_tui.widgets.models_pane import ModelsPane
from meshllm_tui.widgets.node_pane import NodePane

TALL = 30
"""Rows from which the log has room below the mesh."""


class MeshPage(Page):
    """What the machines are doing, at a glance."""

    NAME = "mesh"
    PANES = ("mesh", "node", "models", "log")
    FIRST = "models"

    def body(self) -> ComposeResult:
        """Node and models at the left, mesh and log at the right."""
        with Horizontal(id="panes"):
            with Vertical(id="left"):
                yield NodePane()
                yield ModelsPane()
            with Vertical(id="right"):
                yield MeshPane()
                yield LogPane()

    def place_panes(self) -> None:
        """Two columns where there is room, else the pane with the keyboard."""
        columns, rows = self.app.size
        active = self.active
        # A mesh needs width more than company.
        narrow = columns < MEDIUM or (columns < WIDE and active == "mesh")
        low = columns < WIDE and rows < TALL
        shown = {name: not narrow or name == active for name in self.PANES}
        if low and not narrow:
            shown["mesh"], shown["log"] = active != "log", active == "log"
        for name in self.PANES:
            self.query_one(f"#{name}").display = shown[name]
        self.query_one("#left").display = shown["node"] or shown["models"]
        self.query_one("#right").display = shown["mesh"] or shown["log"]

    def on_mesh_pane_wanted(self, event: MeshPane.Wanted) -> None:
        """Something with the mesh, or with a member."""
        event.stop()
        self.dashboard.desk.do(event.what, event.row)

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
            self.dashboard.call_next(self._stages, model.id)
        elif event.what == "retry":
            self.dashboard.act("load", f"Loading {name} again.", model=model.ref)
        elif model.status == "ready" and model.chat:
            self.dashboard.chat_with(model.id)
        else:
            reason = "does not chat" if model.status == "ready" else f"is not ready: {model.status}"
            self.notify(f"{name} {reason}.", severity="warning", markup=False)

    async def _stages(self, model: ModelId) -> None:
        from meshllm_tui.pages.split import SplitPage

        page = await self.dashboard.open("split", "stages")
        assert isinstance(page, SplitPage)
        page.choose(model)

    def _unload(self, model: ModelId, answer: str | None) -> None:
        if answer == "unload":
            self.dashboard.act("unload", f"Unloaded {one_line(model, 80)}.", model=model)
