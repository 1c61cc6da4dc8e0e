"""A pane with a search box above a list: `/` writes, Enter or Down go to the list, Esc takes it back."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, OptionList

from meshllm_tui.widgets.grouped_list import GroupedList, Row

SEARCH_LIMIT = 100
"""Characters of a search."""


class SearchBox(Input):
    """Where the search is written."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave_search", "Back", key_display="Esc", tooltip="Take the search back."),
        Binding("down", "to_list", "List", key_display="↓", tooltip="Go to what was found."),
    ]

    class Left(Message):
        """Back to the list; `clear`: without the search."""

        def __init__(self, clear: bool) -> None:
            super().__init__()
            self.clear = clear

    def action_leave_search(self) -> None:
        """Take the search back."""
        self.post_message(self.Left(True))

    def action_to_list(self) -> None:
        """Go to what was found."""
        self.post_message(self.Left(False))


class SearchList(Vertical):
    """Box and list in one pane. What is searched is for whoever gives the rows."""

    class Searched(Message):
        """Another search."""

        def __init__(self, pane: "SearchList", text: str) -> None:
            super().__init__()
            self.pane = pane
            self.text = text

    class Moved(Message):
        """Another row is highlighted."""

    class Opened(Message):
        """A row was clicked, or Enter pressed on it."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, id: str, title: str, hint: str) -> None:
        super().__init__(id=id, classes="pane search-list")
        self.border_title = Content(title)
        self._hint = hint

    def compose(self) -> ComposeResult:
        """The box, then the list."""
        yield SearchBox(placeholder=self._hint, max_length=SEARCH_LIMIT, compact=True, id=f"{self.id}-search")
        yield GroupedList(f"{self.id}-list")

    def on_mount(self) -> None:
        """Nothing blinks."""
        self.query_one(SearchBox).cursor_blink = False

    @property
    def found(self) -> GroupedList:
        """The list."""
        return self.query_one(GroupedList)

    @property
    def search(self) -> str:
        """What is searched."""
        return self.query_one(SearchBox).value

    @property
    def room(self) -> int:
        """Cells of a row: without borders, padding and scroll bar."""
        return max(self.outer_size.width - 5, 20)

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Show rows."""
        if self.found.show_rows(rows):
            self.post_message(self.Moved())

    def focus_main(self) -> None:
        """Give the keyboard to the list."""
        self.found.focus()

    def focus_search(self) -> None:
        """Give the keyboard to the box."""
        self.query_one(SearchBox).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search while a person writes."""
        event.stop()
        self.post_message(self.Searched(self, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """On to what was found."""
        event.stop()
        self.focus_main()

    def on_search_box_left(self, event: SearchBox.Left) -> None:
        """Back to the list."""
        event.stop()
        if event.clear:
            self.query_one(SearchBox).value = ""
        self.focus_main()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Tell that another row is chosen."""
        event.stop()
        self.post_message(self.Moved())

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Open the row."""
        event.stop()
        if self.found.chosen is not None:
            self.post_message(self.Opened(self.found.chosen))

    def on_resize(self) -> None:
        """Rows are made for a width."""
        self.post_message(self.Searched(self, self.search))
