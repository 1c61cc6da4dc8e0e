"""Nodes of the TLS side channel for its tests, on both event loops."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import uvloop

from meshllm_core.errors import LinkClosed
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import NodeId
from meshllm_core.transport.certificate import make_certificate
from meshllm_core.transport.link import Channel, ChannelKind
from meshllm_core.transport.tls import TlsPlane
from meshllm_core.wire.announcement import Address

LOOPS = ["asyncio", "uvloop"]
SECONDS = 30

Handler = Callable[[Channel], Awaitable[None]]


def on_loop(loop: str, scenario: Coroutine[Any, Any, None]) -> None:
    """Runs `scenario` on the named kind of event loop."""

    async def timed() -> None:
        async with asyncio.timeout(SECONDS):
            await scenario

    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(timed())


class Node:
    """A plane with its key, and what it counted and was offered."""

    def __init__(self, key: SigningKey, certificate: bytes) -> None:
        self.key = key
        self.id = key.public
        self.certificate = certificate
        self.counts: list[str] = []
        self.details: list[str] = []
        self.channels: asyncio.Queue[tuple[NodeId, Channel]] = asyncio.Queue()
        self.handler: Handler | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        self.plane: TlsPlane

    async def start(self, host: str = "127.0.0.1") -> "Node":
        self.plane = await TlsPlane.start(self.key, self.certificate, host=host, port=0, counted=self.counted)
        self.plane.on_channel = self.offered
        return self

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self.plane.port)

    def counted(self, kind: str, detail: str) -> None:
        self.counts.append(kind)
        self.details.append(detail)

    def offered(self, peer: NodeId, channel: Channel) -> None:
        if self.handler is None:
            self.channels.put_nowait((peer, channel))
            return
        task = asyncio.create_task(self._handle(self.handler, channel))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    @staticmethod
    async def _handle(handler: Handler, channel: Channel) -> None:
        with contextlib.suppress(LinkClosed):
            await handler(channel)

    async def connect(self, other: "Node", kind: ChannelKind = ChannelKind.CALL) -> Channel:
        return await self.plane.connect(other.id, other.certificate, [other.address], kind)

    async def close(self) -> None:
        await self.plane.close()
        await asyncio.gather(*self.tasks)


def made_node() -> Node:
    key = SigningKey.generate()
    return Node(key, make_certificate(key))


@contextlib.asynccontextmanager
async def nodes(count: int = 2) -> AsyncIterator[list[Node]]:
    """Nodes that allow each other."""
    made = [await made_node().start() for _ in range(count)]
    for one in made:
        for other in made:
            if one is not other:
                one.plane.allow(other.id, other.certificate)
    try:
        yield made
    finally:
        for node in made:
            await node.close()


async def echo(channel: Channel) -> None:
    """Sends back what it is sent."""
    while (body := await channel.receive()) is not None:
        await channel.send(body)
    await channel.finish()


async def call(channel: Channel, body: bytes) -> bytes:
    """One question, one answer, to the end of the channel."""
    await channel.send(body)
    await channel.finish()
    answer = await channel.receive()
    assert answer is not None
    assert await channel.receive() is None
    return answer


async def eventually(condition: Callable[[], bool], seconds: float = 5) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
