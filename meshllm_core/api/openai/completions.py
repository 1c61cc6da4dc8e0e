"""`POST /v1/completions`: a text is continued, without a template."""

import time
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from meshllm_core.api.openai.context import (
    Edge,
    Job,
    json_response,
    request_id,
    session_of,
    while_connected,
)
from meshllm_core.api.openai.schema_completions import CompletionRequest
from meshllm_core.api.openai.streaming import DONE
from meshllm_core.api.openai.translate import sampling_of, stops_of
from meshllm_core.api.openai.wire import completion_logprobs, json_bytes, timings_of, usage_of
from meshllm_core.engine.types import (
    Delta,
    Finished,
    GenerationRequest,
    ModelFacts,
    PositionLogprobs,
    Started,
)
from meshllm_core.errors import InvalidRequest, RequestCancelled


async def completions(request: Request) -> Response:
    """Continue a text, streamed or whole."""
    edge = Edge.of(request)
    body = await edge.read(request, CompletionRequest)
    model, engine = await edge.resolve_generating(body.model)
    prompt = check_tokens(body.single_prompt, engine.facts, "prompt")
    generation = GenerationRequest(
        request_id=request_id(request),
        prompt=prompt,
        max_tokens=edge.settings.default_max_tokens if body.max_tokens is None else body.max_tokens,
        sampling=sampling_of(body, engine.facts),
        stop=stops_of(body.stop),
        grammar=body.grammar or "",
        top_logprobs=body.logprobs,
        ignore_eos=bool(body.ignore_eos),
        session=session_of(body.user),
    )
    job = Job(edge, model, engine, generation, request.url.path, int(time.time()), {"messages": "prompt"})
    if body.stream:
        usage = bool(body.stream_options and body.stream_options.include_usage)
        return edge.stream(_events(job, with_usage=usage), headers=job.answered.headers)
    answer = await while_connected(request, _collect(job))
    return json_response(answer, job.answered.headers())


def check_tokens(prompt: str | tuple[int, ...], facts: ModelFacts, param: str) -> str | tuple[int, ...]:
    """`prompt`, if all its token ids exist. Raises InvalidRequest."""
    if not isinstance(prompt, str) and (wrong := max(prompt)) >= facts.vocabulary:
        raise InvalidRequest(
            f"Token {wrong} is not in the vocabulary of {facts.vocabulary} tokens.",
            hint="Token ids are those of this model's own /v1/tokenize.",
            param=param,
        )
    return prompt


def _finish(chunk: Finished) -> Finished:
    if chunk.reason == "cancelled":
        raise RequestCancelled("The node gave the request up.", hint="Send it again.")
    return chunk


async def _events(job: Job, *, with_usage: bool) -> AsyncGenerator[bytes, None]:
    identity = json_bytes(
        {
            "id": job.answer_id("cmpl-"),
            "object": "text_completion",
            "created": job.created,
            "model": job.model.id,
        }
    )[:-1]
    head = b"data: " + identity + b',"choices":[{"index":0,"text":'
    tail = b',"finish_reason":null}]}\n\n'
    alternatives = job.generation.top_logprobs
    offset = 0
    async with job.chunks() as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Delta) and (chunk.text or chunk.logprobs):
                logprobs = b""
                if alternatives is not None:
                    view = completion_logprobs(list(chunk.logprobs), offset, alternatives)
                    logprobs = b',"logprobs":' + json_bytes(view)
                    offset += len(chunk.text)
                yield head + json_bytes(chunk.text) + logprobs + tail
            elif isinstance(chunk, Started):
                job.answered.begun(chunk)
            elif isinstance(chunk, Finished):
                yield _ending(job, _finish(chunk), identity, with_usage=with_usage) + DONE


def _ending(job: Job, finished: Finished, identity: bytes, *, with_usage: bool) -> bytes:
    choice = {"index": 0, "text": "", "finish_reason": finished.reason}
    last = {"choices": [choice], "timings": timings_of(finished), **job.answered.field()}
    text = b"data: " + identity + b"," + json_bytes(last)[1:] + b"\n\n"
    if with_usage:
        usage = {"choices": [], "usage": usage_of(finished)}
        text += b"data: " + identity + b"," + json_bytes(usage)[1:] + b"\n\n"
    return text


async def _collect(job: Job) -> dict[str, Any]:
    texts: list[str] = []
    logprobs: list[PositionLogprobs] = []
    finished: Finished | None = None
    async with job.chunks() as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Delta):
                texts.append(chunk.text)
                logprobs += chunk.logprobs
            elif isinstance(chunk, Started):
                job.answered.begun(chunk)
            else:
                finished = _finish(chunk)
    assert finished is not None, "an engine ends with Finished or an error"
    choice: dict[str, Any] = {"index": 0, "text": "".join(texts), "finish_reason": finished.reason}
    if job.generation.top_logprobs is not None:
        choice["logprobs"] = completion_logprobs(logprobs, 0, job.generation.top_logprobs)
    return {
        "id": job.answer_id("cmpl-"),
        "object": "text_completion",
        "created": job.created,
        "model": job.model.id,
        "choices": [choice],
        "usage": usage_of(finished),
        "timings": timings_of(finished),
        **job.answered.field(),
    }
