"""Jump mode: a letter over each pane; pressing it, or clicking it, goes there."""

from collections.abc import Mapping

from textual import events
from textual.app import ComposeResult
from textual.geometry import Region
from textual.widgets import Static

from meshllm_tui.screens.dialog import Overlay

LETTERS = "asdfghjklqwertyuiop"
"""In the order of the panes; more panes than letters do not fit on a screen."""


class JumpLetter(Static):
    """One pane's letter."""

    def __init__(self, letter: str, name: str) -> None:
        super().__init__(f" {letter} {name} ", id=f"jump-{name}", classes="jump", markup=False)
        self.pane = name

    def on_click(self, event: events.Click) -> None:
        """Go to the pane."""
        event.stop()
        self.screen.dismiss(self.pane)


class JumpScreen(Overlay[str]):
    """Lies over a page. Its result is a pane's name; any key that is no letter of a pane closes it."""

    def __init__(self, targets: Mapping[str, Region]) -> None:
        super().__init__()
        self._targets = dict(zip(LETTERS, targets.items(), strict=False))

    def compose(self) -> ComposeResult:
        """The letters; those of panes that are not shown stand in a row at the bottom."""
        hidden = 0
        for letter, (name, region) in self._targets.items():
            label = JumpLetter(letter, name)
            if region.area:
                label.styles.offset = (region.x + 2, region.y + 1)
            else:
                label.styles.offset = (2 + hidden, self.app.size.height - 2)
                hidden += len(name) + 5
            yield label

    def on_key(self, event: events.Key) -> None:
        """A letter goes to its pane; every other key ends jumping."""
        event.stop()
        target = self._targets.get(event.key)
        self.dismiss(target[0] if target is not None else None)

    def on_click(self, event: events.Click) -> None:
        """A click beside the letters ends jumping."""
        event.stop()
        self.dismiss(None)
