"""Which picture of an invite to open: the folders of this machine, pictures and text files only."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import DirectoryTree, Static

from meshllm_tui.join_source import PICTURES
from meshllm_tui.present import line, muted
from meshllm_tui.screens.dialog import Dialog
from meshllm_tui.widgets.styled import content

SHOWN = 2000
"""Entries of a folder that are shown at most; another file is named in the box."""
HINT = "Folders, pictures and .txt files. Of a file elsewhere, write the path into the box."


class _Pictures(DirectoryTree):
    """Folders, and files that may hold an invite. Signs that every terminal has, one cell wide each."""

    ICON_NODE, ICON_NODE_EXPANDED, ICON_FILE = "▸ ", "▾ ", "  "

    def filter_paths(self, paths: Iterable[Path]) -> Iterable[Path]:
        """Without what is hidden."""
        wanted = (path for path in paths if not path.name.startswith("."))
        return list(islice((path for path in wanted if _is_wanted(path)), SHOWN))


def _is_wanted(path: Path) -> bool:
    try:
        return path.suffix.lower() in (*PICTURES, ".txt") or path.is_dir()
    except OSError:
        return False


class PictureScreen(Dialog[Path]):
    """Gives back the file."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__()
        self._folder = folder or Path.home()

    def compose(self) -> ComposeResult:
        """The tree."""
        with Vertical(classes="dialog", id="picture") as frame:
            frame.border_title = Content("Open a picture of an invite")
            frame.border_subtitle = Content("↑ ↓ choose, Enter opens, Esc closes")
            yield _Pictures(self._folder)
            yield Static(content((line(muted(HINT)),)), markup=False)

    def on_mount(self) -> None:
        """The keyboard at the tree."""
        self.query_one(DirectoryTree).focus()

    def on_directory_tree_file_selected(self, event: DirectoryTree.FileSelected) -> None:
        """That one."""
        event.stop()
        self.dismiss(event.path)
