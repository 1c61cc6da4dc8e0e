"""The planner: a model and the machines that are there; the ways to run it, with their reasons."""

from functools import partial
from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult

from meshllm_core.api.schema_plan import PlanAnswer, PlanCandidate
from meshllm_core.ids import ModelId
from meshllm_tui.cleaning import one_line
from meshllm_tui.messages import ActionDone
from meshllm_tui.pages.page import MEDIUM, Page
from meshllm_tui.plan_words import launch_words
from meshllm_tui.present import NodeView
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.widgets.plan_desk import PlanDesk

if TYPE_CHECKING:
    from meshllm_tui.pages.split import SplitPage


class PlanPage(Page):
    """Where a model would run, how fast, and why; launched from here."""

    NAME = "plan"
    PANES = ("wishes", "candidates", "reasons")
    FIRST = "wishes"

    def body(self) -> ComposeResult:
        """The desk with its panes."""
        yield PlanDesk(lambda: self.session.client)

    @property
    def desk(self) -> PlanDesk:
        """What holds the panes, and asks."""
        return self.query_one(PlanDesk)

    def place_panes(self) -> None:
        """Two columns where there is room; else the reasons while they have the keyboard."""
        narrow, reasons = self.app.size.width < MEDIUM, self.active == "reasons"
        self.query_one("#asked").display = not (narrow and reasons)
        self.query_one("#reasons").display = not narrow or reasons

    def show(self, view: NodeView) -> None:
        """The desk asks anew where the machines are others than they were."""
        super().show(view)
        self.desk.follow(view)

    def go(self, name: str) -> None:
        """The desk itself has no keyboard."""
        super().go(self.active if name == "plan" else name)

    def choose(self, model: str) -> None:
        """Plan that model."""
        self.desk.choose(model)

    def on_plan_desk_launched(self, event: PlanDesk.Launched) -> None:
        """Show the price; a second key press loads it."""
        event.stop()
        title, text = launch_words(event.answer, event.candidate)
        yes = "Split it" if event.candidate.launch == "split" else "Load it"
        ask = AskScreen(title, text, (("launch", yes), ("cancel", "Cancel")))
        given = self.desk.wished
        self.app.push_screen(ask, partial(self._launch, event.answer, event.candidate, given))

    def _launch(
        self, answer: PlanAnswer, candidate: PlanCandidate, given: dict[str, object], pressed: str | None
    ) -> None:
        if pressed == "launch":
            self.dashboard.run_asking("load", self._loading(answer, candidate, given))

    async def _loading(self, answer: PlanAnswer, candidate: PlanCandidate, given: dict[str, object]) -> None:
        wanted = {key: given[key] for key in ("ctx_size", "lanes") if given.get(key) is not None}
        split = candidate.launch == "split"
        await self.session.act("load", model=answer.ref, split=split, **wanted)
        self.app.post_message(ActionDone(f"Loading {one_line(answer.model, 80)}."))
        if split:
            page = cast("SplitPage", await self.dashboard.open("split", "splits"))
            page.choose(ModelId(answer.model))
