"""What runs where: models of this node and of other members, and stages computed here for others."""

from typing import TYPE_CHECKING, cast

from textual import events

from meshllm_core.ids import ModelId
from meshllm_core.state.snapshot import ModelView
from meshllm_tui.keys import bindings_of
from meshllm_tui.models_rows import running_rows
from meshllm_tui.models_words import empty_running, stale_words
from meshllm_tui.present import NodeView
from meshllm_tui.widgets.picking import PickList

if TYPE_CHECKING:
    from meshllm_tui.pages.models import ModelsPage


class RunningPane(PickList):
    """Two lines per model and machine."""

    BINDINGS = bindings_of("running")

    def __init__(self) -> None:
        super().__init__("running", "Running")
        self._view = NodeView()
        self._drawn: tuple[object, ...] = (None, None, None)
        self._width = 0

    @property
    def _page(self) -> "ModelsPage":
        return cast("ModelsPage", self.screen)

    def show(self, view: NodeView) -> None:
        """Draw `view`, if it says anything new."""
        self._view = view
        self.tell_stale(stale_words(view))
        if (snapshot := view.snapshot) is not None:
            # Each is made anew only when something in it changes.
            drawn = (snapshot.models, snapshot.peers, snapshot.hosted_stages)
            same = all(new is old for new, old in zip(drawn, self._drawn, strict=True))
            if same and self._width == self.room:
                return
            self._drawn, self._width = drawn, self.room
        rows = list(running_rows(view.snapshot, self.room)) if view.snapshot is not None else []
        if not rows:
            self.show_note(empty_running(view))
        elif self.show_rows([key for key, _ in rows], [lines for _, lines in rows]):
            self.refresh_bindings()

    def on_resize(self, _: events.Resize) -> None:
        """Fit the rows to the new width."""
        self.show(self._view)

    @property
    def model(self) -> ModelView | None:
        """The chosen model, where it is one of this node."""
        kind, _, name = (self.chosen or "").partition(":")
        snapshot = self._view.snapshot
        return snapshot.model(ModelId(name)) if snapshot is not None and kind == "own" else None

    @property
    def name_chosen(self) -> str:
        """The chosen model's name, as requests give it; empty for a stage."""
        kind, _, rest = (self.chosen or "").partition(":")
        return rest if kind == "own" else rest.partition(":")[2] if kind == "peer" else ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Unloading needs a model of this node, retrying a failed one, stages a split one."""
        if action in ("use", "copy"):
            return bool(self.name_chosen)
        if action in ("unload", "retry", "stages"):
            model = self.model
            if model is None:
                return False
            return (
                action == "unload"
                or (action == "retry" and model.status == "failed")
                or (action == "stages" and model.split is not None)
            )
        return True

    def action_main(self) -> None:
        """Enter is the chat."""
        self.action_use()

    def action_use(self) -> None:
        """Chat with the chosen model."""
        if self.name_chosen:
            self._page.chat(self.name_chosen, self.model)

    def action_unload(self) -> None:
        """Unload the chosen model."""
        if (model := self.model) is not None:
            self._page.unload(model.id)

    def action_retry(self) -> None:
        """Load the chosen model again."""
        if (model := self.model) is not None and model.status == "failed":
            self._page.load(model.ref, model.id)

    def action_stages(self) -> None:
        """Show how the chosen model is spread over machines."""
        if (model := self.model) is not None and model.split is not None:
            self._page.stages(model.id)

    def action_copy(self) -> None:
        """Copy the chosen model's name."""
        if self.name_chosen:
            self.app.copy_to_clipboard(self.name_chosen)
            self.notify("Copied the model's name.", markup=False)
