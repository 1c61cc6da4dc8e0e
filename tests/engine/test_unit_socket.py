"""Units between node and child over a real socket pair."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from meshllm_core.engine.protocol import FRAME_LIMIT, LENGTH
from meshllm_core.engine.unit_socket import ChildUnits, NodeUnits
from tests.mesh.members import until


@dataclass
class Ends:
    """Both ends, and what the node was told."""

    child: ChildUnits
    raw: socket.socket
    """A second handle of the child's end, to send what a child never would."""
    node: NodeUnits
    units: list[bytes] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@contextlib.asynccontextmanager
async def ends() -> AsyncIterator[Ends]:
    ours, theirs = socket.socketpair()
    raw = theirs.dup()
    units: list[bytes] = []
    faults: list[str] = []
    node = NodeUnits(units.append, faults.append)
    await asyncio.get_running_loop().create_unix_connection(lambda: node, sock=ours)
    child = ChildUnits(theirs.detach())
    try:
        yield Ends(child, raw, node, units, faults)
    finally:
        node.close()
        child.close()
        raw.close()
        await asyncio.sleep(0)


async def test_units_arrive_whole_and_in_order_both_ways() -> None:
    sent = [b"", b"a", b"b" * 3_000_000, b"c"]
    async with ends() as pair:
        for unit in sent:
            pair.node.send(unit)
        got = [await asyncio.to_thread(pair.child.get, 5.0) for _ in sent]
        assert got == sent
        assert pair.child.get(0) is None

        def send() -> None:
            for unit in sent:
                pair.child.send(unit)

        await asyncio.to_thread(send)
        await until(lambda: len(pair.units) == len(sent))
        assert pair.units == sent


async def test_a_unit_that_is_too_large_is_refused_before_it_is_read() -> None:
    async with ends() as pair:
        pair.raw.sendall(LENGTH.pack(7) + b"goodbye" + LENGTH.pack(FRAME_LIMIT + 1))
        await until(lambda: bool(pair.faults))
        assert pair.units == [b"goodbye"]
        assert str(FRAME_LIMIT) in pair.faults[0]


async def test_who_waits_is_woken_by_words_from_another_thread() -> None:
    async with ends() as pair:
        threading.Timer(0.05, pair.child.wake, ["broken"]).start()
        began = time.monotonic()
        assert await asyncio.to_thread(pair.child.get, 5.0) == "broken"
        assert time.monotonic() - began < 4
        assert pair.child.get(0.01) is None


async def test_a_thousand_words_do_not_block_who_tells_them() -> None:
    async with ends() as pair:
        for number in range(100_000):
            pair.child.wake(number)
        assert [pair.child.get(0) for _ in range(100_000)] == list(range(100_000))
        pair.child.put_back([1, 2])
        pair.child.put_back([0])
        assert [pair.child.get(0) for _ in range(4)] == [0, 1, 2, None]
