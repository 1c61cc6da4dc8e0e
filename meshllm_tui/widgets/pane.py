"""What all panes share: a border with a title, and rows to move in."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.style import Style
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from meshllm_tui.present import Line
from meshllm_tui.widgets.styled import Rows


class KeyedList(OptionList):
    """A list that also takes j and k, and whose chosen row shows without colour too."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", "Down", show=False),
        Binding("k", "cursor_up", "Up", show=False),
    ]

    def get_visual_style(self, *component_classes: str, partial: bool = False) -> Style:
        """The style of a part. Textual leaves reverse out here, so a style sheet cannot ask for it."""
        style = super().get_visual_style(*component_classes, partial=partial)
        if self.app.no_color and self.has_focus and "option-list--option-highlighted" in component_classes:
            return style + Style(reverse=True)
        return style


class RowList(KeyedList):
    """Rows of presented lines. Rows keep their place when only their words change."""

    def __init__(self, id: str, title: str, *, divided: bool = False, classes: str = "pane") -> None:
        super().__init__(id=id, classes=classes, markup=False)
        self.border_title = Content(title)
        self._divided = divided
        self._keys: tuple[str, ...] = ()
        self._rows: dict[str, Rows] = {}
        self._note: tuple[Line, ...] | None = None

    @property
    def chosen(self) -> str | None:
        """Key of the highlighted row; None when there is no row."""
        index = self.highlighted
        return self._keys[index] if index is not None and index < len(self._keys) else None

    @property
    def line_count(self) -> int:
        """Lines that all rows take, when none is wrapped."""
        if self._note is not None:
            return len(self._note)
        dividers = len(self._rows) - 1 if self._divided else 0
        return sum(len(row.lines) for row in self._rows.values()) + dividers

    def focus_main(self) -> None:
        """Give the keyboard to this pane."""
        self.focus()

    def show_note(self, lines: tuple[Line, ...]) -> None:
        """Show words in place of rows."""
        if self._note != lines:
            self._note, self._keys, self._rows = lines, (), {}
            self.set_options([Option(Rows(lines), disabled=True)])

    def _prompts(self) -> Iterator[Option | None]:
        for index, key in enumerate(self._keys):
            if self._divided and index:
                yield None
            yield Option(self._rows[key])

    def show_rows(self, keys: Sequence[str], rows: Sequence[tuple[Line, ...]]) -> bool:
        """Show rows, one per key (keys are unique). True when something had to be drawn."""
        known, changed = self._rows, []
        # What has not changed stays as it was drawn, also where other rows come or go.
        self._rows = {key: known.get(key) or Rows(lines) for key, lines in zip(keys, rows, strict=True)}
        for index, (row, lines) in enumerate(zip(self._rows.values(), rows, strict=True)):
            if row.lines != lines:
                row.say(lines)
                changed.append(index)
        if tuple(keys) != self._keys or self._note is not None:
            chosen = self.chosen
            self._note, self._keys = None, tuple(keys)
            self.set_options(self._prompts())
            self.highlighted = self._keys.index(chosen) if chosen in self._keys else (0 if keys else None)
            return True
        if changed:
            # Told once, the list draws all of them anew.
            self.replace_option_prompt_at_index(changed[0], self._rows[keys[changed[0]]])
        return bool(changed)
