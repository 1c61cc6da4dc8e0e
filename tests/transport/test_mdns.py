"""mDNS with real sockets on loopback: two nodes find each other, and nonsense is ignored."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable

import pytest
from zeroconf import IPVersion
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from meshllm_core.discovery.mdns_record import SERVICE, Found, mesh_tag
from meshllm_core.errors import DiscoveryError
from meshllm_core.ids import MeshId, NodeId
from meshllm_core.transport.mdns import Nearby
from meshllm_core.transport.multicast import probe_multicast

LOOPBACK = "127.0.0.1"
SECONDS = 10


class Node:
    """A node on the network, and what it was told."""

    def __init__(self, port: int) -> None:
        self.id = NodeId(os.urandom(32))
        self.mesh = MeshId(os.urandom(32))
        self.port = port
        self.nearby = Nearby()
        self.found: dict[NodeId, Found] = {}
        self.lost: list[NodeId] = []

    async def start(self, *addresses: str) -> None:
        await self.nearby.start(
            node=self.id,
            mesh=self.mesh,
            port=self.port,
            addresses=addresses,
            on_found=lambda found: self.found.update({found.node: found}),
            on_lost=self.lost.append,
        )


async def until(condition: Callable[[], bool]) -> None:
    """Returns when `condition` holds."""
    for _ in range(100 * SECONDS):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not within {SECONDS} s")


@pytest.fixture
async def nodes() -> AsyncIterator[tuple[Node, Node]]:
    pair = Node(4400), Node(4401)
    for node in pair:
        await node.start(LOOPBACK)
    yield pair
    for node in pair:
        await node.nearby.close()


async def test_two_nodes_find_each_other_and_notice_changes_and_the_end(nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    await until(lambda: b.id in a.found and a.id in b.found)
    version = a.found[b.id].version
    assert a.found[b.id] == Found(b.id, mesh_tag(b.mesh), (LOOPBACK,), 4401, version)
    assert a.id not in a.found

    other = MeshId(os.urandom(32))
    await b.nearby.set_mesh(other)
    await until(lambda: a.found[b.id].mesh_tag == mesh_tag(other))

    await b.nearby.update([LOOPBACK, "127.0.0.2"])
    await until(lambda: set(a.found[b.id].addresses) == {LOOPBACK, "127.0.0.2"})

    a.lost.clear()
    await b.nearby.close()
    await until(lambda: a.lost == [b.id])


async def test_malformed_records_are_counted_and_ignored(nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    await until(lambda: b.id in a.found)
    async with _foreign({"schema": "1", "id": "not hex"}) as name:
        await until(lambda: a.nearby.malformed > 0)
        assert name
    # Nodes that run on this machine are found too; the stranger's record is the only one with port 1.
    assert all(found.port != 1 for found in a.found.values())


async def test_without_an_address_it_waits_for_one() -> None:
    node, other = Node(4402), Node(4403)
    await node.start()
    await other.start(LOOPBACK)
    await asyncio.sleep(0.1)
    assert node.id not in other.found
    await node.nearby.update([LOOPBACK])
    await until(lambda: node.id in other.found and other.id in node.found)
    await node.nearby.close()
    await other.nearby.close()
    await other.nearby.close()


async def test_an_address_of_another_machine_is_refused_in_words() -> None:
    node = Node(4404)
    with pytest.raises(DiscoveryError, match=r"192\.0\.2\.7") as caught:
        await node.start("192.0.2.7")
    assert "token" in caught.value.hint
    await node.nearby.close()


async def test_multicast_comes_back_on_loopback() -> None:
    assert await probe_multicast([LOOPBACK]) is True
    assert await probe_multicast([]) is None
    assert await probe_multicast(["fd00::1"]) is None
    assert await probe_multicast(["192.0.2.7"]) is None
    assert await probe_multicast(["192.0.2.7", LOOPBACK]) is True


@contextlib.asynccontextmanager
async def _foreign(texts: dict[str, str]) -> AsyncIterator[str]:
    """Another program's record of our service type."""
    responder = AsyncZeroconf(interfaces=[LOOPBACK], ip_version=IPVersion.V4Only)
    name = f"stranger.{SERVICE}"
    info = AsyncServiceInfo(
        SERVICE,
        name,
        parsed_addresses=[LOOPBACK],
        port=1,
        properties=texts,
        server="stranger.local.",
    )
    await (await responder.async_register_service(info, cooperating_responders=True))
    try:
        yield name
    finally:
        await responder.async_close()
