"""How models are spread over machines: every split of this node, drawn to scale, as its stages change."""

from functools import partial

from textual.app import ComposeResult
from textual.containers import Vertical

from meshllm_core.ids import ModelId
from meshllm_tui.cleaning import fit, one_line
from meshllm_tui.keys import bindings_of
from meshllm_tui.pages.page import Page
from meshllm_tui.present import Line, NodeView
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.split_words import hosted_lines, split_lines, stale_line
from meshllm_tui.widgets.splits_pane import SplitsPane
from meshllm_tui.widgets.text_pane import TextPane

_ON_A_MODEL = ("chat", "plan", "unload", "retry")


class StagesPane(TextPane):
    """The map, the stages and the price of the chosen split."""

    def __init__(self) -> None:
        super().__init__("stages", "Stages")

    def show(self, _: NodeView) -> None:
        """The desk draws it: what it shows depends on what is chosen."""


class SplitDesk(Vertical):
    """Both panes, and what can be done with the chosen split from either."""

    BINDINGS = bindings_of("split")

    def __init__(self, page: "SplitPage") -> None:
        super().__init__(id="split")
        self._page = page

    def compose(self) -> ComposeResult:
        """The splits above, the chosen one below."""
        yield SplitsPane()
        yield StagesPane()

    @property
    def splits(self) -> SplitsPane:
        """The list."""
        return self.query_one(SplitsPane)

    @property
    def stages(self) -> StagesPane:
        """The chosen one."""
        return self.query_one(StagesPane)

    def draw(self, view: NodeView) -> None:
        """Draw the chosen split, if anything of it is new."""
        model, hosted, pane = self.splits.model, self.splits.hosted, self.stages
        lines: tuple[Line, ...] = ()
        title = "Stages"
        if model is not None:
            lines, title = split_lines(model, view, pane.room), fit(model.id, 60)
        elif hosted is not None:
            lines, title = hosted_lines(hosted, pane.room), f"For {fit(hosted.coordinator, 40)}"
        pane.say((*stale_line(view), *lines), title)
        if pane.display != bool(lines):
            pane.display = bool(lines)
        self.set_class(not lines, "-empty")
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Most need a split of this node; chatting one that is ready, retrying one that failed."""
        if action not in (*_ON_A_MODEL, "copy") or not self.is_mounted:
            return True
        model = self.splits.model
        if action == "copy":
            return model is not None or self.splits.hosted is not None
        status = {"chat": "ready", "retry": "failed"}.get(action)
        return model is not None and (status is None or model.status == status)

    def action_chat(self) -> None:
        """Chat with the chosen model."""
        model = self.splits.model
        if model is not None and self.check_action("chat", ()):
            self._page.dashboard.chat_with(model.id)

    def action_plan(self) -> None:
        """What other ways there are."""
        if (model := self.splits.model) is not None:
            self._page.dashboard.call_next(self._page.plan, model.id)

    def action_unload(self) -> None:
        """Unload it, after asking."""
        model = self.splits.model
        if model is None:
            return
        text = "Its stages end on all machines. Requests that it is answering will end with an error."
        ask = AskScreen(f"Unload {fit(model.id, 40)}?", text, (("cancel", "Keep it"), ("unload", "Unload")))
        self.app.push_screen(ask, partial(self._unload, model.id))

    def _unload(self, model: ModelId, answer: str | None) -> None:
        if answer == "unload":
            self._page.dashboard.act("unload", f"Unloaded {one_line(model, 80)}.", model=model)

    def action_retry(self) -> None:
        """Load it again."""
        model = self.splits.model
        if model is not None and self.check_action("retry", ()):
            words = f"Loading {one_line(model.id, 80)} again."
            self._page.dashboard.act("load", words, model=model.ref, split=True)

    def action_copy(self) -> None:
        """Copy what is said of it."""
        if self.stages.text:
            self.app.copy_to_clipboard(self.stages.text)
            self.notify("Copied what is said of the split.", markup=False)


class SplitPage(Page):
    """The splits of this node, and what it computes for others."""

    NAME = "split"
    PANES = ("splits", "stages")
    FIRST = "splits"

    def body(self) -> ComposeResult:
        """The desk with both panes."""
        yield SplitDesk(self)

    @property
    def desk(self) -> SplitDesk:
        """What holds both panes."""
        return self.query_one(SplitDesk)

    def show(self, view: NodeView) -> None:
        """The list first: it says which split is drawn."""
        super().show(view)
        self.desk.draw(view)

    def go(self, name: str) -> None:
        """The desk itself has no keyboard; the stages have none while there are none."""
        wanted = self.active if name == "split" else name
        super().go("splits" if not self.desk.stages.display else wanted)

    def choose(self, model: ModelId) -> None:
        """Show a model's split, now or as soon as it is there."""
        self.desk.splits.choose(model)
        self.desk.draw(self.session.view())

    async def plan(self, model: ModelId) -> None:
        """Open the planner with a model."""
        from meshllm_tui.pages.plan import PlanPage

        page = await self.dashboard.open("plan", "candidates")
        assert isinstance(page, PlanPage)
        page.choose(model)

    def on_splits_pane_chosen(self, event: SplitsPane.Chosen) -> None:
        """Draw the other one."""
        event.stop()
        self.desk.draw(self.session.view())

    def on_splits_pane_opened(self, event: SplitsPane.Opened) -> None:
        """To its stages."""
        event.stop()
        self.go("stages")

    def on_text_pane_resized(self, event: TextPane.Resized) -> None:
        """The map is drawn for the width that there is."""
        event.stop()
        self.desk.draw(self.session.view())
