"""The official client against a real server: what it is given must be what it understands."""

import asyncio
import json

import msgspec
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import BaseModel

from meshllm_core.engine.types import PositionLogprobs, TokenLogprob
from meshllm_core.errors import EngineExited, Overloaded
from tests.api.openai.conftest import MODEL, Endpoint, scripted, serving
from tests.api.openai.test_chat import CALL
from tests.support.scripted_engine import FACTS, Piece, Script, ScriptedEngine

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hi"}]
TOOLS: list[ChatCompletionToolParam] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {"type": "object", "properties": {"town": {"type": "string"}}},
        },
    }
]


async def test_chat_and_models(endpoint: Endpoint) -> None:
    async with endpoint.sdk as sdk:
        answer = await sdk.chat.completions.create(model=MODEL, messages=MESSAGES)
        assert answer.choices[0].message.content == "Hello there."
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 3
        assert [model.id async for model in sdk.models.list()] == [MODEL]
        assert (await sdk.models.retrieve(MODEL)).owned_by == "meshllm"


async def test_stream(endpoint: Endpoint) -> None:
    async with endpoint.sdk as sdk:
        stream = await sdk.chat.completions.create(
            model=MODEL, messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == "Hello there."
    assert chunks[-1].usage is not None
    assert chunks[-2].choices[0].finish_reason == "stop"


def _synchronously(url: str) -> tuple[str | None, str]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as sdk:
        answer = sdk.chat.completions.create(model=MODEL, messages=MESSAGES)
        with sdk.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True) as stream:
            return answer.choices[0].message.content, "".join(
                chunk.choices[0].delta.content or "" for chunk in stream
            )


async def test_synchronous_client(endpoint: Endpoint) -> None:
    assert await asyncio.to_thread(_synchronously, endpoint.url) == ("Hello there.", "Hello there.")


async def test_tools_there_and_back() -> None:
    engine = ScriptedEngine([Script(steps=[CALL]), Script(steps=["It ", "rains."])])
    async with serving({MODEL: engine}) as endpoint, endpoint.sdk as sdk:
        first = await sdk.chat.completions.create(model=MODEL, messages=MESSAGES, tools=TOOLS)
        message = first.choices[0].message
        assert message.tool_calls is not None
        call = message.tool_calls[0]
        assert call.type == "function"
        assert json.loads(call.function.arguments) == {"town": "Oslo"}
        # The client's own message goes back as it is, with all its nulls.
        conversation: list[ChatCompletionMessageParam] = [
            *MESSAGES,
            message.model_dump(),  # type: ignore[list-item]
            {"role": "tool", "tool_call_id": call.id, "content": "rain"},
        ]
        second = await sdk.chat.completions.create(model=MODEL, messages=conversation, tools=TOOLS)
        assert second.choices[0].message.content == "It rains."


async def test_streamed_tools_are_put_together_by_the_client() -> None:
    async with (
        serving({MODEL: scripted(*CALL)}) as endpoint,
        endpoint.sdk as sdk,
        sdk.chat.completions.stream(model=MODEL, messages=MESSAGES, tools=TOOLS) as stream,
    ):
        async for _ in stream:
            pass
        (choice,) = (await stream.get_final_completion()).choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    assert json.loads(choice.message.tool_calls[0].function.arguments) == {"town": "Oslo"}


class Town(BaseModel):
    name: str
    people: int


async def test_json_schema_by_parse() -> None:
    engine = scripted('{"name":', '"Oslo","people":7}')
    async with serving({MODEL: engine}) as endpoint, endpoint.sdk as sdk:
        answer = await sdk.chat.completions.parse(model=MODEL, messages=MESSAGES, response_format=Town)
        assert answer.choices[0].message.parsed == Town(name="Oslo", people=7)
    assert json.loads(engine.requests[0].json_schema)["required"] == ["name", "people"]


async def test_logprobs() -> None:
    token = TokenLogprob(5, b"Hi", -0.1)
    async with (
        serving({MODEL: scripted(Piece("Hi", logprobs=(PositionLogprobs(token, (token,)),)))}) as endpoint,
        endpoint.sdk as sdk,
    ):
        answer = await sdk.chat.completions.create(
            model=MODEL, messages=MESSAGES, logprobs=True, top_logprobs=1
        )
        logprobs = answer.choices[0].logprobs
        assert logprobs is not None
        assert logprobs.content is not None
        assert (logprobs.content[0].token, logprobs.content[0].top_logprobs[0].logprob) == ("Hi", -0.1)
        text = await sdk.completions.create(model=MODEL, prompt="x", logprobs=1)
        assert text.choices[0].logprobs is not None
        assert text.choices[0].logprobs.tokens == ["Hi"]


async def test_embeddings_refused_or_made() -> None:
    facts = msgspec.structs.replace(FACTS, embeddings=True, generates=False)
    async with (
        serving({MODEL: scripted(), "vectors": ScriptedEngine(facts=facts)}) as endpoint,
        endpoint.sdk as sdk,
    ):
        with pytest.raises(openai.BadRequestError) as caught:
            await sdk.embeddings.create(model=MODEL, input="x")
        assert caught.value.code == "unsupported_model_feature"
        assert caught.value.param == "model"
        assert MODEL in str(caught.value)
        for encoding in ("float", "base64"):
            made = await sdk.embeddings.create(
                model="vectors",
                input=["a", "bc"],
                encoding_format=encoding,
            )
            assert made.usage.prompt_tokens == 3
            assert len(made.data) == 2
        default = await sdk.embeddings.create(model="vectors", input=[1, 2])
        assert default.data[0].embedding == [1.0, 0.0, 0.0, 0.0]


async def test_errors_are_the_clients_own_kinds() -> None:
    engine = scripted("Hel", EngineExited("The engine was killed by signal 9."))
    busy = scripted(refusal=Overloaded("Busy."))
    async with serving({MODEL: engine, "busy": busy}) as endpoint, endpoint.sdk as sdk:
        stream = await sdk.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
        text = ""
        with pytest.raises(openai.APIError, match="killed by signal 9") as caught:
            async for chunk in stream:
                text += chunk.choices[0].delta.content or ""
        assert text == "Hel"
        assert (caught.value.code, caught.value.type) == ("engine_exited", "server_error")
        with pytest.raises(openai.RateLimitError):
            await sdk.chat.completions.create(model="busy", messages=MESSAGES)
        with pytest.raises(openai.NotFoundError) as unknown:
            await sdk.chat.completions.create(model="nope", messages=MESSAGES)
        assert unknown.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError) as wrong:
            await sdk.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=9)
        assert wrong.value.param == "temperature"


async def test_the_client_waits_and_tries_again() -> None:
    engine = ScriptedEngine([Script(refusal=Overloaded("Busy.", retry_after=1)), Script()])
    async with serving({MODEL: engine}) as endpoint:
        sdk = openai.AsyncOpenAI(base_url=f"{endpoint.url}/v1", api_key="none", max_retries=1)
        async with sdk:
            answer = await sdk.chat.completions.create(model=MODEL, messages=MESSAGES)
    assert answer.choices[0].message.content == "Hello there."


async def test_responses() -> None:
    async with serving({MODEL: scripted()}) as endpoint, endpoint.sdk as sdk:
        answer = await sdk.responses.create(model=MODEL, input="Hi", instructions="Be brief.")
        assert answer.output_text == "Hello there."
        assert answer.usage is not None
        assert answer.usage.output_tokens == 3
        async with sdk.responses.stream(model=MODEL, input="Hi") as stream:
            async for _ in stream:
                pass
            assert (await stream.get_final_response()).output_text == "Hello there."
        # What came back goes in again.
        items = [item.model_dump() for item in answer.output]
        again = await sdk.responses.create(model=MODEL, input=[*items, {"role": "user", "content": "x"}])  # type: ignore[list-item]
        assert again.status == "completed"


async def test_responses_with_tools_and_schema() -> None:
    tool: openai.types.responses.FunctionToolParam = {
        "type": "function",
        "name": "weather",
        "parameters": {"type": "object"},
        "strict": False,
    }
    async with (
        serving({MODEL: scripted(CALL), "json": scripted('{"name":"Oslo","people":7}')}) as endpoint,
        endpoint.sdk as sdk,
    ):
        async with sdk.responses.stream(model=MODEL, input="Hi", tools=[tool]) as stream:
            kinds = [event.type async for event in stream]
            (call,) = (await stream.get_final_response()).output
        assert call.type == "function_call"
        assert json.loads(call.arguments) == {"town": "Oslo"}
        assert kinds[-1] == "response.completed"
        parsed = await sdk.responses.parse(model="json", input="Hi", text_format=Town)
        assert parsed.output_parsed == Town(name="Oslo", people=7)
