"""Which themes can be chosen while the dashboard runs: those that name every colour its styles ask for."""

from collections.abc import Callable

from textual.command import CommandPalette
from textual.theme import ThemeProvider

from meshllm_tui.toasts import FewToasts

_OURS = "edge"
"""A colour that our style sheets need and Textual's own themes lack; with one of these the app would end."""


class OwnThemes(ThemeProvider):
    """The built-in three, and the one from a file."""

    @property
    def commands(self) -> list[tuple[str, Callable[[], None]]]:
        """Name of each and what chooses it."""
        known = self.app.available_themes
        return [command for command in super().commands if _OURS in known[command[0]].variables]


class ThemedApp(FewToasts):
    """An app that offers its own themes only."""

    def search_themes(self) -> None:
        """Let a person choose a theme."""
        self.push_screen(CommandPalette(providers=[OwnThemes], placeholder="Search for themes…"))
