"""The TLS side channel between nodes that know each other: real sockets, both event loops."""

import asyncio
import socket

import pytest

from meshllm_core.errors import LinkClosed, PeerUnreachable, WireError
from meshllm_core.ids import NodeId
from meshllm_core.transport import tls_connection, tls_endpoint
from meshllm_core.transport.link import ChannelKind
from meshllm_core.transport.tls_bulk import BulkChannel
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Address
from tests.transport.tls_nodes import LOOPS, call, echo, eventually, nodes, on_loop

KINDS = [ChannelKind.CALL, ChannelKind.TRANSFER]
pytestmark = pytest.mark.parametrize("loop", LOOPS)


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_all_sizes_arrive_in_order(loop: str, kind: ChannelKind) -> None:
    async def scenario() -> None:
        sizes = [0, 1, 16, 4096, tls_connection.PIECE, tls_connection.PIECE + 1, 3 << 20, limits.CALL_FRAME]
        async with nodes() as (a, b):
            b.handler = echo
            channel = await a.connect(b, kind)
            assert (channel.kind, channel.path) == (kind, "tls")
            for size in sizes:
                body = bytes([size % 251]) * size
                await channel.send(body)
                assert await channel.receive() == body
            await channel.finish()
            assert await channel.receive() is None
            assert await channel.receive() is None
            assert a.counts == b.counts == []

    on_loop(loop, scenario())


def test_both_directions_and_the_proven_peer(loop: str) -> None:
    async def scenario() -> None:
        async with nodes() as (a, b):
            for here, there in ((a, b), (b, a)):
                channel = await here.connect(there)
                await channel.send(b"hello")
                peer, arrived = await there.channels.get()
                assert peer == here.id
                assert await arrived.receive() == b"hello"
                await arrived.send(b"answer")
                assert await channel.receive() == b"answer"
                channel.abort()
                with pytest.raises(LinkClosed, match="the other side closed it"):
                    await arrived.receive()

    on_loop(loop, scenario())


def test_a_connection_serves_again_and_others_are_ready(loop: str) -> None:
    async def scenario() -> None:
        async with nodes() as (a, b):
            b.handler = echo
            known = a.plane._calls._peers
            assert await call(await a.connect(b), b"1") == b"1"
            await eventually(lambda: len(known[b.id].ready) == 2)
            before = set(known[b.id].connections)
            for number in range(20):
                assert await call(await a.connect(b), bytes([number])) == bytes([number])
            await eventually(lambda: len(known[b.id].ready) == 2)
            assert known[b.id].connections == before
            transport = next(iter(before))._transport
            assert transport is not None
            connected = transport.get_extra_info("socket")
            assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    on_loop(loop, scenario())


def test_many_channels_at_once(loop: str) -> None:
    async def scenario() -> None:
        async with nodes() as (a, b):
            b.handler = echo

            async def one(number: int) -> None:
                assert await call(await a.connect(b), bytes([number]) * 1000) == bytes([number]) * 1000

            await asyncio.gather(*(one(number) for number in range(30)))
            known = a.plane._calls._peers[b.id]
            await eventually(lambda: len(known.connections) == len(known.ready) == 2)

    on_loop(loop, scenario())


def test_a_channel_that_was_not_used_is_not_told(loop: str) -> None:
    async def scenario() -> None:
        async with nodes() as (a, b):
            for _ in range(5):
                (await a.connect(b)).abort()
            await asyncio.sleep(0.05)
            assert b.channels.empty()
            assert len(a.plane._calls._peers[b.id].connections) <= 2
            channel = await a.connect(b)
            channel.abort()
            with pytest.raises(LinkClosed, match="given up"):
                await channel.send(b"x")

    on_loop(loop, scenario())


def test_a_channel_that_is_read_first_is_told(loop: str) -> None:
    async def scenario() -> None:
        async with nodes() as (a, b):
            channel = await a.connect(b)
            reading = asyncio.create_task(channel.receive())
            _, arrived = await b.channels.get()
            await arrived.send(b"first")
            assert await reading == b"first"

    on_loop(loop, scenario())


def test_the_next_channel_waits_for_the_one_before_to_be_read(loop: str) -> None:
    """The listening side finishes early and reads late: what it has not read is no part of the next call."""

    async def scenario() -> None:
        async with nodes() as (a, b):
            channel = await a.connect(b)
            await channel.send(b"question")
            await channel.send(b"more")
            await channel.finish()
            _, arrived = await b.channels.get()
            await arrived.finish()
            assert await channel.receive() is None
            second = await a.connect(b)
            await second.send(b"second")
            _, also = await b.channels.get()
            assert await also.receive() == b"second"
            assert await arrived.receive() == b"question"
            arrived.abort()
            await second.send(b"still there")
            assert await also.receive() == b"still there"

    on_loop(loop, scenario())


@pytest.mark.parametrize("kind", KINDS)
def test_sending_waits_for_a_reader(loop: str, kind: ChannelKind) -> None:
    async def scenario() -> None:
        async with nodes() as (a, b):
            channel = await a.connect(b, kind)
            frame, sent = bytes(64 * 1024), 0

            async def send() -> None:
                nonlocal sent
                for _ in range(1024):
                    await channel.send(frame)
                    sent += 1

            sending = asyncio.create_task(send())
            _, arrived = await b.channels.get()
            before = -1
            while before != sent:
                before = sent
                await asyncio.sleep(0.3)
            assert not sending.done()
            # Both buffers of ours, what TLS holds, and the kernel's.
            assert sent * len(frame) < 24 << 20
            inner = arrived.inner if isinstance(arrived, BulkChannel) else arrived
            assert isinstance(inner, tls_connection.TlsChannel) and inner._connection is not None
            assert len(inner._connection._buffer) < 2 * tls_connection.HIGH
            for _ in range(1024):
                assert await arrived.receive() == frame
            await sending

    on_loop(loop, scenario())


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_above_the_limit_ends_the_channel(loop: str, kind: ChannelKind) -> None:
    async def scenario() -> None:
        async with nodes() as (a, b):
            channel = await a.connect(b, kind)
            await channel.send(bytes(100))
            await channel.send(bytes(101))
            _, arrived = await b.channels.get()
            arrived.limit = 100
            assert await arrived.receive() == bytes(100)
            with pytest.raises(WireError, match="announced a frame of 101 bytes; the limit is 100"):
                await arrived.receive()
            with pytest.raises(LinkClosed):
                await channel.receive()
            await eventually(lambda: b.counts == ["too large"])

    on_loop(loop, scenario())


def test_a_send_that_is_cancelled_midway_ends_the_channel(loop: str) -> None:
    async def scenario() -> None:
        async with nodes() as (a, b):
            channel = await a.connect(b)
            sending = asyncio.create_task(channel.send(bytes(64 << 20)))
            _, arrived = await b.channels.get()
            await asyncio.sleep(0.2)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            arrived.limit = 1 << 30
            with pytest.raises(LinkClosed):
                await arrived.receive()

    on_loop(loop, scenario())


@pytest.mark.parametrize("kind", KINDS)
def test_forbidding_a_peer_closes_what_it_has(loop: str, kind: ChannelKind) -> None:
    async def scenario() -> None:
        async with nodes() as (a, b):
            channel = await a.connect(b, kind)
            await channel.send(b"x")
            _, arrived = await b.channels.get()
            reading = asyncio.create_task(channel.receive())
            b.plane.forbid(a.id)
            assert await arrived.receive() == b"x"
            with pytest.raises(LinkClosed, match="no longer allowed"):
                await arrived.receive()
            with pytest.raises(LinkClosed):
                await reading
            with pytest.raises(PeerUnreachable, match="cannot be reached by TCP"):
                await a.connect(b, kind)
            await eventually(lambda: set(b.counts) == {"unknown name"})
            b.plane.allow(a.id, a.certificate)
            b.handler = echo
            assert await call(await a.connect(b, kind), b"again") == b"again"

    on_loop(loop, scenario())


def test_forbidding_ends_connections_that_are_dialled(loop: str) -> None:
    async def scenario() -> None:
        async with nodes() as (a, b):
            channel = await a.connect(b)
            await channel.send(b"x")
            a.plane.forbid(b.id)
            with pytest.raises(LinkClosed):
                await channel.receive()
            assert b.id not in a.plane._calls._peers

    on_loop(loop, scenario())


def test_the_address_that_answers_is_found(loop: str) -> None:
    async def scenario() -> None:
        async with nodes() as (a, b):
            b.handler = echo
            with socket.socket() as silent:
                # Listens, and never accepts: as a firewall that swallows looks.
                silent.bind(("127.0.0.1", 0))
                silent.listen(1)
                dead = Address("127.0.0.1", silent.getsockname()[1])
                closed = Address("127.0.0.1", 1)
                odd = Address("no address", 9)
                began = asyncio.get_running_loop().time()
                found = await a.plane.connect(
                    b.id, b.certificate, [odd, closed, dead, b.address], ChannelKind.CALL
                )
                assert asyncio.get_running_loop().time() - began < 2
                assert await call(found, b"x") == b"x"
                assert a.plane._calls._peers[b.id].worked == b.address

    on_loop(loop, scenario())


def test_a_peer_that_does_not_answer_is_named(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_endpoint, "CONNECT_SECONDS", 0.4)

    async def scenario() -> None:
        async with nodes() as (a, b):
            with pytest.raises(PeerUnreachable, match=r"127\.0\.0\.1:1: .*refused"):
                await a.plane.connect(b.id, b.certificate, [Address("127.0.0.1", 1)], ChannelKind.CALL)
            with pytest.raises(PeerUnreachable, match="no address is known"):
                await a.plane.connect(b.id, b.certificate, [], ChannelKind.CALL)
            with socket.socket() as silent:
                silent.bind(("127.0.0.1", 0))
                silent.listen(1)
                dead = Address("127.0.0.1", silent.getsockname()[1])
                with pytest.raises(PeerUnreachable, match="no answer"):
                    await a.plane.connect(b.id, b.certificate, [dead], ChannelKind.CALL)

    on_loop(loop, scenario())


def test_a_peer_may_not_open_more_than_its_channels(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHANNELS", 3)

    async def scenario() -> None:
        async with nodes() as (a, b):
            open_channels = [await a.connect(b) for _ in range(2)]
            await eventually(lambda: len(a.plane._calls._peers[b.id].ready) == 1)
            open_channels.append(await a.connect(b))
            with pytest.raises(PeerUnreachable, match="3 channels"):
                await a.connect(b)
            # A peer that does not keep to it is refused by the listening side.
            mine = a.plane._calls._peers[b.id].connections
            counted = set(mine)
            mine.clear()
            with pytest.raises(PeerUnreachable, match="did not accept"):
                await a.connect(b)
            assert b.counts == ["too many channels"]
            mine |= counted
            for channel in open_channels:
                channel.abort()

    on_loop(loop, scenario())


def test_idle_connections_are_kept_and_then_end(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_connection, "IDLE_SECONDS", 0.4)
    monkeypatch.setattr(tls_connection, "KEEP_SECONDS", 0.1)

    async def scenario() -> None:
        async with nodes() as (a, b):
            b.handler = echo
            await call(await a.connect(b), b"x")
            held = a.plane._calls._peers[b.id]
            await eventually(lambda: len(held.ready) == 2)
            before = set(held.ready)
            await asyncio.sleep(1.0)
            assert set(held.ready) == before
            # One whose keeper stopped is closed by the listening side, and no longer offered here.
            for connection in before:
                connection._set_timer(0, None)
            await eventually(lambda: not held.connections)
            assert held.ready == []
            assert await call(await a.connect(b), b"y") == b"y"

    on_loop(loop, scenario())


def test_connections_from_before_a_sleep_are_not_used(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with nodes() as (a, b):
            b.handler = echo
            await call(await a.connect(b), b"x")
            held = a.plane._calls._peers[b.id]
            await eventually(lambda: len(held.ready) == 2)
            before = set(held.ready)
            for connection in before:
                connection._kept_at -= 3600
            assert await call(await a.connect(b), b"y") == b"y"
            assert not before & held.connections

    on_loop(loop, scenario())


def test_channels_after_the_end_say_so(loop: str) -> None:
    async def scenario() -> None:
        async with nodes() as (a, b):
            held = [await a.connect(b, kind) for kind in KINDS]
            for channel in held:
                await channel.send(b"x")
            await a.close()
            for channel in held:
                with pytest.raises(LinkClosed):
                    await channel.receive()
                channel.abort()
            with pytest.raises(PeerUnreachable):
                await a.connect(b, ChannelKind.TRANSFER)

    on_loop(loop, scenario())


def test_an_unknown_peer_can_be_forbidden(loop: str) -> None:
    async def scenario() -> None:
        async with nodes() as (a, _):
            a.plane.forbid(NodeId(bytes(32)))

    on_loop(loop, scenario())
