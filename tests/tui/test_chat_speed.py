"""A long answer and a long conversation do not slow the keyboard. Processor time, as machines are shared."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from textual import events

from meshllm_core.api.client import ChatDelta
from meshllm_tui.app import MeshApp
from meshllm_tui.chats.store import ChatStore
from meshllm_tui.conversation import TURNS_KEPT, Conversation
from meshllm_tui.pages.chat import ChatPage
from meshllm_tui.widgets.document import Document
from tests.tui.conftest import Screen, dashboard
from tests.tui.samples import ScriptedClient

KEY_SECONDS = 0.05
BLOCK = """## Part {number}

Some **bold** words about `code` and the [rest](https://example.org) of the sentence, as answers do. And more.

- one item
- another *item*

```python
for x in range({number}):
    print(x)
```

"""
TEN_THOUSAND_TOKENS = "".join(BLOCK.format(number=number) for number in range(200))


def page(screen: Screen) -> ChatPage:
    found = screen.app.page
    assert isinstance(found, ChatPage)
    return found


async def opened(screen: Screen) -> ChatPage:
    await screen.press("f3")
    await screen.until(lambda: isinstance(screen.app.page, ChatPage) and page(screen).chat.prompt.has_focus)
    await screen.until(lambda: page(screen).chats._rows is not None)
    return page(screen)


async def median_of_keys(screen: Screen, letters: str, monkeypatch: pytest.MonkeyPatch) -> float:
    """Seconds of processor time from a letter to the repaint that shows it, in the middle."""
    prompt, spent = page(screen).chat.prompt, []
    painted = asyncio.Event()
    wanted = 0
    display = MeshApp._display

    def noted(app: MeshApp, *arguments: Any) -> None:
        display(app, *arguments)
        if len(prompt.text) >= wanted:
            painted.set()

    monkeypatch.setattr(MeshApp, "_display", noted)
    for letter in letters:
        wanted = len(prompt.text) + 1
        painted.clear()
        began = time.process_time()
        screen.app.post_message(events.Key(letter, letter))
        async with asyncio.timeout(10):
            await painted.wait()
        spent.append(time.process_time() - began)
        await asyncio.sleep(0.03)
    return sorted(spent)[len(spent) // 2]


def pieces(text: str, size: int) -> list[ChatDelta]:
    return [ChatDelta(text=text[at : at + size]) for at in range(0, len(text), size)]


async def test_keys_stay_quick_while_a_long_answer_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead, rest = TEN_THOUSAND_TOKENS[:-4000], TEN_THOUSAND_TOKENS[-4000:]
    client = ScriptedClient(answer=[ChatDelta(text=ahead), *pieces(rest, 4)], pace=0.005)
    async with dashboard(client) as screen:
        chat = (await opened(screen)).chat
        await screen.press(*"why", "enter")
        await screen.until(lambda: "Part 19" in screen.text, seconds=30)
        assert await median_of_keys(screen, "write-something-here", monkeypatch) < KEY_SECONDS
        assert chat.answering, "it was still being written"
        await screen.press("escape")


async def test_keys_stay_quick_in_a_conversation_of_many_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ChatStore(tmp_path / "c.sqlite")
    await store.open()
    conversation = Conversation()
    for number in range(TURNS_KEPT):
        _, turn = conversation.ask(f"question {number}", "m", 0.0)
        turn.answer.state, turn.answer.text = "done", BLOCK.format(number=number)
    await store.save(conversation)
    await store.close()
    async with dashboard(chats_file=tmp_path / "c.sqlite") as screen:
        chat = (await opened(screen)).chat
        await screen.until(lambda: f"question {TURNS_KEPT - 1}" in screen.text)
        await screen.until(lambda: chat.talk.complete, seconds=60)
        assert f"question {TURNS_KEPT - 1}" in screen.text, "the end stays where it was"
        await screen.press("pageup")
        assert await median_of_keys(screen, "write-something-here", monkeypatch) < KEY_SECONDS
        await screen.press("escape", "home")
        await screen.until(lambda: "▌ question 0" in screen.text)


async def test_the_keyboard_is_heard_while_old_turns_are_laid_out() -> None:
    async with dashboard() as screen:
        chat = (await opened(screen)).chat
        conversation = Conversation()
        for number in range(20):
            _, turn = conversation.ask(f"question {number}", "m", 0.0)
            turn.answer.state, turn.answer.text = "done", TEN_THOUSAND_TOKENS
        chat.open(conversation)
        await screen.press("x")
        assert chat.prompt.text == "x"
        assert not chat.talk.complete
        assert "question" in screen.text or "Part" in screen.text


def test_a_growing_text_is_parsed_from_its_last_block_on() -> None:
    document = Document()
    document.append(TEN_THOUSAND_TOKENS)
    document.lines(80)
    began = time.process_time()
    for _ in range(100):
        document.append("and one more word ")
        document.lines(80)
    assert (time.process_time() - began) / 100 < 0.01
