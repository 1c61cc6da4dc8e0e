"""One setting: what is known of it, and where its value is changed."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from meshllm_core.api.schema_config import ConfigRow
from meshllm_tui.present import Line, NodeView, Span, line, muted, plain
from meshllm_tui.settings_rows import detail_lines
from meshllm_tui.widgets.pane import KeyedList
from meshllm_tui.widgets.styled import content

OTHER = "another…"
"""Among suggested values: write one."""
VALUE_LIMIT = 4096
"""Characters of a value."""


class SettingPane(Vertical):
    """Shows the chosen setting; while it is changed, a list of its values or a box."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave", key_display="Esc", tooltip="Leave the value as it was."),
    ]

    class Written(Message):
        """A person wants this value."""

        def __init__(self, row: ConfigRow, value: str) -> None:
            super().__init__()
            self.row = row
            self.value = value

    class Tried(Message):
        """A value is looked at, and not yet chosen."""

        def __init__(self, row: ConfigRow, value: str) -> None:
            super().__init__()
            self.row = row
            self.value = value

    class Left(Message):
        """Nothing is changed any more."""

        def __init__(self, row: ConfigRow) -> None:
            super().__init__()
            self.row = row

    def __init__(self) -> None:
        super().__init__(id="setting", classes="pane")
        self.border_title = Content("Setting")
        self._row: ConfigRow | None = None
        self._file = ""
        self._lines: tuple[Line, ...] = ()
        self._choices: tuple[str, ...] = ()
        self.editing = False
        """Whether a value is being changed."""

    def compose(self) -> ComposeResult:
        """What is known, then the editor, then what came of it."""
        with VerticalScroll(id="setting-facts"):
            yield Static(id="setting-text", markup=False)
        yield Static(id="setting-label", markup=False)
        yield Input(id="setting-input", compact=True, max_length=VALUE_LIMIT)
        yield KeyedList(id="setting-choices", markup=False)
        yield Static(id="setting-note", markup=False)

    def on_mount(self) -> None:
        """Nothing is changed yet."""
        self.query_one(Input).cursor_blink = False
        self._open(False)
        self.say(())

    def show(self, _: NodeView) -> None:
        """What is shown depends on the chosen row alone."""

    def choose(self, row: ConfigRow | None, file: str) -> None:
        """Another setting, or the same with another value. While one is changed, it stays."""
        if self.editing and row is not None and self._row is not None and row.key != self._row.key:
            return
        if self._row is None or row is None or row.key != self._row.key:
            self.say(())
            self.query_one("#setting-facts").scroll_home(animate=False)
        self._row, self._file = row, file
        lines = detail_lines(row, file) if row is not None else (line(muted("Choose a setting.")),)
        if lines != self._lines:
            self._lines = lines
            self.query_one("#setting-text", Static).update(content(lines))

    @property
    def text(self) -> str:
        """What it says."""
        return plain(self._lines)

    def focus_main(self) -> None:
        """Give the keyboard to the editor, else to the facts."""
        if not self.editing:
            self.query_one("#setting-facts").focus()
        elif self._choices:
            self.query_one(KeyedList).focus()
        else:
            self.query_one(Input).focus()

    def edit(self, suggested: Sequence[str] = ()) -> None:
        """Change what is shown; `suggested`: values to choose from, where others can be written."""
        row = self._row
        if row is None:
            return
        self.say(())
        self._choices = row.choices or ((*suggested, OTHER) if suggested else ())
        self._open(True)
        words = "New value:" if self._choices else f"New value: {row.allowed}"
        if row.kind == "list":
            words += ", by commas"
        self.query_one("#setting-label", Static).update(content([line(Span(words, "accent"))]))
        if self._choices:
            choices = self.query_one(KeyedList)
            choices.set_options([Option(Content(each)) for each in self._choices])
            choices.highlighted = self._choices.index(row.text) if row.text in self._choices else 0
        else:
            box = self.query_one(Input)
            box.password = row.secret
            box.value = row.text
            box.placeholder = "empty: none" if row.kind in ("text", "list") else ""
            box.cursor_position = len(row.text)
        self.focus_main()

    def _open(self, editing: bool) -> None:
        self.editing = editing
        by_list = bool(self._choices)
        self.query_one("#setting-label").display = editing
        self.query_one(Input).display = editing and not by_list
        self.query_one(KeyedList).display = editing and by_list

    def close(self) -> None:
        """No more change; what is said stays."""
        self._open(False)

    def say(self, lines: tuple[Line, ...]) -> None:
        """What came of a change, below the editor."""
        note = self.query_one("#setting-note", Static)
        note.display = bool(lines)
        note.update(content(lines))

    def action_leave(self) -> None:
        """Leave the value as it was."""
        row = self._row
        if row is not None:
            self.close()
            self.post_message(self.Left(row))

    def on_input_changed(self, event: Input.Changed) -> None:
        """What was wrong may be right now."""
        event.stop()
        if self.editing:
            self.say(())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Write the value."""
        event.stop()
        if self.editing and self._row is not None:
            self.post_message(self.Written(self._row, event.value))

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Some values can be tried at once."""
        event.stop()
        if self.editing and self._row is not None:
            self.post_message(self.Tried(self._row, self._choices[event.option_index]))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Write the value."""
        event.stop()
        if not self.editing or self._row is None:
            return
        value = self._choices[event.option_index]
        if value == OTHER:
            self.edit()
            # The list that had the keyboard is hidden only now, and its focus goes astray.
            self.call_after_refresh(self.focus_main)
        else:
            self.post_message(self.Written(self._row, value))
