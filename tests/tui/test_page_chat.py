"""The chat's page: conversations that are kept, and what can be done with them besides talking."""

import asyncio
import sqlite3
from pathlib import Path

import pytest
from textual.widgets import Input

from meshllm_core.api.client import ChatDelta
from meshllm_core.errors import MeshError, NodeNotRunning
from meshllm_core.ids import ModelId
from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.actions.chat import ACTIONS
from meshllm_tui.pages.chat import ChatPage
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.choose import ChooseScreen
from meshllm_tui.screens.write import WriteScreen
from meshllm_tui.widgets.chat_pane import ChatPane
from meshllm_tui.widgets.chats_pane import ChatsPane
from meshllm_tui.widgets.prompt import Prompt
from tests.tui.conftest import Screen, dashboard
from tests.tui.mesh_samples import meshed
from tests.tui.samples import SMALL, ScriptedClient, bare, fold, ready

CODE = "Two ways:\n\n```python\nprint(1)\n```\n\nor\n\n```sh\necho 1\necho 2\n```\n"


def page(screen: Screen) -> ChatPage:
    found = screen.app.page
    assert isinstance(found, ChatPage)
    return found


async def opened(screen: Screen) -> ChatPage:
    """The page, when the history has been read."""
    await screen.press("f3")
    await screen.until(lambda: isinstance(screen.app.page, ChatPage) and page(screen).chat.prompt.has_focus)
    await screen.until(lambda: page(screen).chats._rows is not None)
    return page(screen)


async def ask(screen: Screen, words: str) -> None:
    """Ask, and wait for the end of the answer and for the disk."""
    chat = page(screen).chat
    await screen.press(*words, "enter")
    await screen.until(lambda: bool(chat.conversation.turns) and not chat.answering)
    await screen.until(lambda: all(turn.saved for turn in chat.conversation.turns))
    await screen.until(lambda: chat.conversation.id in (page(screen).chats._rows or {}))


async def click(screen: Screen, words: str) -> None:
    """Click on the first place of the screen that has these words."""
    await screen.until(lambda: words in screen.text)
    rows = screen.text.split("\n")
    y = next(place for place, row in enumerate(rows) if words in row)
    await screen.pilot.click(offset=(rows[y].index(words) + 1, y))
    await screen.pilot.pause()


def answers(text: str = "An answer.") -> ScriptedClient:
    return ScriptedClient(answer=[ChatDelta(text=text), ChatDelta(finish_reason="stop", completion_tokens=9)])


async def test_the_dashboard_opens_the_last_conversation_again(tmp_path: Path) -> None:
    file = tmp_path / "data" / "chats.sqlite"
    async with dashboard(answers(), chats_file=file) as screen:
        await opened(screen)
        await ask(screen, "why is the sky blue")
    client = answers("Another.")
    async with dashboard(client, chats_file=file) as screen:
        await opened(screen)
        assert "▌ why is the sky blue" in screen.text
        assert "An answer." in screen.text
        assert "● done  9 tokens" in screen.text
        assert f"{SMALL}, answered by workshop on CPU" in screen.text
        await ask(screen, "more")
        assert [each["content"] for each in client.asked[0][0]] == [
            "why is the sky blue",
            "An answer.",
            "more",
        ]
    assert file.stat().st_mode & 0o777 == 0o600


async def test_conversations_are_listed_opened_renamed_and_deleted(tmp_path: Path) -> None:
    async with dashboard(answers(), chats_file=tmp_path / "c.sqlite") as screen:
        await opened(screen)
        await ask(screen, "first")
        await screen.press("escape", "n")
        await ask(screen, "second")
        await screen.press("f5", "down", "enter")
        await screen.until(lambda: page(screen).chat.conversation.title == "first")
        assert "▸ first" in screen.text
        assert "▌ first" in screen.text
        await screen.press("f5", "R")
        assert isinstance(screen.app.screen, WriteScreen)
        await screen.press(*" one", "enter")
        await screen.until(lambda: "▸ first one" in screen.text)
        await screen.press("d")
        assert isinstance(screen.app.screen, AskScreen)
        assert "Delete “first one”?" in screen.text
        await screen.press("right", "enter")
        await screen.until(lambda: "first one" not in screen.text)
        assert "Ask SmolLM2-135M-Instruct something." in screen.text
        await click(screen, "second")
        await screen.until(lambda: "▌ second" in screen.text)


async def test_search_finds_words_in_questions_and_answers(tmp_path: Path) -> None:
    async with dashboard(answers("Rayleigh scattering"), chats_file=tmp_path / "c.sqlite") as screen:
        await opened(screen)
        await ask(screen, "sky")
        screen.client.answer = [ChatDelta(text="chlorophyll")]
        await screen.press("escape", "n")
        await ask(screen, "leaf")
        await screen.press("f5", "slash", *"RAYL")
        await screen.until(lambda: "1 found" in screen.text)
        assert "  sky" in screen.text
        await screen.press("enter", "enter")
        await screen.until(lambda: "▌ sky" in screen.text)
        await screen.press("f5", "slash", *"zzz")
        await screen.until(lambda: "Nothing has “zzz” in it." in screen.text)
        await screen.press("escape")
        await screen.until(lambda: "2 chats" in screen.text)
        assert not screen.app.screen.query_one(Input).display
        await screen.press("escape")
        assert page(screen).chat.prompt.has_focus


async def test_a_system_prompt_is_sent_and_told(tmp_path: Path) -> None:
    client = answers()
    async with dashboard(client, chats_file=tmp_path / "c.sqlite") as screen:
        await opened(screen)
        await screen.press("f9", *"Be brief.", "enter")
        await ask(screen, "hi")
        assert client.asked[0][0][0] == {"role": "system", "content": "Be brief."}
        await screen.until(lambda: "System prompt  Be brief." in screen.text)
        await click(screen, "System prompt")
        assert isinstance(screen.app.screen, WriteScreen)
        screen.app.screen.query_one(Prompt).text = ""
        await screen.press("enter")
        await screen.until(lambda: "System prompt" not in screen.text)
        await ask(screen, "again")
        assert client.asked[1][0][0]["role"] == "user"


async def test_retry_replaces_the_answer(tmp_path: Path) -> None:
    file = tmp_path / "c.sqlite"
    async with dashboard(answers("one"), chats_file=file) as screen:
        await opened(screen)
        await ask(screen, "why")
        screen.client.answer = [ChatDelta(text="two")]
        await screen.press("f7")
        await screen.until(lambda: "two" in screen.text and not page(screen).chat.answering)
        assert [each["content"] for each in screen.client.asked[1][0]] == ["why"]
        assert len(page(screen).chat.conversation.turns) == 1
    async with dashboard(answers(), chats_file=file) as screen:
        await opened(screen)
        assert "two" in screen.text
        assert "  one" not in screen.text


async def test_an_edited_question_takes_the_place_of_the_old_one() -> None:
    async with dashboard(answers("one")) as screen:
        await opened(screen)
        await ask(screen, "wy")
        await screen.press("up")
        assert page(screen).chat.prompt.text == "wy"
        assert "Editing the last question" in screen.text
        await screen.press("escape")
        assert page(screen).chat.prompt.text == ""
        assert "Editing" not in screen.text
        assert "▌ wy" in screen.text, "nothing is lost by looking"
        await screen.press("escape", "E", "backspace", *"hy", "enter")
        await screen.until(lambda: "▌ why" in screen.text)
        assert "▌ wy" not in screen.text
        assert len(page(screen).chat.conversation.turns) == 1
        await screen.until(lambda: not page(screen).chat.answering)
        await screen.press(*"new", "f8")
        assert page(screen).chat.prompt.text == "new", "what was written is not lost"


async def test_a_node_that_is_killed_leaves_what_came_and_is_asked_again() -> None:
    lost = NodeNotRunning("The node ended the answer.", hint="Start it again.")
    async with dashboard(ScriptedClient(answer=[ChatDelta(text="half an"), lost])) as screen:
        await opened(screen)
        await screen.press(*"why", "enter")
        await screen.until(lambda: "✗ failed" in screen.text)
        for words in ("half an", "The node ended the answer.", "r asks again"):
            assert words in screen.text
        screen.client.answer = [ChatDelta(text="a whole answer")]
        await screen.press("escape", "r")
        await screen.until(lambda: "a whole answer" in screen.text)
        assert "half an" not in screen.text


async def test_a_question_that_was_refused_is_not_there_twice() -> None:
    async with dashboard(ScriptedClient(answer=[MeshError("Busy.")])) as screen:
        await opened(screen)
        await screen.press(*"why", "enter")
        await screen.until(lambda: page(screen).chat.prompt.text == "why")
        screen.client.answer = [ChatDelta(text="because")]
        await screen.press("enter")
        await screen.until(lambda: "because" in screen.text)
        assert screen.text.count("▌ why") == 1


async def test_copying_code_and_the_whole_conversation() -> None:
    async with dashboard(answers(CODE)) as screen:
        await opened(screen)
        await ask(screen, "how")
        await screen.press("escape", "b")
        assert isinstance(screen.app.screen, ChooseScreen)
        await screen.press("down", "enter")
        assert screen.copied == "echo 1\necho 2"
        await click(screen, "python  copy")
        assert screen.copied == "echo 1\necho 2", "only the word is a button"
        await click(screen, "copy ")
        assert screen.copied == "print(1)"
        await screen.press("Y")
        assert screen.copied.startswith("# how\n\n## Question\n\nhow\n\n## Answer of SmolLM2-135M-Instruct\n")
        assert CODE.strip() in screen.copied
        assert "answered by workshop on CPU; ● done  9 tokens" in screen.copied


async def test_export_writes_a_new_file_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DOWNLOAD_DIR", raising=False)
    async with dashboard(answers()) as screen:
        await opened(screen)
        await ask(screen, "what is it?")
        await screen.press("escape", "w")
        assert isinstance(screen.app.screen, WriteScreen)
        await screen.press("enter")
        await screen.until(lambda: any("Wrote" in each for each in screen.toasts))
        assert (tmp_path / "what-is-it.md").read_text().startswith("# what is it?")
        await screen.press("w", "enter")
        await screen.until(lambda: "exists already" in screen.text)
        assert isinstance(screen.app.screen, WriteScreen)
        await screen.press("escape")


async def test_models_are_offered_with_who_holds_them() -> None:
    async with dashboard(
        ScriptedClient(state=meshed(), answer=[ChatDelta(text="x", served_by="cellar")])
    ) as screen:
        await opened(screen)
        await screen.press("f4")
        assert "SmolLM2-135M-Instruct     here" in screen.text
        assert "gemma-3-12b:Q4_K_M        cellar" in screen.text
        await screen.press("end", "enter", *"hi", "enter")
        await screen.until(lambda: "gemma-3-12b:Q4_K_M, answered by cellar" in screen.text)
        assert "which does not tell" in screen.text
        assert screen.client.asked[0][1] == "gemma-3-12b:Q4_K_M"


@pytest.mark.parametrize("damage", ["text", "newer", "folder"])
async def test_without_a_usable_file_the_chat_works_and_says_so(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "chats.sqlite"
    if damage == "text":
        file.write_bytes(b"this is no database, but long enough to be looked at" * 40)
    elif damage == "newer":
        with sqlite3.connect(file) as db:
            db.execute("PRAGMA user_version = 99")
    else:
        file.mkdir()
    before = file.read_bytes() if file.is_file() else b""
    async with dashboard(answers(), chats_file=file) as screen:
        await opened(screen)
        await screen.until(lambda: "! not kept" in screen.text)
        assert any("Conversations are not kept" in each for each in screen.toasts)
        await ask(screen, "first")
        await screen.press("escape", "n")
        await ask(screen, "second")
        await screen.press("f5", "down", "enter")
        await screen.until(lambda: "▌ first" in screen.text)
    assert (file.read_bytes() if file.is_file() else b"") == before, "what is there is not touched"


async def test_a_disk_that_fills_up_is_told_and_what_was_not_written_is_written_later(tmp_path: Path) -> None:
    file = tmp_path / "c.sqlite"
    async with dashboard(answers(), chats_file=file) as screen:
        chats = await opened(screen)
        await ask(screen, "one")
        held = sqlite3.connect(file, isolation_level=None)
        held.execute("BEGIN EXCLUSIVE")
        await screen.press(*"two", "enter")
        await screen.until(lambda: "! not kept" in screen.text, seconds=15)
        held.execute("ROLLBACK")
        held.close()
        screen.client.answer = [ChatDelta(text="third answer")]
        await screen.until(lambda: not chats.chat.answering)
        await ask(screen, "three")
        await screen.until(lambda: "! not kept" not in screen.text)
    with sqlite3.connect(file) as db:
        kept = [row[0] for row in db.execute("SELECT question FROM turns ORDER BY number")]
    assert kept == ["one", "two", "three"]


async def test_an_answer_that_is_being_written_holds_its_conversation() -> None:
    client = answers()
    async with dashboard(client) as screen:
        await opened(screen)
        await ask(screen, "one")
        await screen.press("escape", "n")
        client.hold = asyncio.Event()
        await screen.press(*"two", "enter")
        await screen.until(lambda: page(screen).chat.answering)
        await screen.press("f5", "n")
        await screen.press("down", "enter")
        await screen.press("up", "d")
        await screen.pilot.pause()
        assert sum("An answer is being written" in each for each in screen.toasts) == 3
        assert page(screen).chat.conversation.title == "two"
        client.hold.set()


async def test_leaving_keeps_what_had_come(tmp_path: Path) -> None:
    file = tmp_path / "c.sqlite"
    client = ScriptedClient(answer=[ChatDelta(text="half an answer")], hold=asyncio.Event())
    async with dashboard(client, chats_file=file) as screen:
        await opened(screen)
        await screen.press(*"why", "enter")
        await screen.until(lambda: "half an answer" in screen.text)
    async with dashboard(answers(), chats_file=file) as screen:
        await opened(screen)
        assert "half an answer" in screen.text
        assert "■ stopped" in screen.text


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_list_is_there_where_there_is_room(size: tuple[int, int]) -> None:
    async with dashboard(answers(), size=size) as screen:
        chats = await opened(screen)
        await ask(screen, "hello")
        assert ("Conversations" in screen.text) == (size[0] >= 80)
        assert "▌ hello" in screen.text
        await screen.press("tab")
        await screen.until(lambda: "▸ hello" in screen.text)
        assert ("▌ hello" in screen.text) == (size[0] >= 80)
        await screen.press("escape")
        assert chats.chat.prompt.has_focus
        assert "▌ hello" in screen.text


async def test_panes_are_reached_by_jumping() -> None:
    async with dashboard(answers()) as screen:
        await opened(screen)
        await screen.press("f6", "a")
        assert page(screen).active == "chats"
        await screen.press("g", "s")
        assert page(screen).active == "chat"


async def test_without_a_node_the_page_says_so() -> None:
    async with dashboard(ScriptedClient(state=None)) as screen:
        await opened(screen)
        assert "looking for the node" in screen.text or "no node answers" in screen.text
        assert "No conversation yet." in screen.text


def several_models() -> NodeSnapshot:
    return fold(*ready(ModelId("other-model")), snapshot=fold(*ready(), snapshot=bare()))


async def test_a_conversation_keeps_its_model(tmp_path: Path) -> None:
    file = tmp_path / "c.sqlite"
    async with dashboard(
        ScriptedClient(state=several_models(), answer=[ChatDelta(text="x")]), chats_file=file
    ) as screen:
        await opened(screen)
        await screen.press("f4", "end", "enter")
        await ask(screen, "hi")
        assert screen.client.asked[0][1] == "other-model"
    client = ScriptedClient(state=several_models(), answer=[ChatDelta(text="x")])
    async with dashboard(client, chats_file=file) as screen:
        await opened(screen)
        await ask(screen, "hi")
        assert client.asked[0][1] == "other-model"


def test_panes_have_the_names_of_their_places() -> None:
    assert ChatPane.BINDINGS
    assert ChatsPane.BINDINGS
    assert set(ChatPage.PANES) == {action.place for action in ACTIONS}
