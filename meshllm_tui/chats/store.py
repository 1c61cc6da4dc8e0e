"""The history beside the screen: one thread does what may wait for the disk. No Textual here."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar, cast, get_args

from meshllm_core.errors import StorageError
from meshllm_tui.chats.file import ChatFile, ChatRecord, ChatRow, TurnRecord
from meshllm_tui.cleaning import clean
from meshllm_tui.conversation import PROMPT_LIMIT, Answer, AnswerState, Conversation, Turn

WAITING_LIMIT = 32
"""Things that may wait for the disk; more are refused."""
CUT_SHORT = "The dashboard ended before the answer did."

T = TypeVar("T")


class ChatStore:
    """Keeps conversations; where the file cannot be used, in memory until the dashboard is left.

    Without a path nothing is written to the disk at all. `trouble` says why conversations are not kept;
    it is empty while they are. Every method but `save` raises StorageError.
    """

    def __init__(self, path: Path | None, wall: Callable[[], float] = time.time) -> None:
        self._path = path
        self._wall = wall
        self._file: ChatFile | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="chats")
        self._waiting = 0
        self._saving: dict[str, Conversation] = {}
        """Conversations with something new that wait to be written, each once."""
        self._writing = False
        self.trouble: tuple[str, str] | None = None
        """What failed and what to do, while conversations are not kept."""

    async def open(self) -> None:
        """Open the file, or begin without one and say why in `trouble`."""
        try:
            self._file = await self._run(lambda: ChatFile(self._path))
        except StorageError as error:
            self.trouble = (error.message, error.hint)
            self._file = await self._run(lambda: ChatFile(None))

    async def rows(self, find: str = "") -> tuple[ChatRow, ...]:
        """Conversations, newest first; only those whose title or text holds `find`."""
        return await self._run(lambda: self._ready.rows(find))

    async def load(self, chat: str) -> Conversation | None:
        """A conversation as it was kept; None when it is gone."""
        record = await self._run(lambda: self._ready.load(chat))
        return conversation_of(record) if record else None

    async def last(self) -> Conversation | None:
        """The conversation that was open when the dashboard was left."""

        def read() -> ChatRecord | None:
            chat = self._ready.remembered()
            return self._ready.load(chat) if chat else None

        record = await self._run(read)
        return conversation_of(record) if record else None

    async def remember(self, chat: str) -> None:
        """Let this conversation be opened next time; empty: a new one."""
        await self._run(lambda: self._ready.remember(chat))

    async def rename(self, chat: str, title: str) -> None:
        """Call a conversation something else."""
        await self._run(lambda: self._ready.rename(chat, title))

    async def delete(self, chat: str) -> None:
        """Delete a conversation."""
        self._saving.pop(chat, None)
        await self._run(lambda: self._ready.delete(chat))

    async def save(self, conversation: Conversation) -> int:
        """Write what is new in a conversation; how many old conversations had to go for it.

        A failure is told in `trouble`, and what could not be written is tried again with the next call.
        While one call writes, others only leave their conversation to it.
        """
        self._saving[conversation.id] = conversation
        if self._writing:
            return 0
        self._writing, gone = True, 0
        try:
            while self._saving:
                gone += await self._save(self._saving.pop(next(iter(self._saving))))
        finally:
            self._writing = False
        return gone

    async def _save(self, conversation: Conversation) -> int:
        turns = [turn for turn in conversation.turns if not turn.saved]
        record = record_of(conversation, turns, self._wall())
        for turn in turns:
            turn.saved = turn.answer.over
        try:
            gone = await self._run(lambda: self._ready.save(record))
        except StorageError as error:
            for turn in turns:
                turn.saved = False
            self.trouble = (error.message, error.hint)
            return 0
        if self._path is not None and not self._ready.in_memory:
            self.trouble = None
        conversation.dropped = [each for each in conversation.dropped if each not in record.dropped]
        return gone

    async def close(self) -> None:
        """Finish what waits, then give the file back."""
        file, self._file = self._file, None
        if file is not None:
            await self._run(file.close)
        self._thread.shutdown(wait=False)

    @property
    def _ready(self) -> ChatFile:
        if self._file is None:
            raise StorageError("The history is not open.", hint="Open the dashboard again.")
        return self._file

    async def _run(self, work: Callable[[], T]) -> T:
        if self._waiting >= WAITING_LIMIT:
            raise StorageError("The disk is too slow for the history.", hint="Try again in a moment.")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._waiting -= 1


def record_of(conversation: Conversation, turns: list[Turn], changed_at: float) -> ChatRecord:
    """What is written of a conversation: copied, as the thread must not see it change."""
    return ChatRecord(
        id=conversation.id,
        title=conversation.title,
        model=conversation.model,
        system=clean(conversation.system),
        turns=tuple(map(_turn_record, turns)),
        dropped=tuple(conversation.dropped),
        changed_at=changed_at,
    )


def _turn_record(turn: Turn) -> TurnRecord:
    answer = turn.answer
    return TurnRecord(
        id=turn.id,
        question=clean(turn.question, PROMPT_LIMIT),
        answer=answer.text,
        reasoning=answer.reasoning,
        state=answer.state,
        model=answer.model,
        served_by=answer.served_by,
        how=answer.how,
        finish_reason=answer.finish_reason,
        error=clean(answer.error),
        hint=clean(answer.hint),
        tokens=answer.completion_tokens,
        first_token_ms=answer.first_token_ms,
        tokens_per_second=answer.tokens_per_second,
    )


def conversation_of(record: ChatRecord) -> Conversation:
    """A conversation as it was written. An answer that was still being written then will not go on."""
    return Conversation(
        turns=[_turn(each) for each in record.turns],
        id=record.id,
        title=record.title,
        system=record.system,
        model=record.model,
    )


def _turn(record: TurnRecord) -> Turn:
    over = record.state in ("done", "stopped", "failed")
    state = record.state if record.state in get_args(AnswerState) and over else "stopped"
    first = record.first_token_ms / 1000
    speed = record.tokens_per_second
    answer = Answer(
        model=record.model,
        served_by=record.served_by,
        how=record.how,
        state=cast("AnswerState", state),
        text=record.answer,
        reasoning=record.reasoning,
        finish_reason=record.finish_reason,
        error=record.error if over else CUT_SHORT,
        hint=record.hint,
        completion_tokens=record.tokens,
        first_at=first,
        last_at=first + (record.tokens - 1) / speed if speed > 0 else first,
    )
    return Turn(record.question, answer, id=record.id, saved=over)
