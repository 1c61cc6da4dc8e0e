"""Streams over raw sockets: signs of life, readers that leave, readers that are slow."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator

import pytest

from meshllm_core.api.openai.settings import OpenAISettings
from meshllm_core.api.openai.streaming import MAX_PENDING_BYTES
from meshllm_core.errors import ContextLengthExceeded
from meshllm_core.state.events import RequestFinished
from tests.api.openai.conftest import MODEL, Endpoint, chat_body, eventually, scripted, serving
from tests.support.scripted_engine import Pause, ScriptedEngine, Wait

QUICK = OpenAISettings(keep_alive_seconds=0.05)


@contextlib.asynccontextmanager
async def asked(
    endpoint: Endpoint, path: str = "/v1/chat/completions", **fields: object
) -> AsyncIterator[asyncio.StreamReader]:
    """A connection that has sent a request; leaving the block closes it at once."""
    body = json.dumps(
        chat_body(**fields) if path.endswith("chat/completions") else {"model": MODEL, **fields}
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    writer.write(
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    await writer.drain()
    try:
        yield reader
    finally:
        writer.transport.abort()


async def lines_of(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    """The lines of a chunked answer that matter, until it ends."""
    while line := (await reader.readline()).decode():
        if line.startswith(("HTTP", "data:", ":")):
            yield line.strip()
        if line == "0\r\n":
            return


async def test_signs_of_life_while_nothing_comes() -> None:
    release = asyncio.Event()
    async with (
        serving({MODEL: scripted(Wait(release), "Hi")}, QUICK) as endpoint,
        asked(endpoint, stream=True) as reader,
    ):
        lines = lines_of(reader)
        assert await anext(lines) == "HTTP/1.1 200 OK"
        assert '"role":"assistant"' in await anext(lines)
        assert [await anext(lines) for _ in range(3)] == [": keep-alive"] * 3
        release.set()
        rest = [line async for line in lines if line != ": keep-alive"]
        assert '"content":"Hi"' in rest[0]
        assert rest[-1] == "data: [DONE]"


@pytest.mark.parametrize("ending", ["answer", "refusal"])
async def test_signs_of_life_in_a_queue(ending: str) -> None:
    class Queueing(ScriptedEngine):
        async def generate(self, request):  # type: ignore[no-untyped-def]
            await asyncio.sleep(0.12)
            async for chunk in super().generate(request):
                yield chunk

    engine = Queueing()
    if ending == "refusal":
        engine.scripts = scripted(refusal=ContextLengthExceeded("Too long.")).scripts
    async with serving({MODEL: engine}, QUICK) as endpoint, asked(endpoint, stream=True) as reader:
        lines = [line async for line in lines_of(reader)]
    assert lines[:3] == ["HTTP/1.1 200 OK", ": keep-alive", ": keep-alive"]
    if ending == "answer":
        assert '"role":"assistant"' in lines[3]
        assert lines.count("data: [DONE]") == 1
    else:
        # The status is sent by then: the refusal is an event, and the last.
        assert lines[-1].startswith('data: {"error":{"message":"Too long."')


async def test_no_signs_of_life_between_tokens() -> None:
    steps = [step for _ in range(12) for step in ("a", Pause(0.02))]
    async with serving({MODEL: scripted(*steps)}, QUICK) as endpoint, asked(endpoint, stream=True) as reader:
        assert ": keep-alive" not in [line async for line in lines_of(reader)]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("said", [0, 1])
async def test_a_reader_that_leaves_frees_the_lane(stream: bool, said: int) -> None:
    engine = scripted(*["Hi"] * said, Wait(asyncio.Event()))
    async with serving({MODEL: engine}) as endpoint:
        async with asked(endpoint, stream=stream) as reader:
            await eventually(lambda: engine.running)
            if stream:
                await reader.readline()
        began = time.monotonic()
        await eventually(lambda: not engine.running)
        assert time.monotonic() - began < 0.5
        assert len(engine.cancelled) == 1
        await eventually(lambda: len(endpoint.events) == 2)
        finished = endpoint.events[1]
        assert isinstance(finished, RequestFinished)
        assert finished.reason == "cancelled"


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/responses"])
async def test_leaving_counts_on_every_route(path: str) -> None:
    engine = scripted(Wait(asyncio.Event()))
    field = "prompt" if path == "/v1/completions" else "input"
    async with serving({MODEL: engine}) as endpoint:
        async with asked(endpoint, path, stream=True, **{field: "x"}):
            await eventually(lambda: engine.running)
        await eventually(lambda: engine.cancelled)


async def test_leaving_while_in_a_queue() -> None:
    class Queueing(ScriptedEngine):
        left = False

        async def generate(self, request):  # type: ignore[no-untyped-def]
            self.requests.append(request)
            try:
                await asyncio.sleep(60)
            finally:
                self.left = True
            yield

    engine = Queueing()
    async with serving({MODEL: engine}) as endpoint:
        async with asked(endpoint, stream=True):
            await eventually(lambda: engine.requests)
        await eventually(lambda: engine.left)
        assert endpoint.events == []


async def test_a_slow_reader_slows_the_engine_and_gets_everything() -> None:
    text = "x" * 10_000
    engine = scripted(*[text] * 1000)
    async with serving({MODEL: engine}) as endpoint, asked(endpoint, stream=True) as reader:
        await eventually(lambda: engine.running)
        await asyncio.sleep(0.3)
        assert engine.running, "ten megabytes went somewhere"
        lines = [line async for line in lines_of(reader)]
        assert sum(len(line) for line in lines) > 10_000_000 > MAX_PENDING_BYTES
        assert sum(text in line for line in lines) == 1000


async def test_health_answers_while_models_work() -> None:
    engine = scripted(Wait(asyncio.Event()))
    async with serving({MODEL: engine}) as endpoint, asked(endpoint), asked(endpoint, stream=True):
        await eventually(lambda: engine.running == 2)
        began = time.monotonic()
        for path in ("/health", "/healthz", "/readyz", "/v1/models"):
            assert (await endpoint.http.get(path)).status_code == 200
        assert time.monotonic() - began < 0.5


async def test_a_large_body_is_refused_before_it_is_sent() -> None:
    async with serving({MODEL: scripted()}) as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
        writer.write(f"{head}Content-Length: 5000000\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"payload_too_large" in answer


async def test_a_large_body_without_a_length_is_refused() -> None:
    async with serving({MODEL: scripted()}, OpenAISettings(max_body_bytes=1000)) as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head + b"".join(b"1f4\r\n" + b" " * 500 + b"\r\n" for _ in range(50)))
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
        writer.close()


async def test_a_client_that_leaves_while_it_sends(caplog: pytest.LogCaptureFixture) -> None:
    async with serving({MODEL: scripted()}) as endpoint:
        _, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.transport.abort()
        await asyncio.sleep(0.05)
        assert (await endpoint.chat()).status_code == 200
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
