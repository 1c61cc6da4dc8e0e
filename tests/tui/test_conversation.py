"""A chat's turns and figures."""

import asyncio

import pytest

from meshllm_core.api.client import ChatDelta
from meshllm_core.errors import MeshError, Overloaded
from meshllm_tui.chat_words import figures
from meshllm_tui.conversation import ANSWER_LIMIT, TURNS_KEPT, Answer, Conversation, stream_answer
from meshllm_tui.present import plain
from tests.tui.samples import ScriptedClient


async def answer_of(client: ScriptedClient) -> tuple[Answer, int]:
    times = iter(float(tick) for tick in range(1, 10_000))
    answer = Answer(model="m", asked_at=0.5)
    changes = 0

    def changed() -> None:
        nonlocal changes
        changes += 1

    await stream_answer(client, [{"role": "user", "content": "hi"}], answer, changed, lambda: next(times))
    return answer, changes


async def test_figures_of_an_answer() -> None:
    pieces = [
        ChatDelta(reasoning="hm"),
        ChatDelta(text="Hel"),
        ChatDelta(text="lo"),
        ChatDelta(finish_reason="stop"),
        ChatDelta(completion_tokens=5),
    ]
    answer, changes = await answer_of(ScriptedClient(answer=pieces))
    assert (answer.text, answer.reasoning, answer.state) == ("Hello", "hm", "done")
    assert answer.first_token_ms == 500.0
    assert answer.tokens_per_second == 2.0
    assert plain([figures(answer)]) == "● done  5 tokens  2.0 tok/s  first token 500 ms"
    assert changes == 6


async def test_a_refusal_keeps_what_came() -> None:
    pieces: list[ChatDelta | MeshError] = [
        ChatDelta(text="some"),
        Overloaded("Every lane is busy.", hint="Try again."),
    ]
    answer, _ = await answer_of(ScriptedClient(answer=pieces))
    assert (answer.state, answer.text) == ("failed", "some")
    assert (answer.error, answer.hint) == ("Every lane is busy.", "Try again.")


async def test_cancelling_stops_the_request() -> None:
    client = ScriptedClient(answer=[ChatDelta(text="some")], hold=asyncio.Event())
    answer = Answer(model="m")
    came = asyncio.Event()
    task = asyncio.create_task(stream_answer(client, [], answer, came.set))
    await came.wait()
    assert plain([figures(answer)]).endswith("Esc stops it")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert answer.state == "stopped"
    assert client.cancelled


async def test_an_answer_without_end_is_stopped() -> None:
    client = ScriptedClient(answer=[ChatDelta(text="x" * 50_000)] * 1000)
    answer, changes = await answer_of(client)
    assert ANSWER_LIMIT < len(answer.text) <= ANSWER_LIMIT + 50_000
    assert answer.finish_reason == "length"
    assert changes < 20


async def test_pieces_are_cleaned() -> None:
    answer, _ = await answer_of(ScriptedClient(answer=[ChatDelta(text="\x1b[31mred\u202e\x07")]))
    assert answer.text == "red"


def test_messages_leave_out_questions_that_got_no_answer() -> None:
    talk = Conversation()
    _, first = talk.ask("one", "m", 0.0)
    first.answer.text = "1"
    _, second = talk.ask("two", "m", 0.0)
    second.answer.fail("no", "")
    messages, _ = talk.ask("three", "m", 0.0)
    assert [message["content"] for message in messages] == ["one", "1", "three"]


def test_turns_are_bounded() -> None:
    talk = Conversation()
    for number in range(TURNS_KEPT + 5):
        talk.ask(str(number), "m", 0.0)
    assert len(talk.turns) == TURNS_KEPT
    assert talk.turns[0].question == "5"
