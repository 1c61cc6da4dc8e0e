"""A real server on a loopback socket that speaks just enough of /v1, with delays and faults as asked."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Behaviour:
    """How the stub answers."""

    models: tuple[str, ...] = ("stub",)
    first_delay: float = 0.0
    token_delay: float = 0.0
    count_tokens: Callable[[str], int] = lambda prompt: len(prompt.split())
    cached_tokens: int = 0
    refused_field: str = ""
    """A field that is answered with 400 naming it."""
    usage: object = True
    """False: no usage. Anything but a bool is sent as the usage."""
    failure: str = ""
    """After two tokens: `error`: an error event. `close`: the connection ends. `hang`: nothing more comes."""
    newline: str = "\n"
    split: int = 0
    """Bytes per write; 0 writes each event whole."""
    framed: bool = True
    """Whether the stream is chunked; if not, it ends with the connection."""


@dataclass
class Stub:
    """The running server: its address and the bodies it was sent."""

    behaviour: Behaviour
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    busy: int = 0
    most_busy: int = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split(" ")[1]
            self.paths.append(path)
            length = next(
                (int(h.split(":")[1]) for h in head.split("\r\n") if h.startswith("Content-Length")), 0
            )
            body = json.loads(await reader.readexactly(length)) if length else {}
            self.busy += 1
            self.most_busy = max(self.busy, self.most_busy)
            try:
                await self._answer(path, body, writer)
            finally:
                self.busy -= 1
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, path: str, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if path.endswith("/models"):
            document = {"object": "list", "data": [{"id": name} for name in self.behaviour.models]}
            await _plain(writer, 200, document)
            return
        self.bodies.append(body)
        if not path.endswith("/completions"):
            await _plain(writer, 404, {"detail": "Not Found"})
        elif self.behaviour.refused_field in body:
            name = self.behaviour.refused_field
            await _plain(writer, 400, {"error": {"message": f"Unknown parameter: '{name}'.", "param": name}})
        else:
            await self._stream(body, "chat" in path, writer)

    async def _stream(self, body: dict[str, Any], chat: bool, writer: asyncio.StreamWriter) -> None:
        how = self.behaviour
        framing = "Transfer-Encoding: chunked\r\n" if how.framed else "Connection: close\r\n"
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{framing}\r\n".encode())
        await self._event(writer, ": keep-alive", comment=True)
        if chat:
            await self._event(
                writer, {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
            )
        await asyncio.sleep(how.first_delay)
        for index in range(body["max_tokens"]):
            if index == 2 and how.failure:
                await self._fail(writer)
                return
            if index:
                await asyncio.sleep(how.token_delay)
            part = {"delta": {"content": " x"}} if chat else {"text": " x"}
            await self._event(writer, {"choices": [{"index": 0, "finish_reason": None, **part}]})
        finish: dict[str, object] = {"delta": {}} if chat else {"text": ""}
        await self._event(writer, {"choices": [{"index": 0, "finish_reason": "length", **finish}]})
        await asyncio.sleep(how.token_delay)
        if how.usage:
            await self._event(writer, {"choices": [], "usage": self._usage(body, chat)})
        await self._event(writer, "data: [DONE]", comment=True)
        if how.framed:
            writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _fail(self, writer: asyncio.StreamWriter) -> None:
        if self.behaviour.failure == "error":
            await self._event(writer, {"error": {"message": "the engine ended"}})
            writer.write(b"0\r\n\r\n")
        if self.behaviour.failure == "hang":
            await asyncio.sleep(30)

    def _usage(self, body: dict[str, Any], chat: bool) -> object:
        if self.behaviour.usage is not True:
            return self.behaviour.usage
        prompt = body["messages"][0]["content"] if chat else body["prompt"]
        return {
            "prompt_tokens": self.behaviour.count_tokens(prompt),
            "completion_tokens": body["max_tokens"],
            "prompt_tokens_details": {"cached_tokens": self.behaviour.cached_tokens},
        }

    async def _event(self, writer: asyncio.StreamWriter, event: object, *, comment: bool = False) -> None:
        text = str(event) if comment else f"data: {json.dumps(event, separators=(',', ':'))}"
        data = (text + self.behaviour.newline * 2).encode()
        if self.behaviour.framed:
            data = f"{len(data):x}\r\n".encode() + data + b"\r\n"
        size = self.behaviour.split or len(data)
        for start in range(0, len(data), size):
            writer.write(data[start : start + size])
            await writer.drain()
            if self.behaviour.split:
                await asyncio.sleep(0)


async def _plain(writer: asyncio.StreamWriter, status: int, document: object) -> None:
    data = json.dumps(document).encode()
    writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    await writer.drain()


@asynccontextmanager
async def stub_server(behaviour: Behaviour | None = None) -> AsyncIterator[Stub]:
    """A stub on a free port of the loopback interface."""
    stub = Stub(behaviour or Behaviour())
    server = await asyncio.start_server(stub.handle, "127.0.0.1", 0)
    stub.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield stub
