"""A whole answer: thought, then content, then tool calls, with the right finish reason."""

import os

from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.engine.types import StopReason
from meshllm_core.serve.deltas import ChatDelta, ChatStream
from meshllm_core.serve.reasoning import ReasoningTags
from meshllm_core.serve.tools import Dialect, ToolSpec
from meshllm_core.state.events import FinishReason
from tests.serve.joined import Joined, cuts, join, pieces

THINK = ReasoningTags("<think>", "</think>")
TOOLS = (ToolSpec("get_time"),)
CALL = '<tool_call>\n{"name": "get_time", "arguments": {"zone": "CET"}}\n</tool_call>'


def run(
    text: str,
    *,
    tools: tuple[ToolSpec, ...] = TOOLS,
    reason: StopReason = "stop",
    opened: bool = False,
    places: list[int] | None = None,
) -> tuple[Joined, FinishReason]:
    stream = ChatStream(
        entropy=os.urandom,
        tools=tools,
        dialect=Dialect.HERMES,
        reasoning=THINK,
        opened_reasoning=opened,
    )
    deltas: list[ChatDelta] = []
    for piece in pieces(text, places or []):
        deltas += stream.feed(piece)
    end = stream.finish(reason)
    return join(deltas + end.deltas), end.reason


def test_thought_content_and_call() -> None:
    joined, reason = run(f"Which zone?\n</think>\n\nI look.\n{CALL}", opened=True)
    assert joined.reasoning == "Which zone?"
    assert joined.content == "I look."
    assert joined.calls == [("get_time", '{"zone": "CET"}')]
    assert reason == "tool_calls"


def test_call_ids_are_unique_and_of_the_usual_form() -> None:
    joined, _ = run(CALL * 3)
    assert len(set(joined.ids)) == 3
    for call_id in joined.ids:
        prefix, digits = call_id.split("_")
        assert prefix == "call"
        assert len(digits) == 24
        int(digits, 16)


def test_a_call_that_is_cut_off_ends_for_length() -> None:
    joined, reason = run(CALL[:60], reason="length")
    assert joined.names == ["get_time"]
    assert reason == "length"


def test_without_calls_the_engine_says_why_it_ended() -> None:
    assert run("Hello.")[1] == "stop"
    assert run("Hello.", reason="cancelled")[1] == "cancelled"


def test_without_tools_a_call_is_content() -> None:
    joined, reason = run(CALL, tools=())
    assert (joined.content, joined.names, reason) == (CALL, [], "stop")


def test_a_thought_about_calls_is_no_call() -> None:
    joined, _ = run(f"<think>{CALL}</think>No.")
    assert (joined.reasoning, joined.content, joined.names) == (CALL, "No.", [])


PARTS = st.sampled_from(["<think>", "</think>", CALL, "<tool_call>", "{", "}", "\n", " ", "word", "<"])


@given(text=st.lists(PARTS, max_size=10).map("".join), opened=st.booleans(), places=cuts)
def test_any_cutting_gives_the_same(text: str, opened: bool, places: list[int]) -> None:
    whole, reason = run(text, opened=opened)
    for chosen in (places, list(range(len(text)))):
        cut, cut_reason = run(text, opened=opened, places=chosen)
        assert (cut.reasoning, cut.content, cut.calls) == (whole.reasoning, whole.content, whole.calls)
        assert cut_reason == reason
