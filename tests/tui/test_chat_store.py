"""The history of conversations: what is kept, bounded, refused and never lost. No Textual here."""

import asyncio
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from meshllm_core.errors import StorageError
from meshllm_tui.chats import file as chat_file
from meshllm_tui.chats.file import ChatFile, ChatRecord, TurnRecord
from meshllm_tui.chats.store import CUT_SHORT, ChatStore, record_of
from meshllm_tui.conversation import TURNS_KEPT, Answer, Conversation


def talk(question: str = "why", text: str = "because") -> Conversation:
    """A conversation of one turn."""
    conversation = Conversation()
    _, turn = conversation.ask(question, "m", 0.0)
    turn.answer = Answer(
        model="m",
        served_by="attic",
        how="m, answered by attic",
        state="done",
        text=text,
        reasoning="hm",
        finish_reason="stop",
        completion_tokens=11,
        asked_at=100.0,
        first_at=100.5,
        last_at=102.5,
    )
    return conversation


def record(question: str, at: float, text: str = "x") -> ChatRecord:
    conversation = talk(question, text)
    return record_of(conversation, conversation.turns, at)


async def opened(path: Path | None) -> ChatStore:
    store = ChatStore(path)
    await store.open()
    return store


async def test_a_conversation_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "new" / "chats.sqlite"
    store = await opened(path)
    conversation = talk()
    conversation.system = "Be brief."
    assert await store.save(conversation) == 0
    await store.close()
    again = await opened(path)
    assert again.trouble is None
    found = await again.last()
    assert found is not None
    assert (found.id, found.title, found.system, found.model) == (conversation.id, "why", "Be brief.", "m")
    answer = found.turns[0].answer
    assert (answer.text, answer.reasoning, answer.how) == ("because", "hm", "m, answered by attic")
    assert answer.first_token_ms == pytest.approx(500.0)
    assert answer.tokens_per_second == pytest.approx(5.0)
    assert found.turns[0].saved
    await again.close()


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
async def test_only_the_owner_reads_the_files(tmp_path: Path) -> None:
    path = tmp_path / "data" / "chats.sqlite"
    path.parent.mkdir()
    path.touch(mode=0o644)
    store = await opened(path)
    await store.save(talk())
    files = list(path.parent.iterdir())
    assert {each.name for each in files} >= {"chats.sqlite", "chats.sqlite-wal"}
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
    await store.close()


@pytest.mark.skipif(os.name != "posix", reason="links are POSIX's")
async def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "chats.sqlite").symlink_to(tmp_path / "elsewhere")
    store = await opened(tmp_path / "chats.sqlite")
    assert store.trouble is not None
    assert not (tmp_path / "elsewhere").exists()
    await store.close()


async def test_deleted_words_are_not_left_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite"
    store = await opened(path)
    conversation = talk("the secret question", "the secret answer " * 500)
    await store.save(conversation)
    await store.delete(conversation.id)
    await store.close()
    assert b"secret" not in _all_bytes(tmp_path)


def _all_bytes(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.iterdir())


async def test_a_replaced_answer_keeps_its_place_and_dropped_turns_go(tmp_path: Path) -> None:
    store = await opened(tmp_path / "c.sqlite")
    conversation = talk("one")
    for question in ("two", "three"):
        conversation.ask(question, "m", 0.0)[1].answer.state = "done"
    await store.save(conversation)
    conversation.turns[0].answer, conversation.turns[0].saved = Answer("m", text="new", state="done"), False
    conversation.drop_last()
    await store.save(conversation)
    found = await store.load(conversation.id)
    assert found is not None
    assert [(turn.question, turn.answer.text) for turn in found.turns] == [("one", "new"), ("two", "")]
    assert conversation.dropped == []
    await store.close()


async def test_an_answer_that_was_being_written_is_told_as_cut_short(tmp_path: Path) -> None:
    store = await opened(tmp_path / "c.sqlite")
    conversation = talk()
    conversation.turns[0].answer.state = "streaming"
    await store.save(conversation)
    assert not conversation.turns[0].saved
    found = await store.load(conversation.id)
    assert found is not None
    assert (found.turns[0].answer.state, found.turns[0].answer.error) == ("stopped", CUT_SHORT)
    await store.close()


async def test_changes_while_the_disk_writes_are_written_too(tmp_path: Path) -> None:
    store = await opened(tmp_path / "c.sqlite")
    conversation = talk("one")
    saves = [asyncio.create_task(store.save(conversation))]
    await asyncio.sleep(0)
    for number in range(100):
        conversation.ask(str(number), "m", 0.0)[1].answer.state = "done"
        saves.append(asyncio.create_task(store.save(conversation)))
        await asyncio.sleep(0)
    await asyncio.gather(*saves)
    found = await store.load(conversation.id)
    assert found is not None
    assert len(found.turns) == 101
    await store.close()


async def test_two_dashboards_share_the_file(tmp_path: Path) -> None:
    one, two = await opened(tmp_path / "c.sqlite"), await opened(tmp_path / "c.sqlite")
    await one.save(talk("first"))
    await two.save(talk("second"))
    assert {row.title for row in await one.rows()} == {"first", "second"}
    assert one.trouble is two.trouble is None
    await one.close()
    await two.close()


async def test_turns_beyond_the_bound_leave_the_file(tmp_path: Path) -> None:
    store = await opened(tmp_path / "c.sqlite")
    conversation = Conversation()
    for number in range(TURNS_KEPT + 3):
        conversation.ask(str(number), "m", 0.0)[1].answer.state = "done"
        if number == TURNS_KEPT - 1:
            await store.save(conversation)
    await store.save(conversation)
    rows = await store.rows()
    assert rows[0].turns == TURNS_KEPT
    found = await store.load(conversation.id)
    assert found is not None
    assert found.turns[0].question == "3"
    await store.close()


def test_the_oldest_conversations_make_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(chat_file, "CHATS_KEPT", 5)
    kept = ChatFile(tmp_path / "c.sqlite")
    gone = [kept.save(record(str(number), float(number))) for number in range(8)]
    assert gone == [0] * 5 + [1] * 3
    assert [row.title for row in kept.rows()] == ["7", "6", "5", "4", "3"]
    monkeypatch.setattr(chat_file, "CHATS_KEPT", 50)
    monkeypatch.setattr(chat_file, "FILE_LIMIT", 400_000)
    for number in range(8, 20):
        kept.save(record(str(number), float(number), "y" * 60_000))
    assert (tmp_path / "c.sqlite").stat().st_size < 700_000
    assert kept.rows()[0].title == "19", "what was just written is never the one to go"
    kept.close()


def test_search_takes_any_letters_and_no_pattern() -> None:
    kept = ChatFile(None)
    for question in ("Straße nach Köln", "100 % sure", "under_score"):
        kept.save(record(question, 1.0))
    assert [row.title for row in kept.rows("STRASSE")] == ["Straße nach Köln"]
    assert [row.title for row in kept.rows("köln")] == ["Straße nach Köln"]
    assert [row.title for row in kept.rows("%")] == ["100 % sure"]
    assert [row.title for row in kept.rows("_")] == ["under_score"]
    assert kept.rows("'; DROP TABLE chats") == ()
    kept.close()


def test_what_the_file_holds_is_cleaned_and_cut(tmp_path: Path) -> None:
    kept = ChatFile(tmp_path / "c.sqlite")
    kept.save(record("q", 1.0))
    with sqlite3.connect(tmp_path / "c.sqlite") as db:
        db.execute("UPDATE chats SET title = ?", ("\x1b[31mred" + "x" * 1000,))
        db.execute("UPDATE turns SET answer = ?", ("\x1b]0;owned\x07" + "y" * 2_000_000,))
    row = kept.rows()[0]
    assert row.title.startswith("red")
    assert len(row.title) <= 80
    found = kept.load(row.id)
    assert found is not None
    assert "\x1b" not in found.turns[0].answer
    assert len(found.turns[0].answer) <= 400_000
    kept.close()


@pytest.mark.parametrize("setting", ["user_version = 2", "application_id = 7", "user_version = 1"])
def test_a_file_of_another_kind_is_left_alone(tmp_path: Path, setting: str) -> None:
    path = tmp_path / "c.sqlite"
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA {setting}")
    with pytest.raises(StorageError, match="was written by"):
        ChatFile(path)


async def test_a_file_that_breaks_while_it_is_open_is_told(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    store = await opened(path)
    await store.save(talk("one"))
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE turns")
    two = talk("two")
    assert await store.save(two) == 0
    assert store.trouble is not None
    assert "turns" in store.trouble[0]
    assert not two.turns[0].saved
    await store.close()


def test_records_have_the_columns_of_the_table() -> None:
    columns = [row[1] for row in ChatFile(None)._db.execute("PRAGMA table_info(turns)")]
    assert [name for name in columns if name not in ("number", "chat")] == list(
        TurnRecord.__dataclass_fields__
    )
