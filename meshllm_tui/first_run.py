"""The first run: when its questions are asked, and that they are never asked again."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from meshllm_tui.present import NodeView

if TYPE_CHECKING:
    from meshllm_tui.app import MeshApp


class FirstRun:
    """Asks once there is a node to talk of and no dialog in the way, unless `marker` is None."""

    def __init__(self, app: "MeshApp", marker: Path | None) -> None:
        self._app, self._marker = app, marker

    def look(self, view: NodeView) -> None:
        """Called at each change of the node."""
        if self._marker is not None and view.snapshot is not None:
            self._app.call_next(self._ask)

    def _ask(self) -> None:
        marker, self._marker = self._marker, None
        if marker is None:
            return
        if len(self._app.screen_stack) > 1:
            self._marker = marker
            return
        from meshllm_tui.screens.welcome import WelcomeScreen

        self._app.push_screen(WelcomeScreen(self._app.session), partial(self._asked, marker))

    def _asked(self, marker: Path, wanted: str | None) -> None:
        try:
            mark_seen(marker)
        except OSError as error:
            text = f"These questions come again next time: {marker} cannot be written: {error.strerror}."
            self._app.notify(text, severity="warning", markup=False)
        if wanted in ("invite", "join"):
            self._app.go("invite", wanted)


def mark_seen(marker: Path) -> None:
    """From now on they are not asked any more. Raises OSError."""
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_text("The questions of the first run were seen; without this file they are asked again.\n")
