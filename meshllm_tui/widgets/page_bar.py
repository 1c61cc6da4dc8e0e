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
    """All pages with their digits, this one marked. Narrower terminals get shorter names, then digits.

    At 80 columns the short names fit with a single space between them; a digit then stands out from the
    name before it.
    """

    ALLOW_SELECT = False

    class Chosen(Message):
        """A page was clicked."""

        def __init__(self, page: str) -> None:
            super().__init__()
            self.page = page

    def __init__(self, active: str) -> None:
        super().__init__(id="pages")
        self._active = active

    def _form(self) -> tuple[list[str], int]:
        """Text of each page in the longest form that fits, and how many spaces stand between two."""
        forms = (
            [f"{page.key} {page.title}" for page in PAGES],
            [f"{page.key} {page.short}" for page in PAGES],
            [f"{page.key} {page.short}" if page.name == self._active else page.key for page in PAGES],
        )
        tries = ((forms[0], 2), (forms[1], 2), (forms[1], 1))
        fitting = (each for each in tries if _width(*each) <= self.size.width)
        return next(fitting, (forms[-1], 2))

    def render(self) -> RenderResult:
        """The row."""
        form, spaces = self._form()
        if spaces == 1:
            return self._close(form)
        row = Content("")
        for index, text in enumerate(form):
            row += Content.assemble((f" {text} ", "bold reverse" if index == self._index else "$muted"))
        return row

    def _close(self, form: list[str]) -> Content:
        """Names with one space between them; the mark takes that at both sides."""
        row = Content(" ")
        for text in form:
            row += Content.assemble((text[:1], "bold $foreground"), (f"{text[1:]} ", "$muted"))
        start = sum(len(text) + 1 for text in form[: self._index])
        return row.stylize("bold reverse", start, start + len(form[self._index]) + 2)

    @property
    def _index(self) -> int:
        return next(index for index, page in enumerate(PAGES) if page.name == self._active)

    def on_click(self, event: events.Click) -> None:
        """Ask for the page under the mouse."""
        event.stop()
        form, spaces = self._form()
        at = 0
        for page, text in zip(PAGES, form, strict=True):
            at += len(text) + spaces
            if event.x < at:
                self.post_message(self.Chosen(page.name))
                return


def _width(form: list[str], spaces: int) -> int:
    """Cells of a row, with one more at either end."""
    return sum(map(len, form)) + spaces * (len(form) - 1) + 2
