"""Calls go beside QUIC where they can, and by QUIC where they cannot."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

import pytest

from meshllm_core.errors import LinkClosed, PeerUnreachable
from meshllm_core.ids import NodeId
from meshllm_core.transport.certificate import make_certificate
from meshllm_core.transport.link import Channel, ChannelKind
from meshllm_core.transport.quic import side
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Address
from tests.transport.quic_nodes import SECONDS, channel, linked, node

HERE = (Address("127.0.0.1", 9),)


class Beside:
    """A channel that is not one of QUIC."""

    path: Literal["quic", "tls", "memory"] = "tls"

    def __init__(self, kind: ChannelKind) -> None:
        self.kind = kind
        self.limit = limits.CALL_FRAME
        self.aborted = False

    async def send(self, body: bytes) -> None:
        """Not used here."""
        raise NotImplementedError

    def send_at_once(self, body: bytes) -> bool:
        """Not used here."""
        raise NotImplementedError

    async def receive(self) -> bytes | None:
        """Not used here."""
        raise NotImplementedError

    async def pass_on(self, deliver: Callable[[bytes], None]) -> None:
        """Not used here."""
        raise NotImplementedError

    async def finish(self) -> None:
        """Not used here."""
        raise NotImplementedError

    def abort(self) -> None:
        """Remembers it."""
        self.aborted = True


class Sides:
    """Side channels that work, or do not, as the test says."""

    def __init__(self) -> None:
        self.on_channel: Callable[[NodeId, Channel], None] = lambda peer, channel: None
        self.reachable = True
        self.allowed: dict[NodeId, bytes] = {}
        self.opened: list[Beside] = []
        self.tried = asyncio.Event()
        self.tries = 0

    async def connect(
        self, peer: NodeId, certificate: bytes, addresses: Sequence[Address], kind: ChannelKind
    ) -> Channel:
        """A channel, if the peer can be reached."""
        assert tuple(addresses) == HERE
        self.tries += 1
        self.tried.set()
        await asyncio.sleep(0)
        if not self.reachable:
            raise PeerUnreachable("no")
        self.opened.append(Beside(kind))
        return self.opened[-1]

    def allow(self, peer: NodeId, certificate: bytes) -> None:
        """Remembers it."""
        self.allowed[peer] = certificate

    def forbid(self, peer: NodeId) -> None:
        """Forgets it."""
        del self.allowed[peer]


async def test_calls_go_beside_once_an_address_answered() -> None:
    sides = Sides()
    async with node(tls=sides) as a, node() as b:
        near, far = await linked(a, b)
        assert near.tls is None
        assert (await channel(near, far))[0].path == "quic"
        near.offer_tls(HERE)
        near.offer_tls(HERE)
        await asyncio.wait_for(sides.tried.wait(), SECONDS)
        await asyncio.sleep(0.01)
        assert near.tls is True
        assert [one.aborted for one in sides.opened] == [True], "the one that tried it out"
        for kind in (ChannelKind.CALL, ChannelKind.TRANSFER):
            opened = await near.open(kind)
            assert (opened.kind, opened.path) == (kind, "tls")
        assert (await near.open(ChannelKind.CONTROL)).path == "quic"


async def test_a_failure_falls_back_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side, "RETRY_SECONDS", (0.05,))
    sides = Sides()
    async with node(tls=sides) as a, node() as b:
        near, far = await linked(a, b)
        near.offer_tls(HERE)
        await asyncio.sleep(0.02)
        assert near.tls is True
        sides.reachable = False
        assert (await channel(near, far))[0].path == "quic"
        assert near.tls is False
        await asyncio.sleep(0.12)
        assert 4 <= sides.tries <= 7
        sides.reachable = True
        await asyncio.sleep(0.1)
        assert near.tls is True
        assert (await near.open(ChannelKind.CALL)).path == "tls"
        sides.reachable = False
        near.close()
        tries = sides.tries
        await asyncio.sleep(0.12)
        assert sides.tries == tries, "nobody tries for a link that is closed"


async def test_channels_from_beside_are_accepted_of_members() -> None:
    sides = Sides()
    async with node() as a, node(tls=sides) as b:
        near, far = await linked(a, b, admit=False)
        early, late = Beside(ChannelKind.CALL), Beside(ChannelKind.CALL)
        sides.on_channel(a.key.public, early)
        assert early.aborted
        assert b.refused == {"not admitted": 1}
        assert not sides.allowed
        far.admit()
        assert sides.allowed == {a.key.public: make_certificate(a.key)}
        sides.on_channel(a.key.public, late)
        assert await far.accept() is late
        flood = [Beside(ChannelKind.CALL) for _ in range(limits.CHANNELS + 1)]
        for one in flood:
            sides.on_channel(a.key.public, one)
        assert [one.aborted for one in flood] == [False] * limits.CHANNELS + [True]
        near.close("bye")
        await asyncio.wait_for(far.wait_closed(), SECONDS)
        assert not sides.allowed


async def test_a_second_link_keeps_the_permission() -> None:
    sides = Sides()
    async with node() as a, node(tls=sides) as b:
        first, second = await linked(a, b), await linked(b, a)
        first[1].close()
        assert sides.allowed
        second[0].close()
        assert not sides.allowed
        with pytest.raises(LinkClosed):
            await second[0].open(ChannelKind.CALL)
