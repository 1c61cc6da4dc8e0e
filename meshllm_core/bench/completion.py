"""One streamed completion, timed: what is sent, and when which part of the answer arrived."""

import asyncio
import json
import time
from dataclasses import dataclass, replace
from typing import Any, Literal

from meshllm_core.bench.endpoint import Endpoint
from meshllm_core.bench.http import Exchange, connect, fetch_json, refusal
from meshllm_core.errors import EngineTimeout, InvalidRequest, ModelUnknown, RequestError

Route = Literal["completions", "chat"]
_PATHS: dict[Route, str] = {"completions": "/completions", "chat": "/chat/completions"}


@dataclass(frozen=True)
class Target:
    """A server, a model and how to ask it."""

    endpoint: Endpoint
    model: str
    route: Route = "completions"
    ignore_eos: bool = True
    """Whether the server is asked to go on past the end-of-text token (an extension that some refuse)."""
    timeout: float = 300.0
    """Seconds that one request may take."""


@dataclass(frozen=True)
class Timing:
    """One request's figures. Instants are seconds of `time.perf_counter`."""

    sent: float
    first: float
    """Arrival of the first text."""
    ended: float
    """Arrival of the last event that carries a choice: the answer is over."""
    longest_gap: float
    """Longest wait between two events after the first text, in seconds."""
    events: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int

    @property
    def time_to_first_token(self) -> float:
        """Seconds from the request to the first text."""
        return self.first - self.sent

    @property
    def prompt_rate(self) -> float | None:
        """Prompt tokens computed (cached ones left out) per second until the first text."""
        computed = self.prompt_tokens - self.cached_tokens
        return computed / self.time_to_first_token if self.time_to_first_token > 0 else None

    @property
    def decode_rate(self) -> float | None:
        """Tokens after the first per second after the first; None for answers of one token."""
        seconds = self.ended - self.first
        return (self.completion_tokens - 1) / seconds if self.completion_tokens > 1 and seconds > 0 else None


async def find_target(
    endpoint: Endpoint, model: str | None, *, route: Route = "completions", timeout: float = 300.0
) -> Target:
    """Settles the model: the one that is named, else the only one served.

    Raises ModelUnknown, InvalidRequest (several are served), and what fetch_json raises.
    """
    listing = await fetch_json(endpoint, "/models", timeout=timeout)
    data = listing.get("data")
    entries = data if isinstance(data, list) else []
    names = [str(entry["id"]) for entry in entries if isinstance(entry, dict) and "id" in entry]
    if model is None and len(names) > 1:
        hint = f"Choose with --model: {', '.join(names[:20])}."
        raise InvalidRequest(f"{endpoint.url} serves {len(names)} models.", hint=hint)
    if model is None and not names:
        raise ModelUnknown(f"{endpoint.url} serves no model.", hint="Load one, or name one with --model.")
    return Target(endpoint, model or names[0], route, timeout=timeout)


async def complete(target: Target, prompt: str, max_tokens: int) -> Timing:
    """Sends one request and times its stream.

    Raises RequestError (refused, broken off, or no usage reported), EngineTimeout, NodeNotRunning.
    """
    path = _PATHS[target.route]
    body = json.dumps(_body(target, prompt, max_tokens), separators=(",", ":")).encode()
    try:
        async with asyncio.timeout(target.timeout), connect(target.endpoint) as exchange:
            sent = time.perf_counter()
            await exchange.send("POST", path, body)
            status = await exchange.status()
            if status != 200:
                raise refusal(target.endpoint, path, status, await exchange.text())
            return await _read_stream(exchange, sent, target.endpoint.url)
    except TimeoutError as error:
        raise EngineTimeout(
            f"{target.endpoint.url} did not finish a request within {target.timeout:g} s.",
            hint="Ask for fewer tokens, or give a longer --timeout.",
        ) from error


async def settle_extensions(target: Target, prompt: str) -> tuple[Target, Timing]:
    """The target as the server takes it (without `ignore_eos` where it refuses that), and a first answer."""
    try:
        return target, await complete(target, prompt, 1)
    except RequestError as error:
        if error.http_status not in (400, 422) or "ignore_eos" not in error.message or not target.ignore_eos:
            raise
    plain = replace(target, ignore_eos=False)
    return plain, await complete(plain, prompt, 1)


def _body(target: Target, prompt: str, max_tokens: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": target.model,
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if target.route == "chat":
        body["messages"] = [{"role": "user", "content": prompt}]
    else:
        body["prompt"] = prompt
    if target.ignore_eos:
        body["ignore_eos"] = True
    return body


async def _read_stream(exchange: Exchange, sent: float, url: str) -> Timing:
    """Only the events up to the first text and those with usage are decoded: the rest is only counted."""
    first = ended = longest_gap = 0.0
    events = 0
    usage: dict[str, Any] | None = None
    async for data in exchange.events():
        now = time.perf_counter()
        if data == b"[DONE]":
            break
        if first and b'"usage":' not in data and b'"error":' not in data:
            events += 1
            longest_gap = max(longest_gap, now - ended)
            ended = now
            continue
        event = _decode(data, url)
        usage = event.get("usage") or usage
        if not event.get("choices"):
            continue
        if first or _has_text(event):
            events += 1
            longest_gap = max(longest_gap, now - ended) if first else 0.0
            first, ended = first or now, now
    if not first:
        raise RequestError(f"{url} ended a stream without any text.", hint="Ask for more tokens.")
    prompt_tokens, cached_tokens, completion_tokens = _counts(usage, url)
    return Timing(sent, first, ended, longest_gap, events, prompt_tokens, cached_tokens, completion_tokens)


def _decode(data: bytes, url: str) -> dict[str, Any]:
    try:
        event = json.loads(data)
    except ValueError as error:
        raise RequestError(f"{url} streamed an event that is not JSON: {data[:100]!r}.") from error
    if not isinstance(event, dict):
        raise RequestError(f"{url} streamed an event that is not an object: {data[:100]!r}.")
    if event.get("error"):
        failure = event["error"]
        words = failure.get("message") if isinstance(failure, dict) else failure
        raise RequestError(f"{url} failed in the middle of a stream: {words}")
    return event


def _has_text(event: dict[str, Any]) -> bool:
    choices = event["choices"]
    choice = choices[0] if isinstance(choices, list) and isinstance(choices[0], dict) else {}
    delta = choice.get("delta")
    parts = delta if isinstance(delta, dict) else {}
    return bool(
        choice.get("text")
        or parts.get("content")
        or parts.get("reasoning_content")
        or parts.get("reasoning")
        or parts.get("tool_calls")
    )


def _counts(usage: object, url: str) -> tuple[int, int, int]:
    """Prompt, cached and completion tokens of a usage object."""
    if not isinstance(usage, dict):
        raise RequestError(
            f"{url} reports no usage at the end of a stream, so its tokens cannot be counted.",
            hint="It must support stream_options.include_usage.",
        )
    details = usage.get("prompt_tokens_details")
    values = (
        usage.get("prompt_tokens"),
        details.get("cached_tokens", 0) if isinstance(details, dict) else 0,
        usage.get("completion_tokens"),
    )
    if not all(isinstance(value, int) and 0 <= value < 2**31 for value in values):
        raise RequestError(f"{url} reports a usage that makes no sense: {usage}.")
    prompt_tokens, cached_tokens, completion_tokens = values
    return int(prompt_tokens or 0), int(cached_tokens or 0), int(completion_tokens or 0)
