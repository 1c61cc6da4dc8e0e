"""A long text that scrolls: only the lines in view are drawn, so that it opens as quickly as a short one."""

from textual.selection import Selection
from textual.strip import Strip
from textual.visual import Visual
from textual.widgets import Static

from meshllm_tui.present import Line
from meshllm_tui.widgets.styled import Rows, content


class LongText(Static):
    """Presented lines, for a container that scrolls. Where one has to be wrapped, all are drawn at once."""

    def __init__(self, lines: tuple[Line, ...]) -> None:
        self._rows = Rows(lines)
        super().__init__(self._rows, markup=False)

    @property
    def lines(self) -> tuple[Line, ...]:
        """What it says."""
        return self._rows.lines

    def say(self, lines: tuple[Line, ...]) -> None:
        """Show these lines."""
        if lines != self.lines:
            self._rows = Rows(lines)
            self.update(self._rows)

    def render_line(self, y: int) -> Strip:
        """One line of what is in view."""
        lines, width = self.lines, self.size.width
        if self.text_selection is not None or not self._rows.fits(width):
            return super().render_line(y)
        if y >= len(lines):
            return Strip.blank(width, self.visual_style.rich_style)
        strips = Visual.to_strips(self, content(lines[y : y + 1]), width, 1, self.visual_style)
        return strips[0].apply_offsets(0, y)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text."""
        return selection.extract(self._rows.content.plain), "\n"
