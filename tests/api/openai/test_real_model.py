"""The official client, the endpoint, a real engine process and a real model, all the way."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from meshllm_core.engine.supervisor import EngineProcess
from tests.api.openai.conftest import MODEL, Endpoint, error_of, serving
from tests.support.engines import running_engine

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module")]

QUESTION: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hi"}]
TOOLS: list[ChatCompletionToolParam] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather in a town.",
            "parameters": {
                "type": "object",
                "properties": {"town": {"type": "string", "enum": ["Oslo", "Rome"]}},
                "required": ["town"],
            },
        },
    }
]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EngineProcess]:
    async with running_engine(tmp_path_factory.mktemp("engine"), context=256) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def real(engine: EngineProcess) -> AsyncIterator[Endpoint]:
    async with serving({MODEL: engine}) as running:
        yield running


async def _create(sdk: openai.AsyncOpenAI, **fields: Any) -> Any:
    settings = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 16}
    return await sdk.chat.completions.create(**{**settings, **fields})


async def test_streamed_and_whole_answers_are_the_same(real: Endpoint) -> None:
    async with real.sdk as sdk:
        whole = await _create(sdk)
        text = ""
        async for chunk in await _create(sdk, stream=True, stream_options={"include_usage": True}):
            text += chunk.choices[0].delta.content or "" if chunk.choices else ""
    assert text.startswith("Hello")
    assert text == whole.choices[0].message.content
    assert chunk.usage.prompt_tokens == whole.usage.prompt_tokens
    assert chunk.usage.prompt_tokens_details.cached_tokens > 0


async def test_stop_strings_and_end_of_text_leave_no_trace(real: Endpoint) -> None:
    async with real.sdk as sdk:
        stopped = (await _create(sdk, stop=["llo"])).choices[0]
        ended = (await _create(sdk, max_tokens=40)).choices[0]
    assert (stopped.finish_reason, stopped.message.content) == ("stop", "He")
    assert ended.finish_reason == "stop"
    assert "<|im_end|>" not in ended.message.content


async def test_json_schema_holds(real: Endpoint) -> None:
    async with real.sdk as sdk:
        form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
        answer = await _create(sdk, response_format=form, max_tokens=60)
        person = json.loads(answer.choices[0].message.content)
    assert set(person) == {"name", "age"}
    assert isinstance(person["age"], int)


async def test_a_forced_tool_is_called(real: Endpoint) -> None:
    async with real.sdk as sdk:
        answer = await _create(sdk, tools=TOOLS, tool_choice="required", max_tokens=60)
    (choice,) = answer.choices
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments)["town"] in {"Oslo", "Rome"}


async def test_logprobs_and_bias(real: Endpoint) -> None:
    async with real.sdk as sdk:
        answer = await _create(sdk, logprobs=True, top_logprobs=3, max_tokens=4)
        content = answer.choices[0].logprobs.content
        assert len(content) == 4
        assert all(len(position.top_logprobs) == 3 for position in content)
        assert all(position.logprob <= 0 for position in content)
        first = content[0]
        assert first.token == first.top_logprobs[0].token
        tokens = (await real.post("/v1/tokenize", {"model": MODEL, "content": first.token})).json()["tokens"]
        banned = await _create(sdk, logit_bias={str(tokens[0]): -100}, max_tokens=4)
    assert not banned.choices[0].message.content.startswith(first.token)


async def test_responses_and_embeddings(real: Endpoint) -> None:
    async with real.sdk as sdk:
        answer = await sdk.responses.create(model=MODEL, input="Hi", temperature=0, max_output_tokens=16)
        assert answer.output_text.startswith("Hello")
        with pytest.raises(openai.BadRequestError, match=MODEL):
            await sdk.embeddings.create(model=MODEL, input="x")


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"messages": [{"role": "user", "content": "word " * 300}]}, "context_length_exceeded", "messages"),
        ({"grammar": "root ::= ("}, "invalid_value", "grammar"),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "a", "schema": {"type": "nothing"}},
                }
            },
            "invalid_value",
            "response_format.json_schema.schema",
        ),
        ({"logit_bias": {"49152": 1}}, "invalid_value", "logit_bias.49152"),
    ],
    ids=["too long", "bad grammar", "bad schema", "token outside"],
)
async def test_what_only_the_engine_can_refuse(
    real: Endpoint, fields: dict[str, object], code: str, param: str
) -> None:
    for stream in (False, True):
        answer = await real.chat(**{"max_tokens": 4, "stream": stream, **fields})
        error = error_of(answer)
        assert (answer.status_code, error["code"], error["param"]) == (400, code, param), error
    assert (await real.chat(max_tokens=1)).status_code == 200


async def test_prompts_up_to_the_context_and_one_more(real: Endpoint) -> None:
    full = await real.post("/v1/completions", {"model": MODEL, "prompt": [5] * 255, "max_tokens": 5})
    assert full.json()["choices"][0]["finish_reason"] == "length"
    over = await real.post("/v1/completions", {"model": MODEL, "prompt": [5] * 257})
    assert (error_of(over)["code"], error_of(over)["param"]) == ("context_length_exceeded", "prompt")


async def test_a_client_that_goes_away_frees_its_lane(real: Endpoint) -> None:
    async with real.sdk as sdk:
        for _ in range(3):  # more than there are lanes
            stream = await _create(sdk, stream=True, max_tokens=200, extra_body={"ignore_eos": True})
            await anext(aiter(stream))
            await stream.close()
        async with asyncio.timeout(2):
            await _create(sdk, max_tokens=1)


async def test_a_killed_engine_ends_the_stream_with_an_error(real: Endpoint, engine: EngineProcess) -> None:
    """Last in this file: the engine is gone after it."""
    async with real.sdk as sdk:
        stream = await _create(sdk, stream=True, max_tokens=200, extra_body={"ignore_eos": True})
        with pytest.raises(openai.APIError) as caught:
            async for chunk in stream:
                if chunk.choices[0].delta.content:
                    os.kill(engine.pid, signal.SIGKILL)
        assert caught.value.code == "engine_exited"
    assert (await real.http.get("/health")).status_code == 200
