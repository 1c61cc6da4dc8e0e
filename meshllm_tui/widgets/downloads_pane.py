"""Downloads: a row each, to be paused, resumed and ended."""

from typing import TYPE_CHECKING, cast

from textual import events

from meshllm_core.state.download_events import DownloadRow
from meshllm_tui.keys import bindings_of
from meshllm_tui.models_rows import download_rows
from meshllm_tui.models_words import empty_downloads, stale_words
from meshllm_tui.present import NodeView
from meshllm_tui.widgets.picking import PickList

if TYPE_CHECKING:
    from meshllm_tui.pages.models import ModelsPage


class DownloadsPane(PickList):
    """Two lines per download."""

    BINDINGS = bindings_of("downloads")

    def __init__(self) -> None:
        super().__init__("downloads", "Downloads")
        self._view = NodeView()

    @property
    def _page(self) -> "ModelsPage":
        return cast("ModelsPage", self.screen)

    def show(self, view: NodeView) -> None:
        """Draw `view`, if it says anything new."""
        self._view = view
        self.tell_stale(stale_words(view))
        rows = view.snapshot.downloads if view.snapshot is not None else ()
        self.set_class(bool(rows), "-filled")
        if not rows:
            self.show_note(empty_downloads(view))
        elif self.show_rows([row.id for row in rows], [download_rows(row, self.room) for row in rows]):
            self.refresh_bindings()

    def on_resize(self, _: events.Resize) -> None:
        """Fit the rows to the new width."""
        self.show(self._view)

    @property
    def row(self) -> DownloadRow | None:
        """The chosen download."""
        rows = self._view.snapshot.downloads if self._view.snapshot is not None else ()
        return next((row for row in rows if row.id == self.chosen), None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """All need a row; what is done or just stopping is not paused."""
        if action == "pause":
            return self.row is not None and self.row.state not in ("done", "stopping")
        return self.row is not None if action in ("remove", "copy") else True

    def action_main(self) -> None:
        """Enter pauses, or goes on."""
        self.action_pause()

    def action_pause(self) -> None:
        """Pause the chosen download, or let it go on."""
        if (row := self.row) is not None and self.check_action("pause", ()):
            self._page.pause(row)

    def action_remove(self) -> None:
        """End the chosen download, or take one that is done from the list."""
        if (row := self.row) is not None:
            self._page.cancel(row)

    def action_copy(self) -> None:
        """Copy what loads the model."""
        if (row := self.row) is not None:
            self.app.copy_to_clipboard(row.ref)
            self.notify("Copied what loads the model.", markup=False)
