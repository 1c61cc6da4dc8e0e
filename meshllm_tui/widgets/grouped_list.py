"""Rows below headings: a heading is never chosen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets.option_list import Option

from meshllm_tui.present import Line
from meshllm_tui.widgets.pane import KeyedList
from meshllm_tui.widgets.styled import Rows


@dataclass(frozen=True, slots=True)
class Row:
    """A row, or a heading where it has no key."""

    key: str
    """Unique; empty for a heading or a note."""
    lines: tuple[Line, ...]


class GroupedList(KeyedList):
    """Keeps its place by the chosen row's key while rows come, go and change."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select", "Open", key_display="Enter", tooltip="Open the chosen row."),
    ]

    def __init__(self, id: str) -> None:
        super().__init__(id=id, markup=False)
        self._rows: tuple[Row, ...] = ()

    @property
    def chosen(self) -> str | None:
        """Key of the highlighted row."""
        index = self.highlighted
        if index is None or index >= len(self._rows):
            return None
        return self._rows[index].key or None

    def show_rows(self, rows: Sequence[Row]) -> bool:
        """Show rows. True when something had to be drawn."""
        fresh = tuple(rows)
        if fresh == self._rows:
            return False
        same_places = [row.key for row in fresh] == [row.key for row in self._rows]
        if same_places:
            for index, (old, new) in enumerate(zip(self._rows, fresh, strict=True)):
                if old != new:
                    self.replace_option_prompt_at_index(index, Rows(new.lines))
            self._rows = fresh
            return True
        chosen = self.chosen
        self._rows = fresh
        self.set_options([Option(Rows(row.lines), disabled=not row.key) for row in fresh])
        keys = [row.key for row in fresh]
        first = next((index for index, key in enumerate(keys) if key), None)
        self.highlighted = keys.index(chosen) if chosen in keys else first
        return True

    def choose(self, key: str) -> None:
        """Move to the row of that key, if it is there."""
        for index, row in enumerate(self._rows):
            if row.key == key:
                self.highlighted = index
