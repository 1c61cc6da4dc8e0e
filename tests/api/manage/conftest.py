"""A management API on a real socket, with a store that the test itself feeds."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

import httpx
import msgspec
import pytest
import uvicorn

from meshllm_core.api.client import ManagementClient
from meshllm_core.api.manage import build_management_app
from meshllm_core.api.questions import QuestionSpec
from meshllm_core.api.schema import ACTIONS
from meshllm_core.errors import MeshError
from meshllm_core.node.store import EventStore

TOKEN = "t" * 43


class EchoArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be said again."""

    text: Annotated[str, msgspec.Meta(max_length=20)]
    times: int = 2
    loud: bool = False


class Echoed(msgspec.Struct, frozen=True, kw_only=True):
    """What was said."""

    text: str


ECHO = QuestionSpec("echo/twice", "Say it again.", EchoArguments, Echoed)


@dataclass
class Backend:
    """Implements the seam: remembers what was asked, answers or raises as told."""

    store: EventStore
    asked: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    error: Exception | None = None
    actions = ACTIONS
    questions: Mapping[str, QuestionSpec] = field(default_factory=lambda: {"echo/twice": ECHO})

    async def ask(self, name: str, arguments: msgspec.Struct) -> msgspec.Struct:
        self.asked.append((name, msgspec.structs.asdict(arguments)))
        if self.error is not None:
            raise self.error
        return Echoed(text=str(msgspec.structs.asdict(arguments)))

    async def act(self, name: str, arguments: dict[str, object]) -> dict[str, object]:
        self.asked.append((name, arguments))
        if self.error is not None:
            raise self.error
        return {"done": name}


@dataclass
class Node:
    """A running API."""

    url: str
    backend: Backend
    http: httpx.AsyncClient
    client: ManagementClient

    async def post(self, path: str, body: bytes | str = b"", *, token: str = TOKEN) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return await self.http.post(path, content=body, headers=headers)

    def fail_with(self, error: MeshError) -> None:
        self.backend.error = error


@contextlib.asynccontextmanager
async def running(
    *, keep: int = 4096, console_host: str = "127.0.0.1", make: Callable[[EventStore], Backend] = Backend
) -> AsyncIterator[Node]:
    """An API on a free port of loopback until the block ends."""
    backend = make(EventStore(keep=keep))
    app = build_management_app(backend, token=TOKEN, console_host=console_host)
    config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=2)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        # Not `serve`: it would take over the signals of the test process, and its end waits for a tick.
        await server.startup(sockets=[listener])
        try:
            async with (
                httpx.AsyncClient(base_url=url, trust_env=False) as http,
                ManagementClient(url, token=TOKEN) as client,
            ):
                yield Node(url, backend, http, client)
        finally:
            backend.store.close()
            await _stop(server)


async def _stop(server: uvicorn.Server) -> None:
    """What `Server.shutdown` does, without its fixed pause."""
    for listening in server.servers:
        listening.close()
    async with asyncio.timeout(5):
        while server.server_state.connections or server.server_state.tasks:
            for connection in list(server.server_state.connections):
                connection.shutdown()
            await asyncio.sleep(0.001)


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    async with running() as running_node:
        yield running_node
