"""The chat's page: the conversations that are kept, and the open one."""

import asyncio
from collections.abc import Coroutine
from functools import partial

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.worker import Worker, WorkerState

from meshllm_core.errors import MeshError, StorageError, describe
from meshllm_tui.chats.file import ChatRow
from meshllm_tui.chats.store import ChatStore
from meshllm_tui.cleaning import one_line
from meshllm_tui.conversation import Conversation
from meshllm_tui.pages.page import MEDIUM, Page
from meshllm_tui.session import Session
from meshllm_tui.units import count
from meshllm_tui.widgets.chat_pane import BUSY, ChatPane
from meshllm_tui.widgets.chat_tools import ChatTools
from meshllm_tui.widgets.chats_pane import ChatsPane

CLOSE_SECONDS = 2.0
"""So long leaving the dashboard waits for the disk."""


class ChatPage(Page):
    """A conversation with one of the mesh's models; the history opens the last one again."""

    NAME = "chat"
    PANES = ("chats", "chat")
    FIRST = "chat"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.chats = ChatsPane()
        self.chat = ChatPane(session)
        self._told = False

    def body(self) -> ComposeResult:
        """The list at the left, the conversation at the right."""
        with Horizontal(id="talks"):
            yield self.chats
            yield self.chat

    def place_panes(self) -> None:
        """Both where there is room, else the one with the keyboard."""
        narrow = self.app.size.width < MEDIUM
        self.chats.display = not narrow or self.active == "chats"
        self.chat.display = not narrow or self.active == "chat"

    def on_mount(self) -> None:
        """Draw at once; the history comes when the disk has it."""
        super().on_mount()
        self.store = ChatStore(self.dashboard.chats_file, lambda: self.session.view().wall)
        self._do(self._open_history())

    async def on_unmount(self) -> None:
        """Keep what an answer had brought when the dashboard is left."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.store.save(self.chat.conversation) if self.chat.conversation.turns else None
                await self.store.close()
        except (TimeoutError, MeshError):
            return

    def _do(self, work: Coroutine[None, None, None]) -> None:
        self.run_worker(self._tried(work), group="history", exit_on_error=False)

    async def _tried(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except StorageError as error:
            self.session.note("warning", f"the history: {error}")
            self.notify(one_line(str(error), 300), severity="warning", timeout=10, markup=False)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault of the dashboard's own must not be silent."""
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            event.stop()
            self.session.note("error", f"the history failed: {describe(event.worker.error)}")

    async def _open_history(self) -> None:
        await self.store.open()
        last = await self.store.last()
        untouched = not self.chat.conversation.turns and not self.chat.conversation.system
        if last is not None and last.turns and untouched:
            self.chat.open(last, keep_model=True)
        await self._list()

    async def _list(self) -> None:
        """Show what the history holds, and say once when nothing is kept."""
        rows = await self.store.rows(self.chats.find)
        self.chats.set_rows(rows, self.chat.conversation.id, self.store.trouble)
        if self.store.trouble and not self._told:
            text = f"Conversations are not kept: {' '.join(self.store.trouble)}"
            self.session.note("warning", text)
            self.notify(one_line(text, 400), severity="warning", timeout=10, markup=False)
        self._told = self.store.trouble is not None

    def on_chat_tools_changed(self, event: ChatTools.Changed) -> None:
        """Keep what is new."""
        event.stop()
        self._do(self._keep(event.conversation, event.listed))

    async def _keep(self, conversation: Conversation, listed: bool) -> None:
        gone = await self.store.save(conversation)
        if gone:
            text = f"the history was full: its {count(gone, 'oldest conversation')} had to go"
            self.session.note("info", text)
        if listed or gone or self.store.trouble:
            await self._list()

    def on_chat_tools_wanted(self, event: ChatTools.Wanted) -> None:
        """Another conversation."""
        event.stop()
        if event.what == "list":
            self.go("chats")
        else:
            self._new()

    def on_chats_pane_searched(self, event: ChatsPane.Searched) -> None:
        """Fewer rows, or all again."""
        event.stop()
        self.run_worker(self._tried(self._list()), group="search", exclusive=True, exit_on_error=False)

    def on_chats_pane_wanted(self, event: ChatsPane.Wanted) -> None:
        """Something with a conversation of the list."""
        event.stop()
        row, desk = event.row, self.chat.desk
        if event.what == "back":
            self.go("chat")
        elif event.what == "new":
            self._new()
        elif row is None:
            return
        elif event.what == "rename":
            desk.rename(row, partial(self._rename, row))
        elif self._busy(row, event.what):
            self.notify(BUSY, severity="warning", markup=False)
        elif event.what == "open":
            self._do(self._open(row))
        else:
            desk.delete(row, lambda: self._do(self._delete(row)))

    def _busy(self, row: ChatRow, what: str) -> bool:
        """While an answer is being written its conversation stays open."""
        mine = row.id == self.chat.conversation.id
        return self.chat.answering and mine == (what == "delete")

    def _new(self) -> None:
        if self.chat.answering:
            self.notify(BUSY, severity="warning", markup=False)
            return
        if self.chat.conversation.turns or self.chat.conversation.system:
            self.chat.open(Conversation())
            self.chats.set_opened("")
            self._do(self.store.remember(""))
        self.go("chat")

    async def _open(self, row: ChatRow) -> None:
        current = self.chat.conversation
        if row.id != current.id:
            await self.store.save(current) if current.turns else None
            loaded = await self.store.load(row.id)
            if loaded is None:
                await self._list()
                raise StorageError("That conversation is gone.", hint="Another dashboard deleted it.")
            if self.chat.answering:
                return
            self.chat.open(loaded)
            self.chats.set_opened(row.id)
            await self.store.remember(row.id)
        self.go("chat")

    def _rename(self, row: ChatRow, title: str) -> None:
        if row.id == self.chat.conversation.id:
            self.chat.conversation.title = title
            self.chat.show(self.session.view())
        self._do(self._after(self.store.rename(row.id, title)))

    async def _delete(self, row: ChatRow) -> None:
        if row.id == self.chat.conversation.id:
            if self.chat.answering:
                return
            self.chat.open(Conversation())
        await self._after(self.store.delete(row.id))

    async def _after(self, work: Coroutine[None, None, None]) -> None:
        await work
        await self._list()
