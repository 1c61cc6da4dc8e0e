"""Tool calls are found in any pieces of text, streamed, and given back as text when they are none."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meshllm_core.serve.chunks import ChatDelta, ContentDelta, ToolCallArguments, ToolCallStarted
from meshllm_core.serve.tools import Dialect
from meshllm_core.serve.tools.parsers import parser_for
from tests.serve.joined import Counter, Joined, cuts, join, pieces

NAMES = ("get_weather", "get_time", "a.b-c")
WEATHER = '{"city": "Zürich 🌦", "days": [1, -2.5e3, true, null], "deep": {"x": {"y": "}]{\\""}}}'
ALL = list(Dialect)


def run(dialect: Dialect, text: str, *, places: list[int] | None = None) -> Joined:
    parser = parser_for(dialect, NAMES, Counter())
    deltas: list[ChatDelta] = []
    for piece in pieces(text, places or []):
        deltas += parser.feed(piece)
    return join(deltas + parser.finish())


def one_call(dialect: Dialect, name: str = "get_weather", arguments: str = WEATHER) -> str:
    match dialect:
        case Dialect.HERMES:
            return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
        case Dialect.LLAMA3:
            return f'{{"name": "{name}", "parameters": {arguments}}}'
        case Dialect.MISTRAL:
            return f'[TOOL_CALLS] [{{"name": "{name}", "arguments": {arguments}}}]'
        case Dialect.MISTRAL_ARGS:
            return f"[TOOL_CALLS]{name}[ARGS]{arguments}"


@pytest.mark.parametrize("dialect", ALL)
def test_one_call(dialect: Dialect) -> None:
    joined = run(dialect, one_call(dialect))
    assert joined.calls == [("get_weather", WEATHER)]
    assert joined.content == ""
    assert joined.ids == ["call_" + "0" * 23 + "1"]


PARALLEL = [
    (Dialect.HERMES, one_call(Dialect.HERMES) + "\n" + one_call(Dialect.HERMES, "get_time", "{}")),
    (Dialect.HERMES, one_call(Dialect.HERMES) + one_call(Dialect.HERMES, "get_time", "{}") + "\n"),
    (
        Dialect.HERMES,
        f'<tool_call>{{"name": "get_weather", "arguments": {WEATHER}}}\n'
        '{"name": "get_time", "arguments": {}}</tool_call>',
    ),
    (Dialect.LLAMA3, one_call(Dialect.LLAMA3) + "; " + one_call(Dialect.LLAMA3, "get_time", "{}")),
    (
        Dialect.LLAMA3,
        f"<|python_tag|>{one_call(Dialect.LLAMA3)}<|python_tag|>{one_call(Dialect.LLAMA3, 'get_time', '{}')}",
    ),
    (
        Dialect.MISTRAL,
        f'[TOOL_CALLS] [{{"name": "get_weather", "arguments": {WEATHER}, "id": "abcdefghi"}}, '
        '{"name": "get_time", "arguments": {}}]',
    ),
    (
        Dialect.MISTRAL_ARGS,
        f"[TOOL_CALLS]get_weather[CALL_ID]abcdefghi[ARGS]{WEATHER}[TOOL_CALLS]get_time[ARGS]{{}}",
    ),
    (Dialect.MISTRAL_ARGS, f"[TOOL_CALLS]get_weather{WEATHER}[TOOL_CALLS]get_time{{}}"),
]


@pytest.mark.parametrize(("dialect", "text"), PARALLEL)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_several_calls(dialect: Dialect, text: str, size: int) -> None:
    joined = run(dialect, text, places=list(range(0, len(text), size)))
    assert joined.calls == [("get_weather", WEATHER), ("get_time", "{}")]
    assert joined.content == ""
    assert len(set(joined.ids)) == 2


@pytest.mark.parametrize("dialect", [Dialect.HERMES, Dialect.MISTRAL, Dialect.MISTRAL_ARGS])
def test_text_around_a_call_is_content(dialect: Dialect) -> None:
    joined = run(dialect, f"Let me look.\n\n{one_call(dialect)}\n\nThere.")
    assert joined.content == "Let me look.There."
    assert joined.calls == [("get_weather", WEATHER)]


def test_arguments_stream_while_they_are_written() -> None:
    parser = parser_for(Dialect.HERMES, NAMES, Counter())
    assert parser.feed('<tool_call>{"name": "get_weather", "argu') == []
    assert parser.feed('ments": {"ci') == [
        ToolCallStarted(0, "call_" + "0" * 23 + "1", "get_weather"),
        ToolCallArguments(0, '{"ci'),
    ]
    assert parser.feed('ty": "R') == [ToolCallArguments(0, 'ty": "R')]
    assert parser.feed('ome"}}</tool') == [ToolCallArguments(0, 'ome"}')]
    assert parser.feed("_call>") == []
    assert parser.finish() == []


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"arguments": {"a": 1}, "name": "get_time"}', '{"a": 1}'),
        ('{"name": "get_time"}', "{}"),
        ('{"name": "get_time", "arguments": null}', "{}"),
        ('{"name": "get_time", "arguments": "{\\"a\\": 1}"}', '{"a": 1}'),
        ('{"id": "x1", "type": "function", "name": "get_time", "arguments": {}}', "{}"),
        ('{"name": "get\\u005ftime", "arguments": {}}', "{}"),
        ('{"name": "get_time", "arguments": {"code": "a\nb\t"}}', '{"code": "a\\u000ab\\u0009"}'),
        ('{"name": "get_time", "arguments": {"a": 1}}}', '{"a": 1}'),
        ('{"name": "get_time", "arguments": {"a": 1}', '{"a": 1}'),
    ],
)
def test_slips_that_leave_the_call_clear(text: str, arguments: str) -> None:
    joined = run(Dialect.HERMES, f"<tool_call>\n{text}\n</tool_call>")
    assert joined.calls == [("get_time", arguments)]
    assert joined.content == ""
    assert isinstance(json.loads(joined.arguments[0]), dict)


NOT_CALLS = [
    (Dialect.HERMES, "<tool_call>"),
    (Dialect.HERMES, "a < b, <tool, <tool_cal>, </tool_call>"),
    (Dialect.HERMES, "<tool_call>\nget_weather\n</tool_call>"),
    (Dialect.HERMES, '  <tool_call>{"name": "get_weather", "arguments": oops}</tool_call> '),
    (Dialect.HERMES, '<tool_call>{"name": "rm_rf", "arguments": {}}</tool_call>'),
    (Dialect.HERMES, '<tool_call>{"name": "get_weather", "arguments": [1]}</tool_call>'),
    (Dialect.HERMES, '<tool_call>{"name": "get_weather", "arguments": "no"}</tool_call>'),
    (Dialect.HERMES, '<tool_call>{"name": 7, "arguments": {}}</tool_call>'),
    (Dialect.HERMES, '<tool_call>{"nam": 7}</tool_call>'),
    (Dialect.HERMES, '<tool_call>{"arguments": {}}</tool_call>'),
    (Dialect.HERMES, '<tool_call>{"name": "get_weather"'),
    (Dialect.HERMES, '<tool_call>{"name": "get_weather", "arguments": 01}'),
    (Dialect.LLAMA3, '{"city": "Rome"}'),
    (Dialect.LLAMA3, '{"name": "Rome", "parameters": {}}'),
    (Dialect.LLAMA3, '<|python_tag|>brave_search.call(query="x")'),
    (Dialect.LLAMA3, '\n\n{"type": "object"}'),
    (Dialect.LLAMA3, 'Like {"name": "get_time", "parameters": {}}'),
    (Dialect.MISTRAL, "[TOOL_CALLS] []"),
    (Dialect.MISTRAL, "[TOOL_CALLS] [1, 2]"),
    (Dialect.MISTRAL, "[TOOL_CALLS][[{}]]"),
    (Dialect.MISTRAL, "a [1] [TOOL_CALL] b"),
    (Dialect.MISTRAL_ARGS, "[TOOL_CALLS]rm_rf[ARGS]{}"),
    (Dialect.MISTRAL_ARGS, "[TOOL_CALLS]get_time[ARG]{}"),
    (Dialect.MISTRAL_ARGS, "[TOOL_CALLS]get_time" + " " * 300),
]


@pytest.mark.parametrize(("dialect", "text"), NOT_CALLS)
@pytest.mark.parametrize("size", [1, 2, 1000])
def test_what_is_no_call_is_content_to_the_last_character(dialect: Dialect, text: str, size: int) -> None:
    joined = run(dialect, text, places=list(range(0, len(text), size)))
    assert joined.calls == []
    assert joined.content == text


def test_a_call_behind_a_false_start_is_found() -> None:
    joined = run(Dialect.HERMES, f"<tool_call>{one_call(Dialect.HERMES, 'get_time', '{}')}")
    assert joined.content == "<tool_call>"
    assert joined.calls == [("get_time", "{}")]


def test_arguments_that_break_are_passed_on_as_written() -> None:
    text = '<tool_call>{"name": "get_time", "arguments": {"a": 1, b: 2}}\n</tool_call>\n' + one_call(
        Dialect.HERMES
    )
    joined = run(Dialect.HERMES, text)
    assert joined.calls == [("get_time", '{"a": 1, b: 2}}'), ("get_weather", WEATHER)]
    assert joined.content == ""


def test_arguments_that_are_cut_off_keep_what_came() -> None:
    joined = run(Dialect.HERMES, '<tool_call>{"name": "get_time", "arguments": {"a": "b')
    assert joined.calls == [("get_time", '{"a": "b')]
    assert joined.content == ""


def test_content_is_not_withheld() -> None:
    parser = parser_for(Dialect.LLAMA3, NAMES, Counter())
    assert parser.feed('{"ci') == [ContentDelta('{"ci')]
    parser = parser_for(Dialect.HERMES, NAMES, Counter())
    assert parser.feed("a <tool") == [ContentDelta("a")]
    assert parser.feed("s") == [ContentDelta(" <tools")]
    assert join(parser.feed("\n" * 1000)).content == "\n" * (1000 - 64)
    assert join(parser.feed("<tool_call>" + '{"arguments": "' + "x" * 20_000)).content.endswith("x" * 3000)


FRAGMENTS = st.sampled_from(
    [
        *("<tool_call>", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[", "]"),
        *("{", "}", ",", ";", ":", " ", "\n", '"', "\\", "<", "</", "x", "hello ", "1", "-", "null", "e"),
        *('{"name": "get_time", "arguments": ', '{"name": "get_', 'time", "parameters": {}}', "get_time"),
        *('"name"', '"arguments"', '"parameters"', '"id": 3,', "{}", WEATHER, '{"a": [1, 2}', "\n" * 70),
        *(one_call(dialect, "get_time", '{"a": "b"}') for dialect in Dialect),
    ]
)
TEXTS = st.lists(FRAGMENTS | st.text(max_size=3), max_size=14).map("".join)


@given(dialect=st.sampled_from(ALL), text=TEXTS, places=cuts)
@example(Dialect.HERMES, '<tool_call>{"name": "get_time", "arguments": {}}\n</tool', [3, 50])
@example(Dialect.HERMES, '<tool_call>{"name": "get_time", "arguments": {}x', [46, 47])
def test_any_cutting_gives_the_same(dialect: Dialect, text: str, places: list[int]) -> None:
    whole = run(dialect, text)
    assert run(dialect, text, places=places) == whole
    assert run(dialect, text, places=list(range(len(text)))) == whole
    assert set(whole.names) <= set(NAMES)
    if not whole.names:
        assert whole.content == text


@given(
    dialect=st.sampled_from(ALL),
    value=st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    ),
    places=cuts,
)
def test_any_arguments_come_through(dialect: Dialect, value: object, places: list[int]) -> None:
    arguments = json.dumps({"value": value}, ensure_ascii=False)
    joined = run(dialect, one_call(dialect, arguments=arguments), places=places)
    assert [json.loads(text) for text in joined.arguments] == [{"value": value}]
    assert joined.content == ""
