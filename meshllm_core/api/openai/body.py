"""A request body, from the socket to a JSON object: bounded, strict, and never a server error.

`json` alone is not enough at this edge: it takes NaN, keeps the last of two equal keys, recurses as
deep as the sender likes, and passes on half of a surrogate pair that no tokenizer can encode.
"""

import asyncio
import json
import re
from collections import Counter
from itertools import accumulate, count
from operator import sub
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from meshllm_core.errors import InvalidRequest, PayloadTooLarge, RequestCancelled

MAX_DEPTH = 64
MAX_CONTAINERS = 100_000
"""Objects and arrays in a body: each costs far more time and memory than the two bytes it is sent as."""
MAX_NUMBER_LENGTH = 64
"""Characters; no field of the API needs more, and Python's own limit is a traceback away."""
_THREAD_FROM_BYTES = 64 * 1024
"""Larger bodies are parsed beside the event loop, which has streams to serve."""
_DISCARD_FACTOR = 16
"""Up to this many times the limit is read and thrown away, so that the client lives to read the 413."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_OPEN_IS_TWO = bytes.maketrans(b"[]{}", b"\x02\x00\x02\x00")
_NOT_BRACKETS = bytes(b for b in range(256) if b not in b"[]{}")
_RISKY_ESCAPE = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)")


async def read_json(request: Request, limit: int) -> dict[str, Any]:
    """The JSON object in the body of `request`, at most `limit` bytes long.

    The content type is not looked at: many clients get it wrong. Raises InvalidRequest, PayloadTooLarge,
    and RequestCancelled when the client leaves meanwhile.
    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"", "identity"}:
        raise InvalidRequest(
            f"The body is encoded as {encoding[:40]!r}.", hint="Send it without Content-Encoding."
        )
    data = await _read(request, limit)
    if len(data) < _THREAD_FROM_BYTES:
        return parse_object(data)
    return await asyncio.to_thread(parse_object, data)


async def _read(request: Request, limit: int) -> bytes:
    declared = request.headers.get("content-length", "")
    length = int(declared) if declared.isdecimal() and len(declared) < 20 else 0
    if length > limit and ("expect" in request.headers or length > limit * _DISCARD_FACTOR):
        raise _too_large(limit)
    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size <= limit:
                pieces.append(piece)
            elif size > limit * _DISCARD_FACTOR:
                break
            else:
                pieces.clear()
    except ClientDisconnect as error:
        raise RequestCancelled("The client went away before its request was complete.") from error
    if size > limit:
        raise _too_large(limit)
    return b"".join(pieces)


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"The request body is larger than {limit} bytes.", hint="Send less, or raise the node's limit."
    )


def parse_object(data: bytes) -> dict[str, Any]:
    """The JSON object that `data` holds. Raises InvalidRequest, with `param` where a field is at fault."""
    if not data.strip():
        raise InvalidRequest("The request body is empty.", hint="Send a JSON object.")
    if data.startswith(b"\xef\xbb\xbf"):
        raise InvalidRequest("The body starts with a byte order mark.", hint="Send UTF-8 without one.")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"The body is not UTF-8: byte {error.start} is wrong.") from error
    check_shape(data)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise InvalidRequest(
            f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from error
    if not isinstance(value, dict):
        raise InvalidRequest(f"The body must be a JSON object, not {_json_name(value)}.")
    if _RISKY_ESCAPE.search(data):
        _check_texts(value, "")
    return value


def check_shape(data: bytes) -> None:
    """Raise InvalidRequest if the JSON text `data` nests too deep or holds too many objects and arrays."""
    steps = _STRING.sub(b"", data).translate(_OPEN_IS_TWO, _NOT_BRACKETS)
    if steps.count(2) > MAX_CONTAINERS:
        raise InvalidRequest(f"The body has more than {MAX_CONTAINERS} objects and arrays.", hint="Split it.")
    # A step is 2 in, 0 out; less one for each step taken, their sum is the depth. All of it runs in C.
    if max(map(sub, accumulate(steps), count(1)), default=0) > MAX_DEPTH:
        raise InvalidRequest(f"The body nests deeper than {MAX_DEPTH} levels.", hint="Flatten it.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0][:100]
        raise InvalidRequest(
            f"The key {twice!r} is given twice in one object.", hint="Send it once.", param=twice
        )
    return result


def _integer(text: str) -> int:
    if len(text) > MAX_NUMBER_LENGTH:
        raise InvalidRequest(f"A number has {len(text)} digits.", hint="Send a smaller one.")
    return int(text)


def _real(text: str) -> float:
    value = float(text) if len(text) <= MAX_NUMBER_LENGTH else float("inf")
    if value in {float("inf"), float("-inf")}:
        raise InvalidRequest(f"The number {text[:40]} is out of range.", hint="Send a finite number.")
    return value


def _constant(name: str) -> NoReturn:
    raise InvalidRequest(f"{name} is not a JSON number.", hint="Send a finite number.")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_real, parse_constant=_constant
)


def _check_texts(value: Any, path: str) -> None:
    """Refuse NUL and lone surrogates anywhere below `value`; depth is bounded by `check_shape`."""
    if isinstance(value, str):
        if "\0" in value:
            raise InvalidRequest(f"The text of {path!r} contains NUL.", hint="Remove it.", param=path)
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidRequest(
                f"The text of {path!r} contains half of a surrogate pair at character {error.start}.",
                hint="Send whole characters.",
                param=path,
            ) from error
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_texts(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            safe = key.encode("utf-8", "replace").decode()[:100].replace("\0", "\N{REPLACEMENT CHARACTER}")
            below = f"{path}.{safe}" if path else safe
            _check_texts(key, below)
            _check_texts(item, below)


def _json_name(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case _:
            return "an array"
