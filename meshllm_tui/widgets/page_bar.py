"""The pages in one row; each can be clicked, or opened by its digit.

One widget that draws text: a row of widgets would cost every page's first paint.
"""

from textual import events
from textual.app import RenderResult
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from meshllm_tui.actions.pages import PAGES


class PageBar(Widget):
    """All pages with their digits, this one marked. Narrower terminals get shorter names, then digits."""

    ALLOW_SELECT = False

    class Chosen(Message):
        """A page was clicked."""

        def __init__(self, page: str) -> None:
            super().__init__()
            self.page = page

    def __init__(self, active: str) -> None:
        super().__init__(id="pages")
        self._active = active

    def _words(self) -> list[tuple[str, str]]:
        """Name and text of each page, in the longest form that fits."""
        names = [page.name for page in PAGES]
        forms = (
            [f"{page.key} {page.title}" for page in PAGES],
            [f"{page.key} {page.short}" for page in PAGES],
            [f"{page.key} {page.short}" if page.name == self._active else page.key for page in PAGES],
        )
        fitting = (form for form in forms if sum(map(len, form)) + 2 * len(form) <= self.size.width)
        return list(zip(names, next(fitting, forms[-1]), strict=True))

    def render(self) -> RenderResult:
        """The row."""
        row = Content("")
        for name, text in self._words():
            style = "bold reverse" if name == self._active else "$muted"
            row += Content.assemble((f" {text} ", style))
        return row

    def on_click(self, event: events.Click) -> None:
        """Ask for the page under the mouse."""
        event.stop()
        at = 0
        for name, text in self._words():
            at += len(text) + 2
            if event.x < at:
                self.post_message(self.Chosen(name))
                return
