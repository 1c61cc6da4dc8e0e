"""Asks the planner and shows what it answers. The latest question wins; a slider asks when it rests."""

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.timer import Timer
from textual.worker import Worker, WorkerState

from meshllm_core.api.schema_plan import PlanAnswer, PlanCandidate, PlanModel, PlanModels
from meshllm_core.errors import EngineError, MeshError, describe
from meshllm_tui.cleaning import fit
from meshllm_tui.keys import bindings_of
from meshllm_tui.plan_words import model_words, plan_lines, refusal_lines
from meshllm_tui.present import Line, NodeView, Span, error_lines, line, link_words, muted, waiting_lines
from meshllm_tui.screens.choose import ChooseScreen, row_width
from meshllm_tui.session import NodeClient
from meshllm_tui.units import count
from meshllm_tui.widgets.plan_panes import CandidatesPane, ModelLine, ReasonsPane, WishesPane
from meshllm_tui.widgets.slider import Slider
from meshllm_tui.widgets.text_pane import TextPane

SOON_SECONDS = 0.25
"""A slider that rests so long is asked about."""
SETTLED_SECONDS = 1.0
"""The same for machines that come and go."""


class PlanDesk(Horizontal):
    """All panes of the planner, and what can be done from any of them."""

    BINDINGS = bindings_of("plan")

    class Launched(Message):
        """A person wants a candidate to be run."""

        def __init__(self, answer: PlanAnswer, candidate: PlanCandidate) -> None:
            super().__init__()
            self.answer, self.candidate = answer, candidate

    def __init__(self, client: Callable[[], NodeClient]) -> None:
        """`client` raises NodeNotRunning while there is none."""
        super().__init__(id="plan")
        self._client = client
        self._view = NodeView()
        self._models: tuple[PlanModel, ...] = ()
        self._ref = ""
        self._answer: PlanAnswer | None = None
        self._error: MeshError | None = None
        self._asking = False
        self._timer: Timer | None = None
        self._machines: tuple[object, ...] = ()
        self._listed = False
        self.wished: dict[str, object] = {}
        """What the answer was asked with."""

    def compose(self) -> ComposeResult:
        """What is asked and the candidates at the left, the chosen one at the right."""
        with Vertical(id="asked"):
            yield WishesPane()
            yield CandidatesPane()
        yield ReasonsPane()

    # What is asked ----------------------------------------------------------------------------------

    def follow(self, view: NodeView) -> None:
        """Another state of the node: asks at the first, and again where the machines have changed."""
        self._view = view
        snapshot = view.snapshot
        if snapshot is not None and view.link == "live":
            machines = (
                tuple(sorted((peer.node, peer.status) for peer in snapshot.peers)),
                tuple((model.id, model.status == "ready") for model in snapshot.models),
            )
            if not self._listed:
                self._listed = True
                self._machines = machines
                self.run_worker(self._list(), group="plan-models", exclusive=True, exit_on_error=False)
            elif machines != self._machines:
                self._machines = machines
                self._soon(SETTLED_SECONDS)
        self._draw()

    def choose(self, ref: str) -> None:
        """Plan that model."""
        if ref != self._ref:
            self._answer, self._error = None, None
        self._ref = ref
        self._soon(0.01)
        self._draw()

    def _soon(self, seconds: float = SOON_SECONDS) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(seconds, self._ask)

    def _ask(self) -> None:
        if self._ref:
            self._asking = True
            self._draw()
            self.run_worker(self._asked(), group="plan", exclusive=True, exit_on_error=False)

    async def _list(self) -> None:
        try:
            found = await self._client().ask("plan/models", PlanModels)
        except MeshError as error:
            self._error = error
        else:
            self._models = found.models
            if not self._ref and self._models:
                self.choose(self._models[0].ref)
        self._draw()

    async def _asked(self) -> None:
        ref, wished = self._ref, self.query_one(WishesPane).question()
        try:
            answer = await self._client().ask("plan", PlanAnswer, model=ref, **wished)
        except MeshError as error:
            self._answer, self._error = None, error
        else:
            self._answer, self._error, self.wished = answer, None, wished
        self._asking = False
        self._draw()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault of the dashboard's own must not look like waiting."""
        event.stop()
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            self._asking = False
            self._answer = None
            self._error = EngineError(describe(event.worker.error), hint="Please report it with the log.")
            self._draw()

    # What is shown ----------------------------------------------------------------------------------

    @property
    def candidate(self) -> PlanCandidate | None:
        """The highlighted one."""
        chosen = self.query_one(CandidatesPane).chosen
        candidates = self._answer.candidates if self._answer is not None else ()
        return candidates[int(chosen)] if chosen is not None and int(chosen) < len(candidates) else None

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        candidates, reasons = self.query_one(CandidatesPane), self.query_one(ReasonsPane)
        self.query_one(ModelLine).say(self._model_name())
        answer = self._answer
        note, under = self._note(), ""
        if self._asking:
            under = "◌ asking…"
        elif answer is not None:
            under = f"over {count(answer.machines, 'machine')}"
        candidates.say(answer.candidates if answer is not None else (), note, under)
        chosen = self.candidate
        lines: tuple[Line, ...] = ()
        title = "Why"
        if answer is not None and chosen is not None:
            lines, title = plan_lines(answer, chosen, reasons.room), fit(chosen.title, 60)
        elif answer is not None:
            lines = refusal_lines(answer)
        elif self._error is not None:
            lines = error_lines(self._error.message, self._error.hint)
        else:
            lines = (line(muted("What speaks for and against the chosen candidate stands here.")),)
        stale = (link_words(self._view),) if self._view.snapshot and self._view.link != "live" else ()
        reasons.say((*stale, *lines), title)
        self.refresh_bindings()

    def _model_name(self) -> str:
        known = next((model.name for model in self._models if self._ref in (model.ref, model.name)), "")
        return known or (self._answer.model if self._answer is not None else self._ref)

    def _note(self) -> tuple[Line, ...]:
        """What is said in place of candidates."""
        if self._view.snapshot is None:
            return waiting_lines(self._view)
        if self._error is not None:
            return (line(Span("✗ It could not be planned.", "bad")), line(muted("Press r to ask again.")))
        if self._answer is not None:
            return (line(Span("✗ No machine and no split would do.", "bad")), line(muted("Tab shows why.")))
        if self._listed and not self._ref and not self._models:
            return (line(muted("◌ reading which models there are…")),)
        return (line(Span("◌ asking the planner…", "accent")),)

    # What can be done -------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Launching and copying need an answer."""
        if action in ("launch", "copy") and self.is_mounted:
            return self._answer is not None and (action == "copy" or self.candidate is not None)
        return True

    def action_launch(self) -> None:
        """Launch the chosen candidate, or say why that cannot be done from here."""
        answer, candidate = self._answer, self.candidate
        if answer is None or candidate is None:
            return
        if candidate.launch == "none":
            why = candidate.launch_note or "It cannot be launched from here."
            self.notify(why, severity="warning", markup=False)
            return
        self.post_message(self.Launched(answer, candidate))

    def action_pick(self) -> None:
        """Pick the model from a list."""
        if not self._models:
            self.notify("The node has not told its models yet.", severity="warning", markup=False)
            return
        room = row_width(self.app.size.width)
        rows = [(model.ref, model_words(model, room)) for model in self._models]
        self.app.push_screen(ChooseScreen("Plan which model?", rows), self._picked)

    def _picked(self, ref: str | None) -> None:
        if ref is not None:
            self.choose(ref)

    def action_ask(self) -> None:
        """Ask again: for the models too, where they could not be told."""
        if not self._models:
            self._error, self._listed = None, False
            self.follow(self._view)
        self._ask()

    def action_reset(self) -> None:
        """Take back all that was supposed."""
        if self.query_one(WishesPane).reset():
            self._soon()

    def action_copy(self) -> None:
        """Copy the chosen candidate with its reasons."""
        self.app.copy_to_clipboard(self.query_one(ReasonsPane).text)
        self.notify("Copied the plan.", markup=False)

    def on_slider_moved(self, event: Slider.Moved) -> None:
        """Ask when it rests."""
        event.stop()
        self._soon()

    def on_model_line_wanted(self, event: ModelLine.Wanted) -> None:
        """Another model."""
        event.stop()
        refs = [model.ref for model in self._models]
        if not event.by:
            self.action_pick()
        elif refs:
            at = refs.index(self._ref) if self._ref in refs else -1 if event.by > 0 else 0
            self.choose(refs[(at + event.by) % len(refs)])

    def on_candidates_pane_chosen(self, event: CandidatesPane.Chosen) -> None:
        """Its reasons."""
        event.stop()
        self._draw()

    def on_candidates_pane_launched(self, event: CandidatesPane.Launched) -> None:
        """Enter in the list."""
        event.stop()
        self.action_launch()

    def on_text_pane_resized(self, event: TextPane.Resized) -> None:
        """The map is drawn for the width that there is."""
        event.stop()
        self._draw()
