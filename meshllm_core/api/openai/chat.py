"""`POST /v1/chat/completions`."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from meshllm_core.api.openai.chat_run import ChatRun, Wanted, start_run
from meshllm_core.api.openai.context import SCHEMA, Edge, json_response, session_of, while_connected
from meshllm_core.api.openai.schema_chat import ChatRequest
from meshllm_core.api.openai.streaming import DONE
from meshllm_core.api.openai.translate import chat_conversation, stops_of
from meshllm_core.api.openai.wire import (
    CallView,
    FunctionText,
    chat_logprobs,
    json_bytes,
    timings_of,
    usage_of,
)
from meshllm_core.serve.deltas import (
    ChatDelta,
    ContentDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallStarted,
)


async def chat_completions(request: Request) -> Response:
    """Answer a conversation, streamed or whole."""
    edge = Edge.of(request)
    body = await edge.read(request, ChatRequest)
    wanted = Wanted(
        names={"prompt": "messages"} | ({SCHEMA: "tools"} if body.tools else {}),
        max_tokens=body.max_completion_tokens or body.max_tokens,
        top_logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        stop=stops_of(body.stop),
        grammar=body.grammar or "",
        session=session_of(body.prompt_cache_key, body.user),
    )
    run = await start_run(request, body, chat_conversation(body), wanted)
    if body.stream:
        usage = bool(body.stream_options and body.stream_options.include_usage)
        events = _events(run, with_logprobs=bool(body.logprobs), with_usage=usage)
        return edge.stream(events, headers=run.job.answered.headers)
    answer = await while_connected(request, _collect(run, with_logprobs=bool(body.logprobs)))
    return json_response(answer, run.job.answered.headers())


async def _events(run: ChatRun, *, with_logprobs: bool, with_usage: bool) -> AsyncGenerator[bytes, None]:
    """The chunks of a streamed answer. Its shape is written by hand: this runs once for each token."""
    job = run.job
    identity = json_bytes(
        {
            "id": job.answer_id("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": job.created,
            "model": job.model.id,
        }
    )
    head = b"data: " + identity[:-1] + b',"choices":[{"index":0,"delta":'
    tail = b',"finish_reason":null}]}\n\n'
    content_head, content_tail = head + b'{"content":', b"}" + tail
    async with aclosing(run.deltas()) as batches:
        async for deltas in batches:
            if not deltas:
                yield head + b'{"role":"assistant"}' + tail
            elif run.logprobs and with_logprobs:
                logprobs = b',"logprobs":' + json_bytes(chat_logprobs(run.take_logprobs()))
                pieces = [head + encode_delta(delta) + tail for delta in deltas[:-1]]
                yield b"".join([*pieces, head, encode_delta(deltas[-1]), logprobs, tail])
            else:
                for delta in deltas:
                    if type(delta) is ContentDelta:
                        yield content_head + json_bytes(delta.text) + content_tail
                    else:
                        yield head + encode_delta(delta) + tail
    yield _ending(run, identity, with_usage=with_usage) + DONE


def _ending(run: ChatRun, identity: bytes, *, with_usage: bool) -> bytes:
    choice: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": run.finish_reason}
    if run.logprobs:
        choice["logprobs"] = chat_logprobs(run.take_logprobs())
    start = b"data: " + identity[:-1]
    last = {"choices": [choice], "timings": timings_of(run.outcome), **run.job.answered.field()}
    text = start + b"," + json_bytes(last)[1:] + b"\n\n"
    if with_usage:
        usage = {"choices": [], "usage": usage_of(run.outcome, run.reasoning_tokens)}
        text += start + b"," + json_bytes(usage)[1:] + b"\n\n"
    return text


def encode_delta(delta: ChatDelta) -> bytes:
    """The JSON of `delta` in a chunk."""
    match delta:
        case ContentDelta(text):
            return b'{"content":' + json_bytes(text) + b"}"
        case ReasoningDelta(text):
            return b'{"reasoning_content":' + json_bytes(text) + b"}"
        case ToolCallStarted(index, call_id, name):
            call = CallView(index=index, id=call_id, type="function", function=FunctionText(name, ""))
        case ToolCallArguments(index, fragment):
            call = CallView(index=index, function=FunctionText(arguments=fragment))
    return b'{"tool_calls":[' + json_bytes(call) + b"]}"


async def _collect(run: ChatRun, *, with_logprobs: bool) -> dict[str, Any]:
    """The answer as a whole."""
    content: list[str] = []
    reasoning: list[str] = []
    calls: list[CallView] = []
    async with aclosing(run.deltas()) as batches:
        async for deltas in batches:
            for delta in deltas:
                match delta:
                    case ContentDelta(text):
                        content.append(text)
                    case ReasoningDelta(text):
                        reasoning.append(text)
                    case ToolCallStarted(_, call_id, name):
                        function = FunctionText(name, "")
                        calls.append(CallView(id=call_id, type="function", function=function))
                    case ToolCallArguments(index, fragment):
                        function = calls[index].function
                        function.arguments = (function.arguments or "") + fragment
    message: dict[str, Any] = {"role": "assistant", "content": "".join(content) or (None if calls else "")}
    if reasoning:
        message["reasoning_content"] = "".join(reasoning)
    if calls:
        message["tool_calls"] = calls
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": run.finish_reason}
    if with_logprobs:
        choice["logprobs"] = chat_logprobs(run.logprobs)
    return {
        "id": run.job.answer_id("chatcmpl-"),
        "object": "chat.completion",
        "created": run.job.created,
        "model": run.job.model.id,
        "choices": [choice],
        "usage": usage_of(run.outcome, run.reasoning_tokens),
        "timings": timings_of(run.outcome),
        **run.job.answered.field(),
    }
