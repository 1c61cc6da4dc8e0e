"""The models on this machine's disk."""

from typing import TYPE_CHECKING, cast

from textual import events

from meshllm_core.api.schema_models import Library, LibraryModel
from meshllm_tui.keys import bindings_of
from meshllm_tui.models_rows import library_rows
from meshllm_tui.models_words import Asked, library_summary
from meshllm_tui.present import NodeView, line
from meshllm_tui.widgets.picking import PickList

if TYPE_CHECKING:
    from meshllm_tui.pages.models import ModelsPage


class LibraryPane(PickList):
    """One line per model."""

    BINDINGS = bindings_of("library")

    def __init__(self) -> None:
        super().__init__("library", "On this disk")
        self._view = NodeView()
        self._asked: Asked[Library] = Asked()

    @property
    def _page(self) -> "ModelsPage":
        return cast("ModelsPage", self.screen)

    def tell(self, asked: Asked[Library]) -> None:
        """Another answer, or none."""
        self._asked = asked
        self.show(self._view)

    def show(self, view: NodeView) -> None:
        """Draw what is new."""
        self._view = view
        library = self._asked.answer
        if library is None:
            self.show_note(self._asked.note(view, "reading the disk…"))
            return
        summary = library_summary(library.folder, library.bytes_here, library.disk_free, self.room)
        self.tell_stale(self._asked.stale(view), summary)
        if not library.models:
            self.show_note((line("No model is on this disk."),))
        elif self.show_rows(
            [model.key for model in library.models],
            [library_rows(model, self.room) for model in library.models],
        ):
            self.refresh_bindings()

    def on_resize(self, _: events.Resize) -> None:
        """Fit the rows to the new width."""
        self.show(self._view)

    @property
    def model(self) -> LibraryModel | None:
        """The chosen model."""
        models = self._asked.answer.models if self._asked.answer is not None else ()
        return next((model for model in models if model.key == self.chosen), None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Loading needs a whole model that is not loaded, going on one in part."""
        model = self.model
        if action == "load":
            return model is not None and model.complete and not model.loaded
        if action == "go_on":
            return model is not None and not model.complete and model.kind == "model"
        return model is not None if action in ("remove", "copy") else True

    def action_main(self) -> None:
        """Enter loads."""
        self.action_load()

    def action_load(self) -> None:
        """Load the chosen model."""
        if (model := self.model) is not None and self.check_action("load", ()):
            self._page.load(model.ref, model.id)

    def action_remove(self) -> None:
        """Delete the chosen model."""
        if (model := self.model) is not None:
            self._page.delete(model)

    def action_go_on(self) -> None:
        """Go on with its download."""
        if (model := self.model) is not None and self.check_action("go_on", ()):
            self._page.download(model.ref, model.id)

    def action_copy(self) -> None:
        """Copy what loads the model."""
        if (model := self.model) is not None:
            self.app.copy_to_clipboard(model.ref)
            self.notify("Copied what loads the model.", markup=False)

    def action_again(self) -> None:
        """Read the disk again."""
        self._page.ask_again()
