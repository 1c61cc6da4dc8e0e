"""What the routes answer, as structs that leave out what is absent, and text as JSON.

OpenAI's own nulls are kept in three places, because clients read them by name: `finish_reason` of a
chunk, `content` of a message that only calls tools, and `param` and `code` of an error.
"""

from typing import Any, Literal
from urllib.parse import quote

import msgspec

from meshllm_core.engine.types import Finished, PositionLogprobs, TokenLogprob
from meshllm_core.serve.served import ServedBy

_LINE_BREAKS = (
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
    ("\x85".encode(), b"\\u0085"),
)


def json_bytes(value: object) -> bytes:
    """JSON that is safe in a line of a stream.

    Clients that split a stream with `str.splitlines` also split at characters that JSON leaves alone.
    """
    encoded = msgspec.json.encode(value)
    if not encoded.isascii():
        for raw, escaped in _LINE_BREAKS:
            encoded = encoded.replace(raw, escaped)
    return encoded


class PromptDetails(msgspec.Struct, frozen=True):
    """`cached_tokens`: how many were already in the KV cache."""

    cached_tokens: int


class CompletionDetails(msgspec.Struct, frozen=True):
    """`reasoning_tokens`: only for models that think."""

    reasoning_tokens: int


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Tokens of a request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails | None = None


class TimingsView(msgspec.Struct, frozen=True):
    """Where the time went, in milliseconds and tokens per second; the names are llama-server's."""

    queue_ms: float
    cache_n: int
    prompt_n: int
    """Tokens of the prompt that were computed, so without the cached ones."""
    prompt_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_second: float


def usage_of(finished: Finished, reasoning_tokens: int | None = None) -> Usage:
    """The usage of a request; `reasoning_tokens` is None where nobody knows."""
    return Usage(
        prompt_tokens=finished.prompt_tokens,
        completion_tokens=finished.completion_tokens,
        total_tokens=finished.prompt_tokens + finished.completion_tokens,
        prompt_tokens_details=PromptDetails(finished.cached_tokens),
        completion_tokens_details=None if reasoning_tokens is None else CompletionDetails(reasoning_tokens),
    )


def timings_of(finished: Finished) -> TimingsView:
    """The timings of a request. The first token belongs to the prompt's time, so it is not in the rate."""
    times = finished.timings
    computed = finished.prompt_tokens - finished.cached_tokens
    return TimingsView(
        queue_ms=round(times.queue_ms, 3),
        cache_n=finished.cached_tokens,
        prompt_n=computed,
        prompt_ms=round(times.prefill_ms, 3),
        prompt_per_second=_rate(computed, times.prefill_ms),
        predicted_n=finished.completion_tokens,
        predicted_ms=round(times.decode_ms, 3),
        predicted_per_second=_rate(finished.completion_tokens - 1, times.decode_ms),
    )


def _rate(tokens: int, milliseconds: float) -> float:
    return round(max(0, tokens) * 1000 / milliseconds, 3) if milliseconds > 0 else 0.0


class FunctionText(msgspec.Struct, omit_defaults=True):
    """A function that is called; in a stream the arguments come in pieces."""

    name: str = ""
    arguments: str | None = None


class CallView(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A tool call, or a piece of one; `index` is only in streams."""

    index: int | None = None
    id: str = ""
    type: Literal["function", ""] = ""
    function: FunctionText


SERVED_BY = "x-meshllm-served-by"
"""Header: who computed an answer, as `NAME ID`: the name percent-encoded, the id's first ten digits."""
PENDING = "pending"
"""Its value in a stream whose headers had to leave before a node had begun."""


class ServedView(msgspec.Struct, frozen=True):
    """Who computed an answer (an extension, the field `meshllm`)."""

    served_by: str
    """The node's name."""
    node: str
    """Its id, hexadecimal."""
    route: Literal["local", "mesh"]
    hops: int


def served_headers(served: ServedBy | None) -> dict[str, str]:
    """The header of an answer; none where the node has neither name nor id."""
    if served is None:
        return {SERVED_BY: PENDING}
    if not (served.name or served.node):
        return {}
    return {SERVED_BY: f"{quote(served.name, safe='')} {served.node[:10]}".rstrip()}


def served_field(served: ServedBy | None) -> dict[str, ServedView]:
    """The field of an answer, by its name; empty where the node has neither name nor id."""
    if served is None or not (served.name or served.node):
        return {}
    return {"meshllm": ServedView(served.name, served.node, served.route, served.hops)}


def chat_logprobs(positions: tuple[PositionLogprobs, ...] | list[PositionLogprobs]) -> dict[str, Any]:
    """`logprobs` of a chat choice."""
    return {
        "content": [
            {**_token(position.chosen), "top_logprobs": [_token(other) for other in position.top]}
            for position in positions
        ]
    }


def _token(token: TokenLogprob) -> dict[str, Any]:
    text = token.text.decode("utf-8", "replace")
    return {"token": text, "logprob": finite(token.logprob), "bytes": list(token.text)}


def finite(logprob: float) -> float:
    """A log probability that JSON can carry: that of an impossible token is -9999, as OpenAI has it."""
    return max(logprob, -9999.0)


def completion_logprobs(positions: list[PositionLogprobs], offset: int, alternatives: int) -> dict[str, Any]:
    """`logprobs` of a text choice; `offset` is how many characters came before."""
    texts = [position.chosen.text.decode("utf-8", "replace") for position in positions]
    offsets = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    result: dict[str, Any] = {
        "tokens": texts,
        "token_logprobs": [finite(position.chosen.logprob) for position in positions],
        "text_offset": offsets,
    }
    if alternatives:
        result["top_logprobs"] = [
            {other.text.decode("utf-8", "replace"): finite(other.logprob) for other in position.top}
            for position in positions
        ]
    return result
