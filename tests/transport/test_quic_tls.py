"""Both ways together: what QUIC proved pins TLS, and calls travel by it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from meshllm_core.errors import LinkClosed
from meshllm_core.identity.keys import SigningKey
from meshllm_core.transport.certificate import make_certificate
from meshllm_core.transport.link import ChannelKind, Link
from meshllm_core.transport.quic import QuicTransport
from meshllm_core.transport.tls import TlsPlane
from meshllm_core.wire.announcement import Address

SECONDS = 5.0


class Both:
    """A node with QUIC and TLS on the same port number."""

    def __init__(self) -> None:
        self.key = SigningKey.generate()
        self.links: asyncio.Queue[Link] = asyncio.Queue()
        self.refused: Counter[str] = Counter()
        self.transport: QuicTransport
        self.tls: TlsPlane

    def counted(self, kind: str, detail: str) -> None:
        """Keeps what was refused."""
        self.refused[kind] += 1

    async def on_link(self, link: Link) -> None:
        """Keeps what came in."""
        await self.links.put(link)


@asynccontextmanager
async def both() -> AsyncIterator[Both]:
    """A running node."""
    it = Both()
    it.tls = await TlsPlane.start(
        it.key, make_certificate(it.key), host="127.0.0.1", port=0, counted=it.counted
    )
    it.transport = await QuicTransport.start(
        it.key, host="127.0.0.1", port=it.tls.port, on_link=it.on_link, tls=it.tls, counted=it.counted
    )
    try:
        yield it
    finally:
        await it.transport.close()
        await it.tls.close()


async def settled(link: Link) -> bool:
    """Whether TLS works, once that is known."""
    for _ in range(500):
        if link.tls is not None:
            return link.tls
        await asyncio.sleep(0.01)
    raise TimeoutError


async def test_calls_travel_by_tls_and_files_too() -> None:
    async with both() as a, both() as b:
        here = Address("127.0.0.1", b.transport.port)
        near = await a.transport.dial(b.key.public, here, timeout=SECONDS)
        far = await asyncio.wait_for(b.links.get(), SECONDS)
        far.admit()
        near.admit()
        near.offer_tls([here])
        assert await settled(near)
        for kind in (ChannelKind.CALL, ChannelKind.TRANSFER):
            one = await near.open(kind)
            assert one.path == "tls"
            sending = asyncio.create_task(one.send(bytes(1 << 20)))
            other = await asyncio.wait_for(far.accept(), SECONDS)
            assert (other.kind, other.path) == (kind, "tls")
            assert await asyncio.wait_for(other.receive(), SECONDS) == bytes(1 << 20)
            await sending
            await other.send(b"answer")
            assert await asyncio.wait_for(one.receive(), SECONDS) == b"answer"
            one.abort()
            other.abort()
        assert not a.refused
        assert not b.refused


async def test_a_stranger_is_not_reached_by_tls_either() -> None:
    async with both() as a, both() as b:
        here = Address("127.0.0.1", b.transport.port)
        near = await a.transport.dial(b.key.public, here, timeout=SECONDS)
        await asyncio.wait_for(b.links.get(), SECONDS)
        near.admit()
        near.offer_tls([here])
        assert not await settled(near)
        assert b.refused


async def test_the_end_of_the_link_ends_its_tls() -> None:
    async with both() as a, both() as b:
        here = Address("127.0.0.1", b.transport.port)
        near = await a.transport.dial(b.key.public, here, timeout=SECONDS)
        far = await asyncio.wait_for(b.links.get(), SECONDS)
        far.admit()
        near.admit()
        near.offer_tls([here])
        assert await settled(near)
        one = await near.open(ChannelKind.CALL)
        await one.send(b"question")
        other = await asyncio.wait_for(far.accept(), SECONDS)
        assert one.path == other.path == "tls"
        far.close("enough")
        await asyncio.wait_for(near.wait_closed(), SECONDS)
        for end in (one, other):
            with pytest.raises(LinkClosed):
                while await asyncio.wait_for(end.receive(), SECONDS) is not None:
                    pass
