"""`/v1/responses`: items, and the events that announce them in their order."""

import json
from typing import Any

from meshllm_core.errors import EngineExited
from tests.api.openai.conftest import MODEL, Endpoint, scripted, serving
from tests.api.openai.test_chat import CALL, THINKING

TOOL = {
    "type": "function",
    "name": "weather",
    "description": "The weather in a town.",
    "parameters": {"type": "object", "properties": {"town": {"type": "string"}}},
    "strict": None,
}


def body(**fields: object) -> dict[str, object]:
    return {"model": MODEL, "input": "Hi", **fields}


async def events_of(endpoint: Endpoint, **fields: object) -> list[dict[str, Any]]:
    answer = await endpoint.post("/v1/responses", body(stream=True, **fields))
    assert answer.status_code == 200, answer.text
    *blocks, nothing = answer.text.split("\n\n")
    assert nothing == ""
    events = []
    for block in blocks:
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


async def test_order_of_the_events_of_a_text(endpoint: Endpoint) -> None:
    events = await events_of(endpoint)
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    added, part, delta = events[2:5]
    assert added["item"] == {
        "id": added["item"]["id"],
        "type": "message",
        "status": "in_progress",
        "role": "assistant",
        "content": [],
    }
    assert part["part"] == {"type": "output_text", "text": "", "annotations": []}
    assert (delta["item_id"], delta["output_index"], delta["content_index"]) == (added["item"]["id"], 0, 0)
    assert events[7]["text"] == "Hello there."
    last = events[-1]["response"]
    assert last["status"] == "completed"
    assert last["output"] == [events[9]["item"]]
    assert last["usage"]["output_tokens"] == 3
    assert "null" not in json.dumps(events)


async def test_thought_text_and_call_are_three_items() -> None:
    engine = scripted("Hm.</think>", "I ask. ", CALL)
    engine.facts = THINKING
    async with serving({MODEL: engine}) as endpoint:
        events = await events_of(endpoint, tools=[TOOL])
        whole = (await endpoint.post("/v1/responses", body(tools=[TOOL]))).json()
    kinds = [event["item"]["type"] for event in events if event["type"] == "response.output_item.done"]
    assert kinds == ["reasoning", "message", "function_call"]
    types = [event["type"] for event in events]
    assert "response.reasoning_text.delta" in types
    arguments = [e for e in events if e["type"] == "response.function_call_arguments.delta"]
    done = next(e for e in events if e["type"] == "response.function_call_arguments.done")
    assert "".join(event["delta"] for event in arguments) == done["arguments"]
    assert json.loads(done["arguments"]) == {"town": "Oslo"}
    assert {event["output_index"] for event in arguments} == {2}
    reasoning, message, call = whole["output"]
    assert reasoning["content"][0]["text"].strip() == "Hm."
    assert message["content"][0]["text"] == "I ask."
    assert (call["name"], call["status"]) == ("weather", "completed")
    assert call["call_id"].startswith("call_")
    assert whole["usage"]["output_tokens_details"]["reasoning_tokens"] == 1


async def test_a_cut_answer_is_incomplete() -> None:
    async with serving({MODEL: scripted()}) as endpoint:
        events = await events_of(endpoint, max_output_tokens=1)
        assert events[-1]["type"] == "response.incomplete"
        response = events[-1]["response"]
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}
        assert response["output"][0]["status"] == "incomplete"


async def test_a_failure_is_the_last_event() -> None:
    engine = scripted("Hel", EngineExited("The engine was killed by signal 9."))
    async with serving({MODEL: engine}) as endpoint:
        events = await events_of(endpoint)
    assert events[-1]["type"] == "response.failed"
    response = events[-1]["response"]
    assert response["error"] == {"code": "server_error", "message": "The engine was killed by signal 9."}
    assert response["status"] == "failed"


async def test_a_whole_conversation_as_input() -> None:
    engine = scripted()
    items = [
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "Hm"}],
        },
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "status": "completed",
            "content": [{"type": "output_text", "text": "I ask.", "annotations": [], "logprobs": []}],
        },
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"town":"Oslo"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "Rain"},
    ]
    async with serving({MODEL: engine}) as endpoint:
        settings = {
            "instructions": "You are a buoy.",
            "tools": [TOOL],
            "store": False,
            "metadata": {"a": "b"},
            "temperature": 0,
            "previous_response_id": None,
        }
        answer = await endpoint.post("/v1/responses", body(input=items, **settings))
        assert answer.status_code == 200, answer.text
        response = answer.json()
    assert response["instructions"] == "You are a buoy."
    assert (response["metadata"], response["temperature"], response["store"]) == ({"a": "b"}, 0, False)
    assert response["tools"][0]["name"] == "weather"
    prompt = engine.requests[0].prompt
    assert isinstance(prompt, str)
    places = [prompt.index(text) for text in ("You are a buoy.", "Weather?", "I ask.", "Oslo", "Rain")]
    assert places == sorted(places)


async def test_json_form_reaches_the_engine() -> None:
    engine = scripted()
    async with serving({MODEL: engine}) as endpoint:
        form = {"type": "json_schema", "name": "n", "schema": {"type": "array"}, "strict": True}
        answer = await endpoint.post("/v1/responses", body(text={"format": form}))
        assert answer.json()["text"] == {"format": form}
    assert engine.requests[0].json_schema == '{"type":"array"}'
