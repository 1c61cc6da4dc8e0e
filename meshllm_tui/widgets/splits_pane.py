"""All splits of this node, and the stages that it computes for others: one line each."""

from textual.message import Message

from meshllm_core.ids import ModelId
from meshllm_core.state.snapshot import ModelView, NodeSnapshot
from meshllm_core.state.split_events import HostedStage
from meshllm_tui.keys import bindings_of
from meshllm_tui.present import NodeView
from meshllm_tui.split_words import hosted_row, no_splits, split_row
from meshllm_tui.widgets.pane import RowList

_HOSTED = "\0"
"""Begins the keys of hosted stages; no name of a model holds it."""


class SplitsPane(RowList):
    """Posts Chosen when another row is highlighted."""

    BINDINGS = bindings_of("splits")

    class Chosen(Message):
        """Another split is the chosen one."""

    class Opened(Message):
        """A person wants to see the chosen split's stages."""

    def __init__(self) -> None:
        super().__init__("splits", "Splits")
        self._view = NodeView()
        self._wanted: ModelId | None = None
        """To be chosen as soon as it is there."""

    def show(self, view: NodeView) -> None:
        """Draw `view`, if it says anything new."""
        self._view = view
        snapshot = view.snapshot
        splits = _splits(snapshot)
        hosted = snapshot.hosted_stages if snapshot is not None else ()
        if not splits and not hosted:
            self.show_note(no_splits(view))
            return
        width = max(self.outer_size.width - 5, 20)
        rows = [(split_row(model, model.split, width),) for model in splits if model.split is not None]
        rows += [(hosted_row(stage, width),) for stage in hosted]
        keys = [str(model.id) for model in splits]
        keys += [f"{_HOSTED}{stage.run}/{stage.index}" for stage in hosted]
        if self.show_rows(keys, rows):
            self.refresh_bindings()
        if self._wanted in keys:
            self.highlighted, self._wanted = keys.index(str(self._wanted)), None

    def choose(self, model: ModelId) -> None:
        """Highlight a model's split, now or when it comes."""
        self._wanted = model
        self.show(self._view)

    @property
    def model(self) -> ModelView | None:
        """The chosen split's model."""
        snapshot, chosen = self._view.snapshot, self.chosen
        if snapshot is None or chosen is None or chosen.startswith(_HOSTED):
            return None
        return snapshot.model(ModelId(chosen))

    @property
    def hosted(self) -> HostedStage | None:
        """The chosen stage, where it is one for another machine."""
        snapshot, chosen = self._view.snapshot, self.chosen
        if snapshot is None or chosen is None or not chosen.startswith(_HOSTED):
            return None
        stages = snapshot.hosted_stages
        return next((one for one in stages if f"{_HOSTED}{one.run}/{one.index}" == chosen), None)

    def on_resize(self) -> None:
        """Fit the rows to the new width."""
        self.show(self._view)

    def watch_highlighted(self, highlighted: int | None) -> None:
        """Another row, other stages."""
        super().watch_highlighted(highlighted)
        self.post_message(self.Chosen())

    def on_option_list_option_selected(self, event: RowList.OptionSelected) -> None:
        """A click chooses the row; what it is made of stands below."""
        event.stop()

    def action_details(self) -> None:
        """Go to the chosen split's stages."""
        self.post_message(self.Opened())


def _splits(snapshot: NodeSnapshot | None) -> list[ModelView]:
    return [model for model in snapshot.models if model.split is not None] if snapshot is not None else []
