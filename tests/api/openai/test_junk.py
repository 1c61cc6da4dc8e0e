"""A valid body with junk in each of its places in turn: refused or answered, never a fault of the node."""

import copy
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from meshllm_core.api.openai.schema_chat import ChatRequest
from meshllm_core.api.openai.schema_completions import CompletionRequest
from meshllm_core.api.openai.schema_other import DetokenizeRequest, EmbeddingRequest, TokenizeRequest
from meshllm_core.api.openai.schema_responses import ResponsesRequest
from meshllm_core.api.openai.validation import Body, validate
from meshllm_core.errors import InvalidRequest
from tests.api.openai.conftest import MODEL, Endpoint, error_of, scripted, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

_FUNCTION = {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
_SAMPLING = {
    "model": MODEL,
    "temperature": 0.5,
    "top_k": 3,
    "seed": 1,
    "logit_bias": {"1": 2},
    "stream": True,
    "metadata": {"a": "b"},
}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        **_SAMPLING,
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "t"}], "name": "n"},
            {"role": "assistant", "content": None, "tool_calls": [_CALL]},
            {"role": "tool", "content": "x", "tool_call_id": "c"},
        ],
        "tools": [{"type": "function", "function": _FUNCTION}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "stop": ["a"],
        "stream_options": {"include_usage": True},
        "chat_template_kwargs": {"x": 1},
        "max_tokens": 5,
    },
    "/v1/completions": {**_SAMPLING, "prompt": [1, 2], "stop": "a", "logprobs": 1, "n": 1},
    "/v1/responses": {
        **_SAMPLING,
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "t"}]},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "h"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "x"},
        ],
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
        "reasoning": {"effort": "low"},
        "include": ["message.output_text.logprobs"],
        "top_logprobs": 1,
    },
    "/v1/embeddings": {"model": MODEL, "input": ["a"], "encoding_format": "float"},
    "/v1/tokenize": {"model": MODEL, "messages": [{"role": "user", "content": "x"}], "tools": []},
    "/v1/detokenize": {"model": MODEL, "tokens": [1]},
}
SCHEMAS: dict[str, type[Body]] = {
    "/v1/chat/completions": ChatRequest,
    "/v1/completions": CompletionRequest,
    "/v1/responses": ResponsesRequest,
    "/v1/embeddings": EmbeddingRequest,
    "/v1/tokenize": TokenizeRequest,
    "/v1/detokenize": DetokenizeRequest,
}
JUNK: list[Any] = [None, True, -1, 2**70, 1.5, "", "x", "{}", [], [None], [[]], {}, {"type": "x"}, {"": {}}]


def places(value: Any) -> Iterator[tuple[str | int, ...]]:
    """The paths to everything inside `value`."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (key,)
        yield from ((key, *rest) for rest in places(item))


def replaced(body: dict[str, Any], path: tuple[str | int, ...], junk: Any) -> dict[str, Any]:
    """A copy of `body` with `junk` at `path`."""
    result = copy.deepcopy(body)
    parent: Any = result
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = junk
    return result


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Endpoint]:
    async with serving({MODEL: scripted()}) as running:
        yield running


@pytest.mark.parametrize("path", BODIES)
async def test_junk_in_every_place(shared: Endpoint, path: str) -> None:
    schema = SCHEMAS[path]
    for place in places(BODIES[path]):
        for junk in JUNK:
            body = replaced(BODIES[path], place, junk)
            try:
                validate(schema, body)
            except InvalidRequest as error:
                assert error.param, (place, junk, error)
                continue
            # What the schema lets pass goes all the way.
            answer = await shared.post(path, body)
            assert answer.status_code in {200, 400, 404}, (place, junk, answer.text)
            if answer.status_code != 200:
                assert error_of(answer)["param"], (place, junk, answer.text)
