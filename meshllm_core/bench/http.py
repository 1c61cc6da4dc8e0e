"""A light HTTP/1.1 client: one socket, one request, the C parser that uvicorn uses, no pool and no decoding.

The client shares its processor with the server it measures, so what it does per token is taken from the
server's own figure. httpx spends several times as much on a streamed line as this does (tests/bench
holds the cost); reading is one await per arrival at the socket, however many events arrived in it.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httptools

from meshllm_core.bench.endpoint import Endpoint
from meshllm_core.errors import EngineTimeout, NodeNotRunning, RequestError

_READ_BYTES = 65_536
MAX_BODY_BYTES = 8 * 1024 * 1024
"""Longest answer without a stream, and longest event of a stream."""
CONNECT_SECONDS = 10.0


@dataclass
class _Response:
    """What the parser has seen of an answer; its methods are the parser's callbacks."""

    status: int = 0
    headers_done: bool = False
    framed: bool = False
    """Whether the headers say where the body ends; if not, the end of the connection does."""
    complete: bool = False
    body: bytearray = field(default_factory=bytearray)
    """Bytes of the body that nobody has taken yet."""
    parser: httptools.HttpResponseParser = field(init=False)

    def __post_init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.framed |= name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        self.status = self.parser.get_status_code()
        self.headers_done = True

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.complete = True


class Exchange:
    """One open connection with a request on its way; yields the answer's bytes."""

    def __init__(
        self, endpoint: Endpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._endpoint = endpoint
        self._reader = reader
        self._writer = writer
        self._response = _Response()

    async def send(self, method: str, path: str, body: bytes) -> None:
        """Writes the whole request at once, so that it leaves in as few packets as it can."""
        self._writer.write(_request_head(self._endpoint, method, path, len(body)) + body)
        await self._writer.drain()

    async def status(self) -> int:
        """Status of the answer, once its headers are here."""
        while not self._response.headers_done:
            await self._receive()
        return self._response.status

    async def text(self) -> str:
        """The whole body; bytes that are not UTF-8 become U+FFFD."""
        while not self._response.complete:
            await self._receive()
        return self._response.body.decode(errors="replace")

    async def events(self) -> AsyncIterator[bytes]:
        """Data of each server-sent event, undecoded; comments are passed over. Ends with the body."""
        body = self._response.body
        while True:
            start = 0
            while (end := body.find(b"\n\n", start)) >= 0:
                event = bytes(body[start:end])
                start = end + 2
                data = event if event.startswith(b"data:") else event[event.find(b"\ndata:") + 1 :]
                if data.startswith(b"data:"):
                    yield data[5:].strip()
            del body[:start]
            if self._response.complete:
                return
            await self._receive()
            if b"\r" in body:
                body[:] = body.replace(b"\r\n", b"\n")

    async def _receive(self) -> None:
        response = self._response
        if len(response.body) > MAX_BODY_BYTES:
            raise RequestError(f"{self._endpoint.url} sent more than {MAX_BODY_BYTES} bytes in one piece.")
        try:
            data = await self._reader.read(_READ_BYTES)
            response.parser.feed_data(data)
        except (OSError, httptools.HttpParserError) as error:
            raise RequestError(
                f"The answer of {self._endpoint.url} broke off: {type(error).__name__}: {error}."
            ) from error
        if not data and response.headers_done and not response.framed:
            response.complete = True
        if not data and not response.complete:
            raise RequestError(
                f"{self._endpoint.url} closed the connection in the middle of an answer.",
                hint="Its log should say why.",
            )


def _request_head(endpoint: Endpoint, method: str, path: str, length: int) -> bytes:
    lines = [
        f"{method} {endpoint.prefix}{path} HTTP/1.1",
        f"Host: {endpoint.host_header}",
        "Accept: application/json, text/event-stream",
        "User-Agent: meshllm-bench",
        "Connection: close",
    ]
    if endpoint.api_key:
        lines.append(f"Authorization: Bearer {endpoint.api_key}")
    if length:
        lines += ["Content-Type: application/json", f"Content-Length: {length}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def _reason(error: OSError | TimeoutError) -> str:
    """In words: what asyncio says of an address that refuses is written for programmers."""
    if isinstance(error, ConnectionRefusedError):
        return "no program listens there"
    if isinstance(error, TimeoutError):
        return f"no connection within {CONNECT_SECONDS:g} s"
    return error.strerror or type(error).__name__


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Exchange]:
    """A new connection, closed on leaving. Raises NodeNotRunning when nothing answers."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(
                endpoint.host, endpoint.port, ssl=ssl.create_default_context() if endpoint.tls else None
            )
    except (OSError, TimeoutError) as error:
        raise NodeNotRunning(
            f"Nothing answers at {endpoint.url} ({_reason(error)}).",
            hint="Start a server there (`meshllm serve`), or give another --url.",
        ) from error
    try:
        yield Exchange(endpoint, reader, writer)
    finally:
        writer.close()


async def fetch_json(endpoint: Endpoint, path: str, *, timeout: float) -> dict[str, Any]:
    """GET of a JSON object. `timeout` in seconds. Raises EngineTimeout, NodeNotRunning, RequestError."""
    try:
        async with asyncio.timeout(timeout), connect(endpoint) as exchange:
            await exchange.send("GET", path, b"")
            status, text = await exchange.status(), await exchange.text()
    except TimeoutError as error:
        raise EngineTimeout(f"{endpoint.url} did not answer GET {path} within {timeout:g} s.") from error
    if status != 200:
        raise refusal(endpoint, path, status, text)
    try:
        answer = json.loads(text)
    except ValueError as error:
        raise RequestError(f"{endpoint.url} answered GET {path} with something that is not JSON.") from error
    if not isinstance(answer, dict):
        raise RequestError(f"{endpoint.url} answered GET {path} with JSON that is not an object.")
    return answer


def refusal(endpoint: Endpoint, path: str, status: int, text: str) -> RequestError:
    """The error for an answer that is not 200, in the server's own words; `http_status` is the answer's."""
    try:
        words = str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        words = " ".join(text.split())
    where = "Is the base URL right, and does the server know this route?" if status == 404 else ""
    error = RequestError(f"{endpoint.url} refused {path} with {status}: {words[:500]}", hint=where)
    error.http_status = status
    return error
