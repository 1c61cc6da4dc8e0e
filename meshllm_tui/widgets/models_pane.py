"""The models: a card each, with its state, progress and speed; then stages for other machines' models."""

from textual import events
from textual.message import Message

from meshllm_core.ids import ModelId
from meshllm_core.state.snapshot import ModelView
from meshllm_tui.keys import bindings_of
from meshllm_tui.present import NodeView
from meshllm_tui.rows import empty_models, model_card
from meshllm_tui.split_rows import hosted_card
from meshllm_tui.widgets.pane import RowList

_HOSTED = "\0"
"""Begins the keys of hosted stages; no name of a model holds it."""


class ModelsPane(RowList):
    """One row per model, ready or not, and one per stage that is computed for others."""

    BINDINGS = bindings_of("models")

    class Wanted(Message):
        """A person asked for something to be done with a model."""

        def __init__(self, what: str, model: ModelView) -> None:
            super().__init__()
            self.what = what
            """use, unload, retry or stages."""
            self.model = model

    def __init__(self) -> None:
        super().__init__("models", "Models", divided=True)
        self._view = NodeView()

    def show(self, view: NodeView) -> None:
        """Draw `view`, if it says anything new."""
        self._view = view
        snapshot = view.snapshot
        if snapshot is None or not (snapshot.models or snapshot.hosted_stages):
            self.show_note(empty_models(view))
            return
        # The border, the rows' padding and room for the scroll bar, so that rows fit when it comes.
        width = max(self.outer_size.width - 5, 20)
        cards = [model_card(model, snapshot, width) for model in snapshot.models]
        cards += [hosted_card(stage, width) for stage in snapshot.hosted_stages]
        keys = [str(model.id) for model in snapshot.models]
        keys += [_HOSTED + stage.run for stage in snapshot.hosted_stages]
        if self.show_rows(keys, cards):
            self.refresh_bindings()

    def on_resize(self, _: events.Resize) -> None:
        """Fit the cards to the new width."""
        self.show(self._view)

    def on_option_list_option_selected(self, event: RowList.OptionSelected) -> None:
        """A click on a card chooses the model for the chat, as Enter does."""
        event.stop()
        self.action_use()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Actions need a model's row; retry needs a failed one, stages one that is split."""
        if action in ("use", "unload", "copy", "retry"):
            model = self.chosen_model
            return model is not None and (model.status == "failed") >= (action == "retry")
        if action == "stages":
            model = self.chosen_model
            return model is not None and model.split is not None
        return True

    @property
    def chosen_model(self) -> ModelView | None:
        """The highlighted model."""
        snapshot, chosen = self._view.snapshot, self.chosen
        return snapshot.model(ModelId(chosen)) if snapshot and chosen is not None else None

    def watch_highlighted(self, highlighted: int | None) -> None:
        """Another row may allow other actions."""
        super().watch_highlighted(highlighted)
        self.refresh_bindings()

    def _want(self, what: str) -> None:
        model = self.chosen_model
        if model is not None:
            self.post_message(self.Wanted(what, model))

    def action_use(self) -> None:
        """Chat with the highlighted model."""
        self._want("use")

    def action_unload(self) -> None:
        """Unload the highlighted model."""
        self._want("unload")

    def action_retry(self) -> None:
        """Load the highlighted model again."""
        self._want("retry")

    def action_stages(self) -> None:
        """Show how the highlighted model is spread over machines."""
        self._want("stages")

    def action_copy(self) -> None:
        """Copy the highlighted model's name."""
        model = self.chosen_model
        if model is not None:
            self.app.copy_to_clipboard(model.id)
            self.notify("Copied the model's name.", markup=False)
