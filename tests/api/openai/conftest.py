"""The OpenAI endpoint on a real socket, with scripted engines behind it."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import openai
import pytest
import uvicorn

from meshllm_core.api.openai.app import build_openai_app
from meshllm_core.api.openai.settings import OpenAISettings
from meshllm_core.engine.base import StageEngine
from meshllm_core.ids import ModelId
from meshllm_core.serve.router import HostedModel
from meshllm_core.serve.service import InferenceService
from meshllm_core.state.events import AnyEvent
from tests.support.scripted_engine import Script, ScriptedEngine

MODEL = "scripted"
CREATED = 1_700_000_000


@dataclass
class Endpoint:
    """A running endpoint."""

    url: str
    port: int
    service: InferenceService
    events: list[AnyEvent]
    http: httpx.AsyncClient
    hosted: dict[ModelId, HostedModel] = field(default_factory=dict)

    @property
    def sdk(self) -> openai.AsyncOpenAI:
        """The official client, without retries."""
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)

    async def post(self, path: str, body: object, **headers: str) -> httpx.Response:
        """Post `body` as JSON, or as it is when it is bytes."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.http.post(path, content=content, headers=headers)

    async def chat(self, **fields: object) -> httpx.Response:
        """A chat request with one message, and `fields`."""
        return await self.post("/v1/chat/completions", chat_body(**fields))


def chat_body(**fields: object) -> dict[str, object]:
    """The smallest chat request, and `fields`."""
    return {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], **fields}


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error of an answer, which must be in OpenAI's shape."""
    body = response.json()
    assert set(body) == {"error"}, body
    error: dict[str, Any] = body["error"]
    assert set(error) == {"message", "type", "param", "code"}, error
    return error


@contextlib.asynccontextmanager
async def serving(
    engines: Mapping[str, StageEngine], settings: OpenAISettings | None = None, **service_fields: Any
) -> AsyncIterator[Endpoint]:
    """An endpoint for `engines` on a free port of loopback until the block ends.

    `service_fields` are those of the InferenceService: its peers, name and id.
    """
    hosted = {
        ModelId(name): HostedModel(ModelId(name), CREATED, "ready", engine)
        for name, engine in engines.items()
    }
    events: list[AnyEvent] = []
    service = InferenceService(hosted, events.append, **service_fields)
    app = build_openai_app(service, settings)
    config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=2)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        # Not `serve`: it would take over the signals of the test process, and its end waits for a tick.
        await server.startup(sockets=[listener])
        try:
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=10) as http:
                yield Endpoint(url, port, service, events, http, hosted)
        finally:
            await _stop(server)


async def _stop(server: uvicorn.Server) -> None:
    for listening in server.servers:
        listening.close()
    async with asyncio.timeout(5):
        while server.server_state.connections or server.server_state.tasks:
            for connection in list(server.server_state.connections):
                connection.shutdown()
            await asyncio.sleep(0.001)


def scripted(*steps: object, **fields: Any) -> ScriptedEngine:
    """An engine that says `steps`, whatever it is asked."""
    return ScriptedEngine([Script(steps=steps or ("Hello", " there", "."), **fields)])  # type: ignore[arg-type]


async def eventually(condition: Callable[[], object], seconds: float = 1.0) -> None:
    """Wait until `condition()` holds; fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.005)


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    """An endpoint whose model greets."""
    async with serving({MODEL: scripted()}) as running:
        yield running
