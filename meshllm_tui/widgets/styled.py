"""Presented lines as what Textual draws. Text is passed as text: nothing in it is read as markup."""

from collections.abc import Iterable

from rich.cells import cell_len
from textual.content import Content
from textual.css.styles import RulesMap
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual

from meshllm_tui.present import Line, Tone

_STYLES: dict[Tone, str] = {
    "plain": "",
    "muted": "$muted",
    "ok": "$ok",
    "warn": "$warn",
    "bad": "$bad",
    "accent": "$accent-text",
    "strong": "bold $foreground",
}


def content(lines: Iterable[Line]) -> Content:
    """The lines below each other."""
    return Content("\n").join(
        Content.assemble(*((span.text, _STYLES[span.tone]) for span in each)) for each in lines
    )


class Rows(Visual):
    """Presented lines below each other, made into content when they are drawn.

    A list asks every row for its height, of which few are in view: that is told by the lines themselves.
    """

    def __init__(self, lines: tuple[Line, ...]) -> None:
        self.say(lines)

    def say(self, lines: tuple[Line, ...]) -> None:
        """Be these lines from now on; whoever draws them keeps what it drew until it is told."""
        self.lines = lines
        self._content: Content | None = None
        self._width: int | None = None
        """Cells of the longest line; -1 where only the content knows, as it has breaks or controls."""

    @property
    def content(self) -> Content:
        """The same as `content(lines)`."""
        if self._content is None:
            self._content = content(self.lines)
        return self._content

    def render_strips(
        self, width: int, height: int | None, style: Style, options: RenderOptions
    ) -> list[Strip]:
        """The lines as they are drawn."""
        return self.content.render_strips(width, height, style, options)

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        """Cells without a line wrapped."""
        return self.content.get_optimal_width(rules, container_width)

    def get_minimal_width(self, rules: RulesMap) -> int:
        """Cells of the longest word."""
        return self.content.get_minimal_width(rules)

    def get_height(self, rules: RulesMap, width: int) -> int:
        """Lines, those included that a line which is too long is wrapped into."""
        if self.fits(width - 2 * rules.get("line_pad", 0)):
            return max(len(self.lines), 1)
        return self.content.get_height(rules, width)

    def fits(self, width: int) -> bool:
        """Whether no line has to be wrapped in so many cells."""
        if self._width is None:
            self._width = _width(self.lines)
        return 0 <= self._width <= width


def _width(lines: tuple[Line, ...]) -> int:
    texts = ["".join([span.text for span in each]) for each in lines]
    if not all(map(str.isprintable, texts)):
        return -1
    return max((len(text) if text.isascii() else cell_len(text) for text in texts), default=0)
