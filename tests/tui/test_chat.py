"""The chat pane: asking, streaming, stopping, figures, refusals."""

import asyncio

import pytest
from textual import events

from meshllm_core.api.client import ChatDelta
from meshllm_core.errors import Overloaded
from meshllm_core.ids import ModelId
from meshllm_tui.conversation import PROMPT_LIMIT
from meshllm_tui.pages.chat import ChatPage
from meshllm_tui.screens.choose import ChooseScreen
from meshllm_tui.widgets.chat_pane import ChatPane
from meshllm_tui.widgets.talk import Talk
from tests.tui.conftest import Screen, dashboard
from tests.tui.samples import SMALL, ScriptedClient, bare, fold, ready, serving

OTHER = ModelId("other-model")
REPLY = [
    ChatDelta(reasoning="Let me think. "),
    ChatDelta(text="Hello **there**, "),
    ChatDelta(text="friend.\n\n- one\n- two\n"),
    ChatDelta(finish_reason="stop", completion_tokens=12),
]


async def ask(screen: Screen, text: str = "hi") -> None:
    await opened(screen)
    await screen.press(*text, "enter")


def chat(screen: Screen) -> ChatPane:
    page = screen.app.page
    assert isinstance(page, ChatPage)
    return page.chat


async def click_on(screen: Screen, words: str) -> None:
    """Click on the first place of the screen that has these words."""
    await screen.until(lambda: words in screen.text)
    before = ""
    while before != screen.text:
        before = screen.text
        await screen.pilot.pause(0.15)
    for y, row in enumerate(screen.text.split("\n")):
        if words in row:
            await screen.pilot.click(offset=(row.index(words) + 1, y))
            await screen.pilot.pause()
            return


async def opened(screen: Screen) -> ChatPane:
    """The chat's page, its prompt ready to be written in."""
    await screen.press("f3")
    await screen.until(lambda: isinstance(screen.app.page, ChatPage) and chat(screen).prompt.has_focus)
    return chat(screen)


def idle(screen: Screen) -> bool:
    return not chat(screen).answering


async def test_an_answer_is_streamed_as_markdown_with_its_figures() -> None:
    async with dashboard(ScriptedClient(answer=REPLY)) as screen:
        await ask(screen, "hello")
        await screen.until(lambda: "● done  12 tokens" in screen.text)
        assert screen.client.asked == [([{"role": "user", "content": "hello"}], SMALL)]
        assert "Hello there, friend." in screen.text
        assert "• one" in screen.text or "● one" in screen.text
        assert "tok/s" in screen.text
        assert "first token" in screen.text
        assert chat(screen).prompt.text == ""


async def test_reasoning_is_kept_apart_and_opened_on_request() -> None:
    async with dashboard(ScriptedClient(answer=REPLY)) as screen:
        await ask(screen)
        await screen.until(lambda: "▸ thinking, 3 words" in screen.text)
        assert "Let me think." not in screen.text
        await screen.until(lambda: idle(screen))
        await screen.press("escape", "t")
        await screen.until(lambda: "Let me think." in screen.text)
        await click_on(screen, "▾ thinking")
        await screen.until(lambda: "Let me think." not in screen.text)


async def test_the_next_question_carries_the_conversation() -> None:
    async with dashboard(ScriptedClient(answer=[ChatDelta(text="one")])) as screen:
        await ask(screen, "a")
        await screen.until(lambda: idle(screen) and "● done" in screen.text)
        await screen.press("b", "enter")
        await screen.until(lambda: len(screen.client.asked) == 2)
        assert [each["content"] for each in screen.client.asked[1][0]] == ["a", "one", "b"]


async def test_a_question_that_failed_is_replaced_by_the_next_one_and_nothing_covers_the_prompt() -> None:
    """What came back into the prompt is chosen: writing takes its place, and arrows keep it."""
    busy = Overloaded("Every lane is busy.", hint="Try again.")
    async with dashboard(ScriptedClient(answer=[busy])) as screen:
        await ask(screen, "first")
        await screen.until(lambda: idle(screen) and chat(screen).prompt.text == "first")
        await screen.press(*"second", "enter")
        await screen.until(lambda: idle(screen) and chat(screen).prompt.text == "second")
        assert [turn.question for turn in chat(screen).conversation.turns] == ["second"]
        assert screen.toasts == []
        await screen.press("end", "!")
        assert chat(screen).prompt.text == "second!"
        await screen.press("escape", "9")
        await screen.until(lambda: "the answer failed: Every lane is busy." in screen.text)


async def test_a_question_that_came_back_does_not_follow_into_another_conversation() -> None:
    async with dashboard(ScriptedClient(answer=[Overloaded("Every lane is busy.")])) as screen:
        await ask(screen, "why")
        await screen.until(lambda: idle(screen) and chat(screen).prompt.text == "why")
        await screen.press("escape", "n")
        await screen.until(lambda: not chat(screen).conversation.turns)
        assert chat(screen).prompt.text == ""


async def test_few_notices_at_a_time_the_newest_of_them() -> None:
    async with dashboard() as screen:
        for number in range(9):
            screen.app.notify(f"notice {number}")
        await screen.until(lambda: screen.toasts == ["notice 6", "notice 7", "notice 8"])


async def test_escape_stops_the_answer_then_leaves_the_prompt() -> None:
    client = ScriptedClient(answer=[ChatDelta(text="half an ans")], hold=asyncio.Event())
    async with dashboard(client) as screen:
        await ask(screen)
        await screen.until(lambda: "half an ans" in screen.text)
        assert "◐ answering" in screen.text
        await screen.press("x", "enter")
        assert any("An answer is being written" in each for each in screen.toasts)
        assert chat(screen).prompt.text == "x"
        await screen.press("escape")
        await screen.until(lambda: "■ stopped" in screen.text)
        assert client.cancelled
        assert chat(screen).prompt.has_focus
        await screen.press("escape")
        assert not chat(screen).prompt.has_focus
        await screen.press("s", "i")
        assert chat(screen).prompt.has_focus


async def test_a_refusal_is_shown_and_the_question_comes_back() -> None:
    client = ScriptedClient(answer=[Overloaded("Every lane is busy.", hint="Try again in 1 s.")])
    async with dashboard(client) as screen:
        await ask(screen, "why")
        await screen.until(lambda: "✗ failed" in screen.text and "Every lane is busy." in screen.text)
        assert "Try again in 1 s." in screen.text
        await screen.until(lambda: chat(screen).prompt.text == "why")


async def test_without_a_model_the_question_stays() -> None:
    async with dashboard(ScriptedClient(state=bare())) as screen:
        await ask(screen, "hi")
        await screen.press("pageup", "pagedown")
        assert chat(screen).prompt.text == "hi"
        assert screen.toasts == ["No model is ready to chat. F2 loads one."]


async def test_new_lines_are_kept() -> None:
    async with dashboard(ScriptedClient(answer=REPLY)) as screen:
        await opened(screen)
        await screen.press("a", "ctrl+j", "b", "shift+enter", "c", "enter")
        await screen.until(lambda: bool(screen.client.asked))
        assert screen.client.asked[0][0][0]["content"] == "a\nb\nc"


async def test_copy_takes_the_answer_as_it_was_written() -> None:
    async with dashboard(ScriptedClient(answer=REPLY)) as screen:
        await ask(screen)
        await screen.until(lambda: "● done" in screen.text)
        await screen.press("escape", "y")
        assert screen.copied == "Hello **there**, friend.\n\n- one\n- two\n"


async def test_one_of_several_models_is_chosen() -> None:
    state = fold(*ready(OTHER), snapshot=fold(*ready(), snapshot=bare()))
    async with dashboard(ScriptedClient(state=state, answer=REPLY)) as screen:
        await opened(screen)
        assert "m: 2 models" in screen.text
        await screen.press("f4")
        assert isinstance(screen.app.screen, ChooseScreen)
        await screen.press("j", "enter")
        await ask(screen)
        await screen.until(lambda: bool(screen.client.asked))
        assert screen.client.asked[0][1] == OTHER


async def test_long_answers_are_followed_until_a_person_scrolls_up() -> None:
    lines = [ChatDelta(text=f"line {number}\n\n") for number in range(60)]
    client = ScriptedClient(answer=lines, hold=asyncio.Event())
    async with dashboard(client) as screen:
        await ask(screen)
        await screen.until(lambda: "line 59" in screen.text)
        await screen.press("pageup", "pageup")
        assert "line 59" not in screen.text
        assert client.hold is not None
        client.hold.set()
        await screen.until(lambda: idle(screen))
        await screen.pilot.pause()
        assert "line 59" not in screen.text


async def test_a_fast_stream_is_drawn_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = 0
    draw = Talk.draw_last

    def counted(talk: Talk) -> None:
        nonlocal drawn
        drawn += 1
        draw(talk)

    monkeypatch.setattr(Talk, "draw_last", counted)
    client = ScriptedClient(answer=[ChatDelta(text="word ") for _ in range(2000)])
    async with dashboard(client) as screen:
        await ask(screen)
        await screen.until(lambda: "● done" in screen.text)
        assert 0 < drawn < 40
        last = chat(screen).conversation.last
        assert last is not None
        assert len(last.answer.text) == 10_000


async def test_a_link_in_an_answer_is_copied_not_opened() -> None:
    client = ScriptedClient(answer=[ChatDelta(text="[papers](https://example.org/x), [there](file:///etc)")])
    async with dashboard(client) as screen:
        await ask(screen)
        await screen.until(lambda: "● done" in screen.text)
        await click_on(screen, "papers")
        assert screen.copied == "https://example.org/x"
        assert any("Copied the link" in each for each in screen.toasts)
        assert "[there](file:///etc)" in screen.text, "an address of a file is no link"


async def test_hostile_answers_are_text() -> None:
    hostile = "[red]not red[/] \x1b]0;owned\x07\x1b[2J \u202ereversed [link='x']y[/link] <script>\n\n"
    hostile += "$red [@click=app.quit]z[/]"
    async with dashboard(ScriptedClient(answer=[ChatDelta(text=hostile, reasoning=hostile)])) as screen:
        await ask(screen)
        await screen.until(lambda: "● done" in screen.text)
        assert "[red]not red[/]" in screen.text
        assert "[@click=app.quit]z[/]" in screen.text
        for each in ("\x1b", "\x07", "\u202e", "owned"):
            assert each not in screen.text
        await screen.press("escape", "t")
        await screen.pilot.pause()
        assert screen.text.count("[red]not red[/]") == 2
        assert screen.app.is_running


async def test_deeply_nested_markdown_does_not_stop_the_dashboard() -> None:
    deep = ">" * 3000 + " x\n\n" + "- " * 500 + "y\n\n" + "[" * 3000 + "\n\n" + "*" * 3000 + "\n"
    async with dashboard(ScriptedClient(answer=[ChatDelta(text=deep)])) as screen:
        await ask(screen)
        await screen.until(lambda: "● done" in screen.text, seconds=10)
        assert screen.app.is_running


async def test_models_that_come_while_answering_are_offered() -> None:
    client = ScriptedClient(answer=[ChatDelta(text="half")], hold=asyncio.Event(), state=serving())
    async with dashboard(client) as screen:
        await ask(screen)
        await screen.until(lambda: "half" in screen.text)
        for event in ready(OTHER):
            client.happen(event)
        await screen.until(lambda: "m: 2 models" in screen.text)


async def test_a_paste_arrives_once_and_is_cut_at_the_limit() -> None:
    async with dashboard() as screen:
        prompt = (await opened(screen)).prompt
        screen.app.post_message(events.Paste("two\nlines"))
        await screen.until(lambda: bool(prompt.text))
        await screen.pilot.pause()
        assert prompt.text == "two\nlines"
        screen.app.post_message(events.Paste("x" * (PROMPT_LIMIT + 5)))
        await screen.until(lambda: any("The paste was cut" in toast for toast in screen.toasts))
        await screen.pilot.pause()
        assert len(prompt.text) == PROMPT_LIMIT
