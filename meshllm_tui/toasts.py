"""Notices at the corner: few at a time, as what lies under them may be what a person is writing."""

from textual.app import App
from textual.notifications import Notify

TOASTS = 3
"""Shown at once; the oldest goes for a new one. The log keeps what failed."""


class FewToasts(App[int]):
    """An app whose notices never cover the screen."""

    def on_notify(self, _event: Notify) -> None:
        """Make room for the one that comes. Textual's own handler, which runs next, adds it."""
        shown = list(self._notifications)
        for each in shown[: max(len(shown) + 1 - TOASTS, 0)]:
            self._unnotify(each, refresh=False)
