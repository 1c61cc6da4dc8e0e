"""What a channel promises: order, back-pressure, bounds, and how it ends."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from meshllm_core.errors import LinkClosed, WireError
from meshllm_core.transport.link import Channel, ChannelKind
from meshllm_core.transport.quic import windows
from meshllm_core.transport.quic.channel import QuicChannel
from meshllm_core.transport.quic.link import QuicLink
from meshllm_core.transport.quic.path import Path
from meshllm_core.wire import limits
from meshllm_core.wire.frames import frame
from tests.transport.quic_nodes import SECONDS, channel, linked, node

Send = Callable[[bytes, Path], None]
STALL = 0.3
"""Seconds in which loopback would carry far more than any bound."""


def quic(one: Channel) -> QuicChannel:
    """The channel, known to be one of QUIC."""
    assert isinstance(one, QuicChannel)
    return one


async def pull(one: Channel) -> bytes | None:
    """The next frame, soon."""
    return await asyncio.wait_for(one.receive(), SECONDS)


async def test_frames_in_order_both_ways() -> None:
    async with node() as a, node() as b:
        one, other = await channel(*await linked(a, b))
        assert (one.kind, other.kind, one.path, other.path) == (
            ChannelKind.CALL,
            ChannelKind.CALL,
            "quic",
            "quic",
        )
        for size in (0, 1, 1199, 1200, 70_000):
            await one.send(bytes([size % 251]) * size)
            await other.send(b"back" + bytes(size))
        for size in (0, 1, 1199, 1200, 70_000):
            assert await pull(other) == bytes([size % 251]) * size
            assert await pull(one) == b"back" + bytes(size)


async def test_a_channel_ends_in_both_directions() -> None:
    async with node() as a, node() as b:
        near, far = await linked(a, b)
        one, other = await channel(near, far)
        await one.send(b"question")
        await one.finish()
        with pytest.raises(LinkClosed, match="finished"):
            await one.send(b"more")
        with pytest.raises(LinkClosed, match="finished"):
            await one.finish()
        assert await pull(other) == b"question"
        assert await pull(other) is None
        assert await pull(other) is None
        await other.send(b"answer")
        await other.finish()
        assert await pull(one) == b"answer"
        assert await pull(one) is None
        assert isinstance(near, QuicLink)
        assert isinstance(far, QuicLink)
        assert not near._channels
        assert not far._channels


async def test_abort_is_noticed_at_the_other_end() -> None:
    async with node() as a, node() as b:
        near, far = await linked(a, b)
        for aborts, notices in ((0, 1), (1, 0)):
            ends = await channel(near, far)
            await ends[aborts].send(b"lost")
            await pull(ends[notices])
            ends[aborts].abort()
            ends[aborts].abort()
            with pytest.raises(LinkClosed):
                await pull(ends[notices])
            with pytest.raises(LinkClosed):
                await ends[notices].send(b"x")
            with pytest.raises(LinkClosed, match="given up"):
                await ends[aborts].receive()
        one, other = await channel(near, far)
        await one.send(b"the link lives")
        assert await pull(other) == b"the link lives"


async def test_streams_are_given_back() -> None:
    async with node() as a, node() as b:
        near, far = await linked(a, b)
        for turn in range(300):
            one, other = await channel(near, far)
            if turn % 2:
                one.abort()
            else:
                await one.finish()
                assert await pull(other) is None
                await other.finish()
                assert await pull(one) is None
            other.abort()
        await asyncio.sleep(0.1)
        for link in (near, far):
            assert isinstance(link, QuicLink)
            assert not link._channels
            assert not link._refused
            assert len(link._driver.quic._streams) <= 2
            assert not link._driver.quic._taken


async def test_a_sender_waits_for_the_peer() -> None:
    async with node() as a, node() as b:
        near, far = await linked(a, b)
        one, other = await channel(near, far)
        sent = 0

        async def push() -> None:
            nonlocal sent
            for _ in range(64):
                await one.send(bytes(256 << 10))
                sent += 1

        pushing = asyncio.create_task(push())
        await asyncio.sleep(STALL)
        stalled = sent
        await asyncio.sleep(STALL)
        assert sent == stalled < 16
        assert near._driver.quic.backlog(0) <= windows.SEND_HIGH + windows.PIECE + 4  # type: ignore[attr-defined]
        assert len(quic(other)._unread) <= windows.UNREAD
        received = far._driver.quic._streams[0].receiver.highest_offset  # type: ignore[attr-defined]
        assert windows.UNREAD_STRANGER < received <= windows.UNREAD + 1
        for _ in range(64):
            assert await pull(other) == bytes(256 << 10)
        await pushing


async def test_a_stranger_is_held_shorter() -> None:
    async with node() as a, node() as b:
        near, far = await linked(a, b, admit=False)
        one, other = await channel(near, far, ChannelKind.CONTROL)
        for _ in range(200):
            await one.send(bytes(limits.STRANGER_FRAME))
            assert await pull(other) == bytes(limits.STRANGER_FRAME)
        pushing = asyncio.create_task(one.send(bytes(2 << 20)))
        await asyncio.sleep(STALL)
        assert len(quic(other)._unread) <= windows.UNREAD_STRANGER
        assert isinstance(far, QuicLink)
        window = far._driver.quic._local_max_data
        unread = len(quic(other)._unread)
        assert window.value <= window.used - unread + windows.LINK_UNREAD_STRANGER, "all channels together"
        with pytest.raises(WireError, match="limit is 8192"):
            await pull(other)
        with pytest.raises(LinkClosed):
            await asyncio.wait_for(pushing, SECONDS)
        assert b.refused == {"too large": 1}


async def test_one_unread_channel_does_not_stop_the_others() -> None:
    async with node() as a, node() as b:
        near, far = await linked(a, b)
        stuck = [await channel(near, far) for _ in range(4)]
        pushing = [asyncio.create_task(one.send(bytes(3 << 20))) for one, _ in stuck]
        await asyncio.sleep(STALL)
        one, other = await channel(near, far)
        for _ in range(20):
            await one.send(bytes(64 << 10))
            assert await pull(other) == bytes(64 << 10)
        for _, unread in stuck:
            unread.abort()
        for task in pushing:
            with pytest.raises(LinkClosed):
                await asyncio.wait_for(task, SECONDS)


async def test_a_frame_over_the_limit_is_refused_by_its_header() -> None:
    async with node() as a, node() as b:
        one, other = await channel(*await linked(a, b))
        other.limit = 1000
        await one.send(bytes(1000))
        assert await pull(other) == bytes(1000)
        await one.send(bytes(1001))
        with pytest.raises(WireError, match="1001 bytes"):
            await pull(other)
        with pytest.raises(LinkClosed):
            await pull(one)
        assert b.refused == {"too large": 1}


async def test_a_frame_that_is_cut_is_no_end() -> None:
    async with node() as a, node() as b:
        near, far = await linked(a, b)
        one, other = await channel(near, far)
        assert isinstance(near, QuicLink)
        near.write(quic(one).stream_id, frame(b"whole") + frame(b"cut")[:-1], end=True)
        assert await pull(other) == b"whole"
        with pytest.raises(WireError, match="middle of a frame"):
            await pull(other)
        assert b.refused == {"malformed": 1}


@pytest.mark.parametrize("first", [b"\0", b"\x04", b"\xff" * 100])
async def test_a_channel_of_no_kind(first: bytes) -> None:
    async with node() as a, node() as b:
        near, far = await linked(a, b)
        assert isinstance(near, QuicLink)
        near._driver.quic.send_stream_data(near._driver.quic.get_next_available_stream_id(), first)
        near._driver.transmit()
        one, other = await channel(near, far)
        await one.send(b"x")
        assert await pull(other) == b"x"
        assert b.refused == {"malformed": 1}


async def test_a_cancelled_send_gives_up_half_a_frame_only() -> None:
    async with node() as a, node() as b:
        one, other = await channel(*await linked(a, b))
        sending = asyncio.create_task(one.send(bytes(limits.CALL_FRAME)))
        await asyncio.sleep(STALL)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        with pytest.raises(LinkClosed, match="given up"):
            await one.send(b"x")
        with pytest.raises(LinkClosed):
            while await pull(other) is not None:
                pass


async def test_loss_and_repetition_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with node() as a, node() as b:
        near, far = await linked(a, b)
        one, other = await channel(near, far)
        for side in (a, b):
            send, count = side.transport._endpoint.send, iter(range(1 << 30))

            def lossy(data: bytes, path: Path, send: Send = send, count: Iterator[int] = count) -> None:
                turn = next(count)
                if turn % 11:
                    send(data, path)
                if turn % 7 == 0:
                    send(data, path)

            monkeypatch.setattr(side.transport._endpoint, "send", lossy)
        body = bytes(range(256)) * 1200
        sending = asyncio.create_task(one.send(body))
        assert await asyncio.wait_for(other.receive(), 20) == body
        await sending
