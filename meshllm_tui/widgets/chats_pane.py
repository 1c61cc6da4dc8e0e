"""The conversations that are kept: a row each, with a search."""

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, OptionList, Static

from meshllm_tui.chat_rows import chat_row, list_title, no_chats, trouble_lines
from meshllm_tui.chats.file import ChatRow
from meshllm_tui.conversation import TITLE_LIMIT
from meshllm_tui.keys import bindings_of
from meshllm_tui.present import Line, NodeView
from meshllm_tui.widgets.pane import RowList
from meshllm_tui.widgets.styled import content


class ChatList(RowList):
    """The rows; its own Enter carries the pane's word for it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select", "Open", key_display="Enter", tooltip="Open the chosen conversation.")
    ]

    def __init__(self) -> None:
        super().__init__("chat-list", "", classes="")


class ChatsPane(Vertical):
    """Newest first; the open one is marked."""

    BINDINGS = bindings_of("chats")

    class Wanted(Message):
        """A person asked for something to be done with a conversation, or for a new one."""

        def __init__(self, what: str, row: ChatRow | None = None) -> None:
            super().__init__()
            self.what = what
            """open, new, rename, delete or back."""
            self.row = row

    class Searched(Message):
        """Only conversations with this text are wanted; empty: all."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

        def can_replace(self, message: Message) -> bool:
            """Only the newest words count."""
            return isinstance(message, ChatsPane.Searched)

    def __init__(self) -> None:
        super().__init__(id="chats", classes="pane")
        self.border_title = Content("Conversations")
        self._view = NodeView()
        self._rows: dict[str, ChatRow] | None = None
        """None: not read yet."""
        self._opened = ""
        self._trouble: tuple[Line, ...] = ()
        self._drawn: tuple[object, ...] = ()
        self.find = ""
        """What is searched for."""

    def compose(self) -> ComposeResult:
        """The search, rows, and why they are not kept if so."""
        yield Input(placeholder="Find a word", max_length=TITLE_LIMIT, compact=True, id="chat-find")
        yield ChatList()
        yield Static(id="chats-trouble", markup=False)

    def on_mount(self) -> None:
        """The search is hidden until it is asked for."""
        self._input.cursor_blink = False
        self._input.display = False

    @property
    def _list(self) -> ChatList:
        return self.query_one(ChatList)

    @property
    def _input(self) -> Input:
        return self.query_one(Input)

    @property
    def chosen(self) -> ChatRow | None:
        """The highlighted conversation."""
        key = self._list.chosen
        return self._rows.get(key) if self._rows and key is not None else None

    def show(self, view: NodeView) -> None:
        """Keep the ages true; the rows do not depend on the node."""
        self._view = view
        self._draw()

    def set_rows(self, rows: tuple[ChatRow, ...], opened: str, trouble: tuple[str, str] | None) -> None:
        """What the history holds now."""
        self._rows = {row.id: row for row in rows}
        self._opened = opened
        self._trouble = trouble_lines(trouble)
        self._draw()

    def set_opened(self, chat: str) -> None:
        """Mark another conversation as the open one."""
        self._opened = chat
        self._draw()

    def _draw(self) -> None:
        width = max(self.content_region.width - 3, 12)
        rows = tuple(self._rows.values()) if self._rows is not None else None
        drawn = (rows, self._opened, self._trouble, self.find, int(self._view.wall // 60), width)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        self.border_subtitle = Content(list_title(rows or (), self.find))
        if rows:
            wall = self._view.wall
            cards = [chat_row(row, wall, width, opened=row.id == self._opened) for row in rows]
            keys = [row.id for row in rows]
            self._list.show_rows(keys, cards)
            if self._opened in keys and not self._list.has_focus:
                self._list.highlighted = keys.index(self._opened)
        else:
            self._list.show_note(no_chats(self.find, loading=rows is None))
        note = self.query_one("#chats-trouble", Static)
        note.display = bool(self._trouble)
        note.update(content(self._trouble))
        self.refresh_bindings()

    def on_resize(self, _: events.Resize) -> None:
        """Fit the rows to the new width."""
        self._draw()

    def focus_main(self) -> None:
        """Give the keyboard to the rows."""
        self._list.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Fewer rows while a person writes."""
        event.stop()
        self.find = event.value
        self.post_message(self.Searched(event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """From the search to what was found."""
        event.stop()
        self._list.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Open a row by a click or Enter."""
        event.stop()
        self.action_open()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Most need a row."""
        return self.chosen is not None if action in ("open", "rename", "delete") else True

    def _want(self, what: str) -> None:
        if self.chosen is not None:
            self.post_message(self.Wanted(what, self.chosen))

    def action_open(self) -> None:
        """Open the chosen conversation."""
        self._want("open")

    def action_new(self) -> None:
        """Begin another conversation."""
        self.post_message(self.Wanted("new"))

    def action_rename(self) -> None:
        """Call the chosen conversation something else."""
        self._want("rename")

    def action_delete(self) -> None:
        """Delete the chosen conversation."""
        self._want("delete")

    def action_search(self) -> None:
        """Write what to look for."""
        self._input.display = True
        self._input.focus()

    def action_back(self) -> None:
        """End the search, else go to the chat."""
        if self._input.display:
            self._input.value = ""
            self._input.display = False
            self._list.focus()
        else:
            self.post_message(self.Wanted("back"))
