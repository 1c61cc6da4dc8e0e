"""The tables of the history, and the statements that write them."""

APPLICATION = 0x6D657368
"""Tells SQLite's own tools, and us, whose file it is."""
VERSION = 1
"""Of the tables. A file of a later version is left alone."""

_COLUMNS = (
    "question",
    "answer",
    "reasoning",
    "state",
    "model",
    "served_by",
    "how",
    "finish_reason",
    "error",
    "hint",
    "tokens",
    "first_token_ms",
    "tokens_per_second",
)

SCHEMA = (
    "CREATE TABLE chats (id TEXT PRIMARY KEY, title TEXT NOT NULL, model TEXT NOT NULL,"
    " system TEXT NOT NULL, changed_at REAL NOT NULL)",
    "CREATE INDEX chats_changed ON chats(changed_at)",
    "CREATE TABLE turns (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
    " chat TEXT NOT NULL REFERENCES chats(id) ON DELETE CASCADE, question TEXT NOT NULL,"
    " answer TEXT NOT NULL, reasoning TEXT NOT NULL, state TEXT NOT NULL, model TEXT NOT NULL,"
    " served_by TEXT NOT NULL, how TEXT NOT NULL, finish_reason TEXT NOT NULL, error TEXT NOT NULL,"
    " hint TEXT NOT NULL, tokens INTEGER NOT NULL, first_token_ms REAL NOT NULL,"
    " tokens_per_second REAL NOT NULL)",
    "CREATE INDEX turns_of_chat ON turns(chat, number)",
    "CREATE TABLE kept (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
"""What a new file begins with."""

UPSERT_CHAT = (
    "INSERT INTO chats (id, title, model, system, changed_at) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT(id) DO UPDATE SET title = excluded.title, model = excluded.model,"
    " system = excluded.system, changed_at = excluded.changed_at"
)
UPSERT_TURN = (
    f"INSERT INTO turns (chat, id, {', '.join(_COLUMNS)}) VALUES ({', '.join('?' * (len(_COLUMNS) + 2))})"
    f" ON CONFLICT(id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _COLUMNS)}"
)
"""A turn keeps its place when its answer is replaced."""
