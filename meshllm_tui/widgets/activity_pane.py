"""What happened, newest at the end; narrowed by words and level."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from meshllm_tui.activity_words import (
    LEAST,
    Entry,
    History,
    Least,
    activity_title,
    activity_under,
    empty_activity,
    matching,
)
from meshllm_tui.keys import bindings_of
from meshllm_tui.present import Line, NodeView, plain
from meshllm_tui.widgets.filter_box import FilterBox
from meshllm_tui.widgets.pane import RowList
from meshllm_tui.widgets.styled import Rows


class ActivityList(RowList):
    """The lines. New ones are added behind those that are drawn."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select", "Copy", show=False, tooltip="Copy the chosen line.")
    ]

    class Moved(Message):
        """A person went to a line."""

        def __init__(self, last: bool) -> None:
            super().__init__()
            self.last = last

    def __init__(self) -> None:
        super().__init__("happened", "", classes="")
        self._drawing = False

    def show_rows(self, keys: Sequence[str], rows: Sequence[tuple[Line, ...]]) -> bool:
        """Show rows, one per key. Rows never change, so that only new ones are drawn where that is all."""
        known = len(self._keys)
        self._drawing = True
        try:
            if self._note is None and known and tuple(keys[:known]) == self._keys:
                new = {key: Rows(lines) for key, lines in zip(keys[known:], rows[known:], strict=True)}
                self.add_options([Option(each) for each in new.values()])
                self._keys = tuple(keys)
                self._rows.update(new)
                return bool(new)
            return super().show_rows(keys, rows)
        finally:
            self._drawing = False

    def watch_highlighted(self, highlighted: int | None) -> None:
        """Moving off the last line ends following."""
        super().watch_highlighted(highlighted)
        if self.has_focus and not self._drawing and highlighted is not None:
            self.post_message(self.Moved(highlighted >= self.option_count - 1))


class ActivityPane(Vertical):
    """Lines of the history. Follows the newest until a person moves up."""

    BINDINGS = bindings_of("activity")

    def __init__(self) -> None:
        super().__init__(id="activity", classes="pane")
        self.border_title = Content("Activity")
        self._view = NodeView()
        self._history = History()
        self._shown: list[Entry] = []
        self._words = ""
        self._least: Least = "info"
        self._following = True
        self._drawn: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """Lines, then the filter."""
        yield ActivityList()
        yield FilterBox("activity-filter")

    @property
    def _list(self) -> ActivityList:
        return self.query_one(ActivityList)

    def show(self, view: NodeView) -> None:
        """Draw `view`, if it says anything new."""
        self._view = view
        new = self._history.take(view)
        state = (self._words, self._least, view.link, view.snapshot is None, self._following)
        if new or state != self._drawn or not self._history.entries:
            self._drawn = state
            self._draw()
        elif view.link != "live":
            self._label()

    def _draw(self) -> None:
        self._shown = matching(self._history.entries, self._words, self._least)
        if not self._shown:
            self._list.show_note(empty_activity(self._view, len(self._history.entries)))
        else:
            keys = [entry.key for entry in self._shown]
            drawn = self._list.show_rows(keys, [(entry.line,) for entry in self._shown])
            if drawn and self._following:
                self.call_after_refresh(self.action_follow)
        self._label()
        self.refresh_bindings()

    def _label(self) -> None:
        title = Content(activity_title(len(self._shown), len(self._history.entries)))
        if self.border_title != title:
            self.border_title = title
        under = Content(activity_under(self._view, self._least, self._words, self._following))
        if self.border_subtitle != under:
            self.border_subtitle = under

    def focus_main(self) -> None:
        """Give the keyboard to this pane."""
        self._list.focus()

    def on_show(self) -> None:
        """Be at the newest line when the pane comes into view."""
        if self._following:
            self.call_after_refresh(self.action_follow)

    def on_activity_list_moved(self, event: ActivityList.Moved) -> None:
        """Up ends following, the last line begins it again."""
        event.stop()
        self._following = event.last
        self._label()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter or a click on a line copies it."""
        event.stop()
        self.action_copy()

    def on_filter_box_filtered(self, event: FilterBox.Filtered) -> None:
        """Other words."""
        event.stop()
        self._words = event.words
        self._draw()

    def on_filter_box_left(self, event: FilterBox.Left) -> None:
        """Back to the lines."""
        event.stop()
        self.focus_main()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is something to copy only where there are lines."""
        return action not in ("copy", "copy_all") or bool(self._shown)

    def action_filter(self) -> None:
        """Ask for words."""
        self.query_one(FilterBox).open()

    def action_level(self) -> None:
        """Take the next level."""
        self._least = LEAST[(LEAST.index(self._least) + 1) % len(LEAST)]
        self._draw()

    def action_follow(self) -> None:
        """Go to the newest line and stay there."""
        self._following = True
        self._label()
        if self._shown:
            self._list.highlighted = self._list.option_count - 1
        self._list.scroll_end(animate=False)

    def action_copy(self) -> None:
        """Copy the chosen line."""
        chosen = self._list.chosen
        entry = next((entry for entry in self._shown if entry.key == chosen), None)
        if entry is not None:
            self.app.copy_to_clipboard(plain((entry.line,)))
            self.notify("Copied the line.", markup=False)

    def action_copy_all(self) -> None:
        """Copy all lines shown."""
        self.app.copy_to_clipboard(plain(entry.line for entry in self._shown))
        self.notify(f"Copied {len(self._shown):,} lines.", markup=False)
