"""`/v1/chat/completions`, whole and streamed, down to its bytes."""

import json

import msgspec

from meshllm_core.engine.types import PositionLogprobs, TokenLogprob
from meshllm_core.errors import ContextLengthExceeded, EngineExited
from meshllm_core.state.events import RequestFinished, RequestStarted
from tests.api.openai.conftest import MODEL, Endpoint, chat_body, error_of, scripted, serving
from tests.support.scripted_engine import FACTS, Piece, ScriptedEngine

REQUEST_ID = "00000000-0000-4000-8000-00000000000a"
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a town.",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
    },
}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"town": "Oslo"}}\n</tool_call>'
THINKING = msgspec.structs.replace(
    FACTS, chat_template="{{ messages[0]['content'] }}{% if add_generation_prompt %}<think>{% endif %}"
)


async def golden(endpoint: Endpoint, **fields: object) -> list[str]:
    """The events of a streamed chat, without what is the same in each."""
    body = chat_body(stream=True, **fields)
    answer = await endpoint.post("/v1/chat/completions", body, **{"x-request-id": REQUEST_ID})
    assert answer.status_code == 200, answer.text
    created = answer.text.split('"created":')[1].split(",")[0]
    head = (
        'data: {"id":"chatcmpl-0000000000004000800000000000000a","object":"chat.completion.chunk",'
        f'"created":{created},"model":"scripted",'
    )
    *events, end, nothing = answer.text.split("\n\n")
    assert (end, nothing) == ("data: [DONE]", "")
    assert all(event.startswith(head) for event in events)
    return [event.removeprefix(head) for event in events]


def choice(delta: str) -> str:
    return '"choices":[{"index":0,"delta":' + delta + ',"finish_reason":null}]}'


TIMINGS = (
    '"timings":{"queue_ms":0.0,"cache_n":0,"prompt_n":52,"prompt_ms":1.0,"prompt_per_second":52000.0,'
    '"predicted_n":3,"predicted_ms":3.0,"predicted_per_second":666.667}}'
)


async def test_golden_stream(endpoint: Endpoint) -> None:
    events = await golden(endpoint, stream_options={"include_usage": True})
    assert events == [
        choice('{"role":"assistant"}'),
        choice('{"content":"Hello"}'),
        choice('{"content":" there"}'),
        choice('{"content":"."}'),
        '"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],' + TIMINGS,
        '"choices":[],"usage":{"prompt_tokens":52,"completion_tokens":3,"total_tokens":55,'
        '"prompt_tokens_details":{"cached_tokens":0}}}',
    ]


async def test_no_usage_unless_asked_for(endpoint: Endpoint) -> None:
    assert not any("usage" in event for event in await golden(endpoint))


async def test_golden_tool_call() -> None:
    async with serving({MODEL: scripted("I ask. ", CALL)}) as endpoint:
        events = await golden(endpoint, tools=[TOOL])
    assert events[:2] == [choice('{"role":"assistant"}'), choice('{"content":"I ask."}')]
    started = json.loads("{" + events[2])["choices"][0]["delta"]["tool_calls"][0]
    assert events[2] == choice(
        '{"tool_calls":[{"index":0,"id":"' + started["id"] + '","type":"function",'
        '"function":{"name":"weather","arguments":""}}]}'
    )
    pieces = [json.loads("{" + event)["choices"][0]["delta"]["tool_calls"][0] for event in events[3:-1]]
    assert all(set(piece) == {"index", "function"} for piece in pieces)
    assert json.loads("".join(piece["function"]["arguments"] for piece in pieces)) == {"town": "Oslo"}
    assert events[-1].startswith('"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]')


async def test_golden_reasoning() -> None:
    engine = scripted("Hm", ", yes.</think>", "\n\nYes.")
    engine.facts = THINKING
    async with serving({MODEL: engine}) as endpoint:
        events = await golden(endpoint, stream_options={"include_usage": True})
        whole = (await endpoint.chat()).json()
    deltas = [json.loads("{" + event)["choices"][0]["delta"] for event in events[1:-2]]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas).strip() == "Hm, yes."
    assert "".join(delta.get("content", "") for delta in deltas) == "Yes."
    usage = json.loads("{" + events[-1])["usage"]
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 2}
    message = whole["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"].strip()) == ("Yes.", "Hm, yes.")
    assert whole["usage"] == usage


async def test_line_breaks_that_only_python_sees_are_escaped() -> None:
    text = "a\u2028b\u2029c\x85d\x1ce\r\nf\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")
    async with serving({MODEL: scripted(text)}) as endpoint:
        events = await golden(endpoint)
    assert len(events[1].splitlines()) == 1
    assert json.loads("{" + events[1])["choices"][0]["delta"]["content"] == text


async def test_whole_answer(endpoint: Endpoint) -> None:
    answer = await endpoint.chat()
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert body["object"] == "chat.completion"
    assert body["model"] == MODEL
    assert body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello there."},
            "finish_reason": "stop",
        }
    ]
    assert body["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    assert "null" not in answer.text
    started, finished = endpoint.events
    assert isinstance(started, RequestStarted)
    assert isinstance(finished, RequestFinished)
    assert (started.route, finished.reason) == ("/v1/chat/completions", "stop")
    assert started.request == answer.headers["x-request-id"]


async def test_whole_tool_call_has_null_content_as_openai_has_it() -> None:
    async with serving({MODEL: scripted(CALL)}) as endpoint:
        (choice,) = (await endpoint.chat(tools=[TOOL])).json()["choices"]
    assert choice["finish_reason"] == "tool_calls"
    message = choice["message"]
    assert message["content"] is None
    (call,) = message["tool_calls"]
    assert (call["type"], call["function"]["name"]) == ("function", "weather")
    assert json.loads(call["function"]["arguments"]) == {"town": "Oslo"}
    assert set(call) == {"id", "type", "function"}


async def test_logprobs_of_all_tokens_arrive() -> None:
    token = TokenLogprob(1, "é".encode()[:1], -0.5)
    position = PositionLogprobs(token, (token,))
    steps = [
        Piece("", logprobs=(position,)),
        Piece("é", logprobs=(position,)),
        Piece("", logprobs=(position,)),
    ]
    view = {"token": "\ufffd", "logprob": -0.5, "bytes": [0xC3]}
    async with serving({MODEL: scripted(*steps)}) as endpoint:
        events = await golden(endpoint, logprobs=True, top_logprobs=1)
        whole = (await endpoint.chat(logprobs=True, top_logprobs=1)).json()
    found = [
        item
        for event in events
        for item in json.loads("{" + event)["choices"][0].get("logprobs", {}).get("content", [])
    ]
    assert found == [{**view, "top_logprobs": [view]}] * 3
    assert whole["choices"][0]["logprobs"] == {"content": found}


async def test_fields_reach_the_engine() -> None:
    engine = scripted()
    async with serving({MODEL: engine}) as endpoint:
        answer = await endpoint.chat(
            max_completion_tokens=2,
            stop=["A", "B"],
            logprobs=True,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": {"type": "array"}, "strict": True},
            },
            reasoning_effort="low",
            store=False,
            service_tier="auto",
            metadata={"a": "b"},
            prompt_cache_key="k",
            audio=None,
            modalities=["text"],
        )
        assert answer.json()["choices"][0]["finish_reason"] == "length"
    (asked,) = engine.requests
    assert asked.json_schema == '{"type":"array"}'
    assert (asked.max_tokens, asked.top_logprobs) == (2, 0)
    assert asked.stop[:2] == ("A", "B")


async def test_a_thought_is_free_before_a_form() -> None:
    engine = ScriptedEngine(facts=THINKING)
    async with serving({MODEL: engine}) as endpoint:
        assert (await endpoint.chat(response_format={"type": "json_object"})).status_code == 200
    (asked,) = engine.requests
    assert asked.json_schema == '{"type":"object"}'
    assert asked.grammar_triggers == ("</think>",)
    assert asked.grammar_prefix.startswith("</think>")


async def test_a_forced_tool_is_a_rule_for_the_engine() -> None:
    engine = scripted(CALL)
    async with serving({MODEL: engine}) as endpoint:
        named = {"type": "function", "function": {"name": "weather"}}
        for tool_choice in ("required", named, "none"):
            assert (await endpoint.chat(tools=[TOOL], tool_choice=tool_choice)).status_code == 200
    required, by_name, none = engine.requests
    assert '"weather"' in required.json_schema
    assert '"weather"' in by_name.json_schema
    assert none.json_schema == ""
    assert "weather" in required.prompt
    assert "weather" not in none.prompt


async def test_a_conversation_with_everything_in_it() -> None:
    engine = scripted()
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"town":"Oslo"}'},
    }
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "The"}, {"type": "text", "text": "weather?"}]},
        {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call], "annotations": []},
        {"role": "tool", "tool_call_id": "call_1", "content": "Rain"},
        {"role": "assistant", "content": "Rain.", "reasoning_content": "Hm.", "audio": None},
        {"role": "user", "content": "Thanks", "name": "Ann"},
    ]
    async with serving({MODEL: engine}) as endpoint:
        answer = await endpoint.chat(messages=messages, tools=[TOOL])
        assert answer.status_code == 200, answer.text
    prompt = engine.requests[0].prompt
    assert isinstance(prompt, str)
    for text in ("Be brief.", "The\nweather?", "Oslo", "Rain.", "Thanks"):
        assert text in prompt


async def test_errors_of_the_engine_keep_their_status() -> None:
    refusal = ContextLengthExceeded("The prompt has 5000 tokens, the context 4096.", param="messages")
    async with serving({MODEL: scripted(refusal=refusal)}) as endpoint:
        for stream in (True, False):
            answer = await endpoint.chat(stream=stream)
            assert answer.status_code == 400
            error = error_of(answer)
            assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")


async def test_an_engine_that_dies_ends_the_stream_with_an_error() -> None:
    engine = scripted("Hel", EngineExited("The engine was killed by signal 9.", hint="It restarts."))
    async with serving({MODEL: engine}) as endpoint:
        answer = await endpoint.chat(stream=True)
        assert answer.status_code == 200
        *_, last, nothing = answer.text.split("\n\n")
        assert nothing == ""
        assert last == (
            'data: {"error":{"message":"The engine was killed by signal 9. It restarts.",'
            '"type":"server_error","param":null,"code":"engine_exited"}}'
        )
        assert "[DONE]" not in answer.text
        whole = await endpoint.chat()
        assert (whole.status_code, error_of(whole)["code"]) == (503, "engine_exited")


async def test_one_call_at_a_time_where_that_is_asked_for() -> None:
    async with serving({MODEL: scripted(CALL, "\n", CALL)}) as endpoint:
        both = (await endpoint.chat(tools=[TOOL])).json()["choices"][0]
        one = (await endpoint.chat(tools=[TOOL], parallel_tool_calls=False)).json()["choices"][0]
    assert len(both["message"]["tool_calls"]) == 2
    (call,) = one["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"town": "Oslo"}
    assert one["finish_reason"] == "tool_calls"
