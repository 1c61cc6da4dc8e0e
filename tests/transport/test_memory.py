"""The memory transport keeps the rules of a real one, and virtual time jumps."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

import pytest

from meshllm_core.errors import LinkClosed, PeerUnreachable, ProofInvalid, WireError
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import NodeId
from meshllm_core.transport.link import Channel, ChannelKind, Link, Transport
from meshllm_core.transport.memory import MemoryNetwork, MemoryTransport
from meshllm_core.transport.memory_link import SEND_HIGH
from meshllm_core.transport.virtual_clock import VirtualClock, virtual_loop
from meshllm_core.wire import limits

T = TypeVar("T")
A, B = SigningKey(b"\1" * 32), SigningKey(b"\2" * 32)


class Pair:
    """Two transports and the links that came in at the second."""

    def __init__(self, **air: float) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.network = MemoryNetwork(self.clock, Random(7).random, **air)
        self.came: asyncio.Queue[Link] = asyncio.Queue()
        self.a = self.network.transport(A, self._ignored)
        self.b = self.network.transport(B, self.came.put)

    async def _ignored(self, link: Link) -> None: ...

    async def linked(self) -> tuple[Link, Link]:
        mine = await self.a.dial(B.public, self.b.address, timeout=3)
        return mine, await self.came.get()

    async def channel(self, kind: ChannelKind = ChannelKind.CONTROL) -> tuple[Channel, Channel]:
        mine, theirs = await self.linked()
        mine.admit()
        theirs.admit()
        opened = await mine.open(kind)
        return opened, await theirs.accept()


def virtually(work: Callable[[], Awaitable[T]]) -> T:
    """Runs a coroutine function in virtual time."""

    async def run() -> T:
        return await work()

    with asyncio.Runner(loop_factory=virtual_loop) as runner:
        return runner.run(run())


def test_an_hour_passes_at_once() -> None:
    async def work() -> float:
        await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(1800))
        return asyncio.get_running_loop().time()

    begun = time.monotonic()
    assert virtually(work) == pytest.approx(3600)
    assert time.monotonic() - begun < 2


def test_virtual_time_and_real_sockets() -> None:
    async def work() -> bytes:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(5))
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
            writer.write(b"hello")
            answer = await reader.readexactly(5)
            writer.close()
            await writer.wait_closed()
        return answer

    assert virtually(work) == b"hello"


def test_frames_keep_their_order_in_a_bad_air() -> None:
    async def work() -> list[bytes]:
        pair = Pair(delay=0.05, jitter=0.2, loss=0.3)
        mine, theirs = await pair.channel()
        for number in range(200):
            await mine.send(b"%d" % number)
        await mine.finish()
        found = []
        while (body := await theirs.receive()) is not None:
            found.append(body)
        await theirs.send(b"still open this way")
        assert await mine.receive() == b"still open this way"
        with pytest.raises(LinkClosed):
            await mine.send(b"after the end")
        return found

    assert virtually(work) == [b"%d" % number for number in range(200)]


def test_before_admission_one_control_channel_and_small_frames() -> None:
    async def work() -> None:
        pair = Pair()
        mine, theirs = await pair.linked()
        call = await mine.open(ChannelKind.CALL)
        with pytest.raises(LinkClosed, match="refused"):
            await call.receive()
        first = await mine.open(ChannelKind.CONTROL)
        taken = await theirs.accept()
        second = await mine.open(ChannelKind.CONTROL)
        with pytest.raises(LinkClosed, match="refused"):
            await second.receive()
        await first.send(bytes(limits.STRANGER_FRAME + 1))
        with pytest.raises(WireError):
            await taken.receive()
        theirs.admit()
        mine.admit()
        await (await mine.open(ChannelKind.CALL)).send(bytes(limits.STRANGER_FRAME + 1))
        assert len(await (await theirs.accept()).receive() or b"") == limits.STRANGER_FRAME + 1

    virtually(work)


def test_a_channel_too_many_is_refused() -> None:
    async def work() -> None:
        mine, theirs = await Pair().linked()
        mine.admit()
        theirs.admit()
        channels = [await mine.open(ChannelKind.CALL) for _ in range(limits.CHANNELS + 1)]
        with pytest.raises(LinkClosed, match="refused"):
            await channels[-1].receive()
        for _ in range(limits.CHANNELS):
            await theirs.accept()
        channels[0].abort()
        await asyncio.sleep(1)
        again = await mine.open(ChannelKind.CALL)
        await again.send(b"there is room again")
        assert await (await theirs.accept()).receive() == b"there is room again"

    virtually(work)


def test_send_waits_for_the_reader() -> None:
    async def work() -> None:
        mine, theirs = await Pair().channel(ChannelKind.CALL)
        sent = 0

        async def pour() -> None:
            nonlocal sent
            while True:
                await mine.send(bytes(100_000))
                sent += 100_000

        task = asyncio.create_task(pour())
        await asyncio.sleep(60)
        stuck = sent
        assert SEND_HIGH <= stuck <= SEND_HIGH + 200_000
        for _ in range(10):
            await theirs.receive()
        await asyncio.sleep(1)
        assert sent > stuck
        theirs.abort()
        with pytest.raises(LinkClosed):
            await task

    virtually(work)


def test_dial_names_whom_it_expects() -> None:
    async def work() -> None:
        pair = Pair()
        transport: Transport = pair.a
        with pytest.raises(ProofInvalid):
            await transport.dial(NodeId(bytes(32)), pair.b.address, timeout=3)
        await pair.b.close()
        begun = pair.clock.monotonic()
        with pytest.raises(PeerUnreachable):
            await transport.dial(B.public, pair.b.address, timeout=3)
        assert pair.clock.monotonic() - begun == pytest.approx(3)

    virtually(work)


def test_a_short_partition_holds_frames_and_a_long_one_ends_the_link() -> None:
    async def work() -> None:
        pair = Pair()
        mine, theirs = await pair.channel()
        pair.network.part([A.public])
        await mine.send(b"late")
        await asyncio.sleep(5)
        pair.network.heal()
        assert await theirs.receive() == b"late"
        pair.network.part([A.public], [B.public])
        await mine.send(b"lost")
        with pytest.raises(LinkClosed):
            await theirs.receive()
        with pytest.raises(LinkClosed):
            await mine.receive()
        with pytest.raises(PeerUnreachable):
            await pair.a.dial(B.public, pair.b.address, timeout=1)
        pair.network.heal()
        await pair.linked()

    virtually(work)


def test_one_way_only() -> None:
    async def work() -> None:
        pair = Pair(idle_timeout=5)
        mine, theirs = await pair.linked()
        pair.network.block(B.public, A.public)
        begun = pair.clock.monotonic()
        assert await mine.wait_closed() == "Nothing came for too long."
        assert pair.clock.monotonic() - begun == pytest.approx(5, abs=0.1)
        assert await theirs.wait_closed() == "Nothing came for too long."
        assert pair.clock.monotonic() - begun == pytest.approx(10, abs=0.1)

    virtually(work)


def test_a_frozen_node_finds_its_links_dead_and_its_clock_jumped() -> None:
    async def work() -> None:
        pair = Pair()
        mine, theirs = await pair.linked()
        clock = pair.network.clock(B.public)
        pair.network.freeze(B.public)
        before = clock.monotonic(), clock.time()
        await asyncio.sleep(90)
        assert (clock.monotonic(), clock.time()) == before
        assert await mine.wait_closed()
        pair.network.thaw(B.public)
        assert await theirs.wait_closed()
        assert clock.monotonic() - before[0] == pytest.approx(90)

    virtually(work)


def test_a_killed_node_says_nothing_and_a_closed_one_does() -> None:
    async def work() -> None:
        pair = Pair()
        mine, _ = await pair.linked()
        begun = pair.clock.monotonic()
        pair.network.kill(B.public)
        await mine.wait_closed()
        assert pair.clock.monotonic() - begun == pytest.approx(10)

        again = Pair()
        mine, _ = await again.linked()
        begun = again.clock.monotonic()
        await again.b.close()
        assert await mine.wait_closed() == "the node stopped"
        assert again.clock.monotonic() - begun < 0.1

    virtually(work)


def test_knock() -> None:
    async def work() -> None:
        pair = Pair()
        knocks: list[bytes] = []
        pair.b.on_knock = knocks.append
        await pair.a.knock(pair.b.address, b"12345678")
        pair.network.block(A.public, B.public)
        await pair.a.knock(pair.b.address, b"87654321")
        await asyncio.sleep(1)
        assert knocks == [b"12345678"]
        assert isinstance(pair.a, MemoryTransport)

    virtually(work)


def test_a_deadlock_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meshllm_core.transport.virtual_clock.PATIENCE", 0.05)

    async def work() -> None:
        await asyncio.Event().wait()

    loop = virtual_loop()
    task = loop.create_task(work())
    try:
        with pytest.raises(RuntimeError, match="wait for each other"):
            loop.run_until_complete(task)
    finally:
        task.cancel()
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
