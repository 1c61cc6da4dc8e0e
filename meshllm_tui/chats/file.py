"""The file of the history. Every call may wait for the disk: call it from a thread. No Textual here."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meshllm_core.errors import StorageError
from meshllm_tui.chats.schema import APPLICATION, SCHEMA, UPSERT_CHAT, UPSERT_TURN, VERSION
from meshllm_tui.cleaning import clean, one_line
from meshllm_tui.conversation import ANSWER_LIMIT, PROMPT_LIMIT, SYSTEM_LIMIT, TITLE_LIMIT, TURNS_KEPT

CHATS_KEPT = 500
"""Conversations; those that were changed longest ago are deleted first."""
FILE_LIMIT = 128 << 20
"""Bytes of the file; above it the oldest conversations are deleted until a tenth of it is free."""
BUSY_SECONDS = 2.0
"""So long another dashboard may hold the file."""


@dataclass(frozen=True)
class ChatRow:
    """One conversation in the list."""

    id: str
    title: str
    model: str
    changed_at: float
    """Seconds since the epoch."""
    turns: int


@dataclass(frozen=True)
class TurnRecord:
    """A turn as the file holds it; in the order of the table's columns."""

    id: str
    question: str
    answer: str
    reasoning: str
    state: str
    model: str
    served_by: str
    how: str
    finish_reason: str
    error: str
    hint: str
    tokens: int
    first_token_ms: float
    tokens_per_second: float


@dataclass(frozen=True)
class ChatRecord:
    """A conversation's head, with turns that are to be written or were read."""

    id: str
    title: str
    model: str
    system: str
    turns: tuple[TurnRecord, ...] = ()
    dropped: tuple[str, ...] = ()
    """Ids of turns that are to be deleted."""
    changed_at: float = 0.0
    """Seconds since the epoch; not read back with a conversation."""


class ChatFile:
    """One open file, or a history in memory where `path` is None. Every method raises StorageError."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.in_memory = path is None
        """Nothing outlives this object."""
        with self._told("open"):
            if path is not None:
                _make_private(path)
            self._db = sqlite3.connect(
                path or ":memory:", timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        try:
            with self._told("open"):
                self._prepare()
        except StorageError:
            self._db.close()
            raise

    def _prepare(self) -> None:
        db = self._db
        version = db.execute("PRAGMA user_version").fetchone()[0]
        known = db.execute("PRAGMA application_id").fetchone()[0]
        if version > VERSION or known != (APPLICATION if version else 0):
            what = "a newer meshllm" if known == APPLICATION else "another program"
            raise StorageError(
                f"{self._path} was written by {what}.",
                hint="Conversations are kept until the dashboard is left. Update meshllm, or move the file.",
            )
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA secure_delete = ON")
        if not version:
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.create_function("folded", 1, lambda text: str(text).casefold(), deterministic=True)
        if not version:
            with self._changing():
                for statement in SCHEMA:
                    db.execute(statement)

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Errors of the disk and of the library in words."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            where = self._path or "the history in memory"
            raise StorageError(
                f"Could not {what} {where}: {error}.",
                hint="Conversations are kept until the dashboard is left. "
                "Free the disk or move the file away, then open the dashboard again.",
            ) from error

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """All of it or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def close(self) -> None:
        """Give the file back."""
        self._db.close()

    def rows(self, find: str = "") -> tuple[ChatRow, ...]:
        """Conversations, newest first; only those whose title or text holds `find`."""
        wanted = find.strip()[:TITLE_LIMIT].casefold()
        with self._told("read"):
            found = self._db.execute(
                "SELECT id, substr(title, 1, ?1), substr(model, 1, 200), changed_at,"
                " (SELECT count(*) FROM turns WHERE chat = chats.id) FROM chats"
                " WHERE ?2 = '' OR instr(folded(title), ?2) OR EXISTS (SELECT 1 FROM turns WHERE"
                " chat = chats.id AND (instr(folded(question), ?2) OR instr(folded(answer), ?2)))"
                " ORDER BY changed_at DESC, rowid DESC LIMIT ?3",
                (TITLE_LIMIT, wanted, CHATS_KEPT),
            ).fetchall()
        return tuple(
            ChatRow(str(row[0]), one_line(str(row[1])), one_line(str(row[2])), float(row[3]), int(row[4]))
            for row in found
        )

    def load(self, chat: str) -> ChatRecord | None:
        """A conversation with its turns, oldest first; None when there is no such."""
        with self._told("read"):
            head = self._db.execute(
                "SELECT id, substr(title, 1, ?2), substr(model, 1, 200), substr(system, 1, ?3)"
                " FROM chats WHERE id = ?1",
                (chat, TITLE_LIMIT, SYSTEM_LIMIT),
            ).fetchone()
            if head is None:
                return None
            turns = self._db.execute(
                "SELECT id, substr(question, 1, ?2), substr(answer, 1, ?3), substr(reasoning, 1, ?3), state,"
                " substr(model, 1, 200), substr(served_by, 1, 100), substr(how, 1, 500), finish_reason,"
                " substr(error, 1, 2000), substr(hint, 1, 2000), tokens, first_token_ms, tokens_per_second"
                " FROM turns WHERE chat = ?1 ORDER BY number DESC LIMIT ?4",
                (chat, PROMPT_LIMIT, ANSWER_LIMIT, TURNS_KEPT),
            ).fetchall()
        name, title, model, system = (clean(str(each)) for each in head)
        return ChatRecord(name, title, model, system, tuple(map(_turn, reversed(turns))))

    def save(self, record: ChatRecord) -> int:
        """Write a conversation's head and its changed turns; how many old conversations had to go for it."""
        with self._told("write"), self._changing():
            head = (record.id, record.title, record.model, record.system, record.changed_at)
            self._db.execute(UPSERT_CHAT, head)
            self._db.executemany("DELETE FROM turns WHERE id = ?", [(each,) for each in record.dropped])
            self._db.executemany(UPSERT_TURN, [(record.id, *_values(turn)) for turn in record.turns])
            self._remember(record.id)
        return self._prune(record.id)

    def rename(self, chat: str, title: str) -> None:
        """Call a conversation something else; its place in the list stays."""
        with self._told("write"):
            self._db.execute("UPDATE chats SET title = ? WHERE id = ?", (title[:TITLE_LIMIT], chat))

    def delete(self, chat: str) -> None:
        """Delete a conversation; its text is overwritten in the file."""
        with self._told("write"):
            self._db.execute("DELETE FROM chats WHERE id = ?", (chat,))
            self._db.execute("PRAGMA incremental_vacuum").fetchall()
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def remember(self, chat: str) -> None:
        """The conversation that is open, to be opened next time; empty: a new one."""
        with self._told("write"):
            self._remember(chat)

    def _remember(self, chat: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO kept(name, value) VALUES ('open', ?)", (chat,))

    def remembered(self) -> str:
        """The conversation that was open last; empty where there was none."""
        with self._told("read"):
            row = self._db.execute("SELECT value FROM kept WHERE name = 'open'").fetchone()
        return str(row[0]) if row else ""

    def _bytes(self) -> int:
        page, pages, free = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_size", "page_count", "freelist_count")
        )
        return int(page) * (int(pages) - int(free))

    def _prune(self, kept: str) -> int:
        """Delete the oldest conversations beyond the bounds, never the one that was just written."""
        gone = 0
        with self._told("write"):
            many = int(self._db.execute("SELECT count(*) FROM chats").fetchone()[0])
            full = self._bytes() > FILE_LIMIT
            while many - gone > CHATS_KEPT or (full and self._bytes() > FILE_LIMIT * 0.9):
                done = self._db.execute(
                    "DELETE FROM chats WHERE id IN"
                    " (SELECT id FROM chats WHERE id != ? ORDER BY changed_at LIMIT 1)",
                    (kept,),
                ).rowcount
                if not done:
                    break
                gone += 1
            if gone:
                self._db.execute("PRAGMA incremental_vacuum").fetchall()
        return gone


def _make_private(path: Path) -> None:
    """Make the file for its owner alone; SQLite gives the files beside it the same mode."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        if os.name == "posix" and os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _values(turn: TurnRecord) -> Sequence[object]:
    return tuple(getattr(turn, name) for name in TurnRecord.__dataclass_fields__)


def _turn(row: Sequence[Any]) -> TurnRecord:
    *texts, tokens, first, speed = row
    values: list[Any] = [clean(str(each), ANSWER_LIMIT) for each in texts]
    values += [int(tokens), float(first), float(speed)]
    return TurnRecord(*values)
