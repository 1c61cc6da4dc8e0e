"""From the body of `POST /api/actions/<name>` to the node's own action."""

import re
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from meshllm_core.api.schema import ActionSpec
from meshllm_core.errors import InvalidRequest, PayloadTooLarge, RequestCancelled

BODY_LIMIT = 64 * 1024
"""Bytes of a body; arguments are a few names and numbers."""
DRAIN_LIMIT = 1024 * 1024
"""Bytes of a body that is too large which are still taken, unread: most clients only then read the answer."""

_FIELD = re.compile(r"`\$\.?([^`]*)`\s*$")
_NAMED_FIELD = re.compile(r"field `([^`]+)`")

Act = Callable[[str, dict[str, object]], Awaitable[dict[str, object]]]


async def perform(
    actions: Mapping[str, ActionSpec], act: Act, name: str, request: Request
) -> dict[str, object]:
    """Checks the body against the action's schema and does it.

    Raises HTTPException 404 for an unknown name, InvalidRequest naming the field, PayloadTooLarge, and
    whatever the action raises.
    """
    spec = actions.get(name)
    if spec is None:
        known = ", ".join(sorted(actions))
        raise HTTPException(404, f"There is no action {name[:80]!r}. Known: {known}.")
    return await act(name, decode_arguments(spec, await _read_body(request)))


def decode_arguments(spec: ActionSpec, body: bytes) -> dict[str, object]:
    """The arguments that were given, checked; absent optional ones stay absent."""
    try:
        decoded = msgspec.json.decode(body.strip() or b"{}", type=spec.arguments)
    except msgspec.ValidationError as error:
        text, field = sentence_of(error)
        raise InvalidRequest(
            f"{spec.name}: {text}", hint="GET /api/actions lists the arguments.", param=field
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(
            f"{spec.name}: the body is not JSON: {error}.", hint="Send one JSON object, in UTF-8."
        ) from None
    return {name: value for name, value in msgspec.structs.asdict(decoded).items() if value is not None}


async def _read_body(request: Request) -> bytes:
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced[:18]) > BODY_LIMIT:
        raise _too_large()
    body = bytearray()
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > DRAIN_LIMIT:
                break
            if size <= BODY_LIMIT:
                body += chunk
    except ClientDisconnect:
        raise RequestCancelled("The client went away before the body was complete.") from None
    if size > BODY_LIMIT:
        raise _too_large()
    return bytes(body)


def _too_large() -> PayloadTooLarge:
    return PayloadTooLarge(
        f"The body is larger than {BODY_LIMIT // 1024} KiB.", hint="Send only the arguments."
    )


def sentence_of(error: msgspec.ValidationError) -> tuple[str, str | None]:
    """msgspec's message in the words of the rest (`$.ctx_size` is the field ctx_size), and the field."""
    text = str(error)
    found = _FIELD.search(text) or _NAMED_FIELD.search(text)
    field = found.group(1)[:200] or None if found else None
    return text.replace("`$.", "`").replace(" - at `$`", "").rstrip(".") + ".", field
