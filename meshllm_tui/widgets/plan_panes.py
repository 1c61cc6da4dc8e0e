"""The parts of the planner's page: what is asked, the candidates, the chosen one."""

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message

from meshllm_core.api.schema_plan import PlanCandidate
from meshllm_tui.cleaning import fit
from meshllm_tui.keys import bindings_of
from meshllm_tui.plan_words import CONTEXTS, HOPS, LANES, TARGET_AT, TARGETS, candidate_row
from meshllm_tui.present import Line, NodeView, Span, line, muted
from meshllm_tui.widgets.pane import RowList
from meshllm_tui.widgets.slider import LABEL, Slider
from meshllm_tui.widgets.styled import content
from meshllm_tui.widgets.text_pane import TextPane
from meshllm_tui.widgets.value_row import MarkedLine


class ModelLine(MarkedLine):
    """The model that is planned: Enter or a click picks one, left and right take the next in the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "pick", "Pick", key_display="Enter", tooltip="Pick the model from a list."),
        Binding("right,plus", "turn(1)", "Change", key_display="← →", tooltip="Take the next model."),
        Binding("left,minus", "turn(-1)", "Change", show=False),
        Binding("down,j", "app.focus_next", "Next", show=False),
        Binding("up,k", "app.focus_previous", "Back", show=False),
    ]

    class Wanted(Message):
        """Another model is wanted: the next by so many, or, by 0, one from the list."""

        def __init__(self, by: int = 0) -> None:
            super().__init__()
            self.by = by

    def __init__(self) -> None:
        super().__init__(id="plan-model", classes="slider", markup=False)
        self._shown = ""

    def say(self, name: str) -> None:
        """Show the model's name."""
        if name != self._shown:
            self._shown = name
            self._draw()

    def on_click(self, event: events.Click) -> None:
        """A click picks from the list."""
        event.stop()
        self.focus()
        self.action_pick()

    def action_pick(self) -> None:
        """Pick from the list."""
        self.post_message(self.Wanted())

    def action_turn(self, by: int) -> None:
        """The next in the list."""
        self.post_message(self.Wanted(by))

    def _draw(self) -> None:
        mark = "▸ " if self.has_focus else "  "
        name = fit(self._shown, 28) or "none is picked"
        value = Span(name, "strong" if self._shown else "muted")
        self.update(content([line(Span(mark, "accent"), muted("Model".ljust(LABEL)), value)]))


class WishesPane(Vertical):
    """What is to be planned, and what is supposed of the mesh."""

    def __init__(self) -> None:
        super().__init__(id="wishes", classes="pane")
        self.border_title = Content("Plan")

    def compose(self) -> ComposeResult:
        """The model, then the sliders."""
        yield ModelLine()
        yield Slider("Hop one way", HOPS, "hop")
        yield Slider("Context", CONTEXTS, "context")
        yield Slider("Requests", LANES, "lanes")
        yield Slider("Target", TARGETS, "target", at=TARGET_AT)

    def question(self) -> dict[str, object]:
        """The arguments of the question, the model left out."""
        hop: Slider[float | None] = self.query_one("#hop", Slider)
        context: Slider[int] = self.query_one("#context", Slider)
        lanes: Slider[int] = self.query_one("#lanes", Slider)
        target: Slider[float] = self.query_one("#target", Slider)
        return {
            "hop_ms": hop.value,
            "ctx_size": context.value or None,
            "lanes": lanes.value or None,
            "target_ms": target.value if target.moved else None,
        }

    def reset(self) -> bool:
        """All sliders as at the beginning; whether any was elsewhere."""
        sliders = list(self.query(Slider))
        moved = any(slider.moved for slider in sliders)
        for slider in sliders:
            slider.reset()
        return moved

    def show(self, _: NodeView) -> None:
        """Nothing of it comes from the node's state."""

    def focus_main(self) -> None:
        """Give the keyboard to the model."""
        self.query_one(ModelLine).focus()


class CandidatesPane(RowList):
    """The ways to run the model, the best first."""

    BINDINGS = bindings_of("candidates")

    class Chosen(Message):
        """Another candidate is highlighted."""

    class Launched(Message):
        """A person wants the highlighted one."""

    def __init__(self) -> None:
        super().__init__("candidates", "Candidates", divided=True)
        self._said: tuple[Sequence[PlanCandidate], tuple[Line, ...], str] = ((), (), "")

    def say(self, candidates: Sequence[PlanCandidate], note: tuple[Line, ...], under: str) -> None:
        """Show the candidates, or a note where there are none; `under` stands in the border."""
        self._said = (candidates, note, under)
        if self.border_subtitle != Content(under):
            self.border_subtitle = Content(under)
        if not candidates:
            self.show_note(note)
            return
        width = max(self.outer_size.width - 5, 20)
        rows = [candidate_row(each, rank, width) for rank, each in enumerate(candidates, 1)]
        if self.show_rows([str(rank) for rank in range(len(rows))], rows):
            self.refresh_bindings()

    def show(self, _: NodeView) -> None:
        """What it shows is the planner's answer."""

    def on_resize(self, _: events.Resize) -> None:
        """Fit the candidates to the new width."""
        if self._said[0]:
            self.say(*self._said)

    def watch_highlighted(self, highlighted: int | None) -> None:
        """Another one is looked at."""
        super().watch_highlighted(highlighted)
        self.post_message(self.Chosen())

    def on_option_list_option_selected(self, event: RowList.OptionSelected) -> None:
        """A click chooses; the key launches."""
        event.stop()

    def action_launch(self) -> None:
        """Launch the highlighted one."""
        self.post_message(self.Launched())


class ReasonsPane(TextPane):
    """The chosen candidate's map and reasons, or why there is none."""

    def __init__(self) -> None:
        super().__init__("reasons", "Why")

    def show(self, _: NodeView) -> None:
        """What it shows is the planner's answer."""
