"""`POST /v1/responses`: the newer form of chat, with items and typed events. Nothing is stored."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from meshllm_core.api.openai.chat_run import ChatRun, Wanted, start_run
from meshllm_core.api.openai.context import SCHEMA, Edge, Job, json_response, session_of, while_connected
from meshllm_core.api.openai.response_items import AnyEvent, Output
from meshllm_core.api.openai.schema_responses import ResponsesNamedChoice, ResponsesRequest
from meshllm_core.api.openai.translate_responses import responses_conversation
from meshllm_core.api.openai.wire import json_bytes, timings_of
from meshllm_core.errors import MeshError


async def responses(request: Request) -> Response:
    """Answer an input, streamed or whole."""
    edge = Edge.of(request)
    body = await edge.read(request, ResponsesRequest)
    schema = "tools" if body.tools else "text.format.schema"
    wanted = Wanted(
        names={"prompt": "input", "messages": "input", SCHEMA: schema},
        max_tokens=body.max_output_tokens,
        top_logprobs=(body.top_logprobs or 0) if body.include else None,
        session=session_of(body.prompt_cache_key, body.user),
    )
    run = await start_run(request, body, responses_conversation(body), wanted)
    answer, answered = _Answer(body, run), run.job.answered
    if body.stream:
        return edge.stream(answer.events(), failure=answer.failed, headers=answered.headers)
    whole = await while_connected(request, answer.whole())
    return json_response(whole, answered.headers())


class _Answer:
    """One answer, as events or as a whole."""

    def __init__(self, body: ResponsesRequest, run: ChatRun) -> None:
        self._run = run
        self._head = _head(body, run.job)
        self._output = Output(run.job.generation.request_id.replace("-", ""))
        self._sequence = 0

    async def events(self) -> AsyncGenerator[bytes, None]:
        """The stream: created, in_progress, the items' own events, completed or incomplete."""
        async with aclosing(self._run.deltas()) as batches:
            async for deltas in batches:
                if not deltas:
                    opening = {"response": self._response("in_progress")}
                    kinds = ("response.created", "response.in_progress")
                    yield b"".join(self._encode({"type": kind, **opening}) for kind in kinds)
                for index, delta in enumerate(deltas):
                    logprobs = self._run.take_logprobs() if index == len(deltas) - 1 else []
                    yield b"".join(map(self._encode, self._output.feed(delta, logprobs)))
        status = self._status()
        last = b"".join(map(self._encode, self._output.close(status)))
        yield last + self._encode({"type": f"response.{status}", "response": self._response(status)})

    def failed(self, error: MeshError) -> bytes:
        """The last event of a stream that failed."""
        codes = {429: "rate_limit_exceeded", 400: "invalid_prompt"}
        fault = {"code": codes.get(error.http_status, "server_error"), "message": str(error)}
        response = {**self._response("failed"), "error": fault}
        return self._encode({"type": "response.failed", "response": response})

    async def whole(self) -> dict[str, Any]:
        """The answer when it is complete."""
        async with aclosing(self._run.deltas()) as batches:
            async for deltas in batches:
                for index, delta in enumerate(deltas):
                    logprobs = self._run.take_logprobs() if index == len(deltas) - 1 else []
                    self._output.feed(delta, logprobs)
        status = self._status()
        self._output.close(status)
        return self._response(status)

    def _status(self) -> str:
        return "incomplete" if self._run.finish_reason == "length" else "completed"

    def _response(self, status: str) -> dict[str, Any]:
        response = {**self._head, "status": status, "output": self._output.items}
        if status == "incomplete":
            response["incomplete_details"] = {"reason": "max_output_tokens"}
        finished = self._run.finished
        if finished is not None:
            response["usage"] = {
                "input_tokens": finished.prompt_tokens,
                "input_tokens_details": {"cached_tokens": finished.cached_tokens},
                "output_tokens": finished.completion_tokens,
                "output_tokens_details": {"reasoning_tokens": self._run.reasoning_tokens or 0},
                "total_tokens": finished.prompt_tokens + finished.completion_tokens,
            }
            response["timings"] = timings_of(finished)
            response |= self._run.job.answered.field()
        return response

    def _encode(self, event: AnyEvent) -> bytes:
        kind: str = event["type"]
        data = json_bytes({**event, "sequence_number": self._sequence})
        self._sequence += 1
        return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


def _head(body: ResponsesRequest, job: Job) -> dict[str, Any]:
    """What is the same in every view of a response: the request's own settings, where it had any."""
    tool_choice: Any = body.tool_choice or "auto"
    if isinstance(tool_choice, ResponsesNamedChoice):
        tool_choice = tool_choice.model_dump()
    text = body.text.model_dump(exclude_none=True, by_alias=True) if body.text else {}
    settings = {
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "metadata": body.metadata,
        "reasoning": body.reasoning.model_dump(exclude_none=True) if body.reasoning else None,
        "temperature": body.temperature,
        "top_logprobs": body.top_logprobs,
        "top_p": body.top_p,
        "user": body.user,
    }
    return {
        "id": job.answer_id("resp_"),
        "object": "response",
        "created_at": job.created,
        "model": job.model.id,
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "store": False,
        "text": text or {"format": {"type": "text"}},
        "tool_choice": tool_choice,
        "tools": [tool.model_dump(exclude_none=True) for tool in body.tools or []],
        "truncation": "disabled",
        **{name: value for name, value in settings.items() if value is not None},
    }
