"""Real transports on loopback, for the tests of the QUIC transport."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from meshllm_core.identity.keys import SigningKey
from meshllm_core.transport.link import Channel, ChannelKind, Link
from meshllm_core.transport.quic import QuicTransport, SideChannels
from meshllm_core.wire.announcement import Address

SECONDS = 5.0


@dataclass
class Node:
    """A transport, with what it refused and the links that came in."""

    key: SigningKey
    host: str
    transport: QuicTransport
    refused: Counter[str]
    links: "asyncio.Queue[Link]" = field(default_factory=asyncio.Queue)

    @property
    def address(self) -> Address:
        """Where it listens."""
        return Address("127.0.0.1" if self.host == "::" else self.host, self.transport.port)


@asynccontextmanager
async def node(
    host: str = "127.0.0.1", *, tls: SideChannels | None = None, port: int = 0
) -> AsyncIterator[Node]:
    """A node that keeps the links which come in."""
    key = SigningKey.generate()
    refused: Counter[str] = Counter()
    links: asyncio.Queue[Link] = asyncio.Queue()

    async def on_link(link: Link) -> None:
        await links.put(link)

    def counted(kind: str, detail: str) -> None:
        assert detail
        refused[kind] += 1

    transport = await QuicTransport.start(
        key, host=host, port=port, on_link=on_link, tls=tls, counted=counted
    )
    try:
        yield Node(key, host, transport, refused, links)
    finally:
        await transport.close()


async def linked(dialler: Node, listener: Node, *, admit: bool = True) -> tuple[Link, Link]:
    """A link, as both ends have it."""
    near: Link = await dialler.transport.dial(listener.key.public, listener.address, timeout=SECONDS)
    far = await asyncio.wait_for(listener.links.get(), SECONDS)
    if admit:
        near.admit()
        far.admit()
    return near, far


async def channel(near: Link, far: Link, kind: ChannelKind = ChannelKind.CALL) -> tuple[Channel, Channel]:
    """A channel that `near` opens, as both ends have it."""
    opened = await near.open(kind)
    accepted = await asyncio.wait_for(far.accept(), SECONDS)
    return opened, accepted
