"""The mesh as part of a node: how it comes up when something is in its way, and how it ends."""

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from meshllm_core.config import load_settings
from meshllm_core.discovery.token import Endpoint, Invite, encode
from meshllm_core.errors import JoinFailed, JoinRefused, LinkClosed, MeshNetworkError
from meshllm_core.identity.keys import SigningKey
from meshllm_core.mesh.joiner import Joiner
from meshllm_core.models.hardware import Hardware
from meshllm_core.node import mesh as node_mesh
from meshllm_core.node.hosts import Hosts
from meshllm_core.node.mesh import NodeMesh
from meshllm_core.node.store import EventStore
from meshllm_core.paths import default_paths
from meshllm_core.serve.service import InferenceService
from tests.mesh.members import until


class NoModels:
    """A node's models, of which there are none: all memory is free to lend, and it is little.

    Its hardware is never found out, so nothing is measured on it.
    """

    def __init__(self) -> None:
        self.hardware: asyncio.Future[Hardware] = asyncio.get_running_loop().create_future()

    def memory_usable(self, held: int) -> int:
        """Bytes."""
        return (1 << 30) - held


@contextlib.asynccontextmanager
async def node(folder: Path, **flags: object) -> AsyncIterator[NodeMesh]:
    """A node's mesh without its HTTP servers; stopped with the block, within five seconds."""
    paths = default_paths({"MESHLLM_HOME": str(folder)})
    wishes = {"mesh_discovery_mode": "off", "bind_ip": ["127.0.0.1"], **flags}
    settings = load_settings(paths, flags=wishes, environ={})
    store = EventStore()
    made = NodeMesh(settings, paths, store, "test")
    made.inference = InferenceService({}, store.append, peers=made, name="test")
    made.hosts = cast(Hosts, NoModels())
    made.start()
    try:
        yield made
    finally:
        async with asyncio.timeout(5):
            await made.stop()
        store.close()


@pytest.fixture
def taken() -> int:
    """A free port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_port_that_is_taken_at_the_start_is_tried_again(
    tmp_path: Path, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_mesh, "RETRY_SECONDS", 0.2)
    async with node(tmp_path, bind_port=taken) as first:
        await first.act("invite", {})
        mesh = first.store.snapshot.mesh
    assert mesh is not None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hog:
        hog.bind(("127.0.0.1", taken))
        async with node(tmp_path, bind_port=taken) as again:
            await until(lambda: bool(again.store.snapshot.notices))
            (notice,) = again.store.snapshot.notices
            assert str(taken) in notice.text
            assert "tried again" in notice.text
            assert again.store.snapshot.mesh is None
            await asyncio.sleep(0.5)
            assert len(again.store.snapshot.notices) == 1
            hog.close()
            await until(lambda: again.store.snapshot.mesh is not None)
            assert again.store.snapshot.mesh is not None
            assert again.store.snapshot.mesh.mesh == mesh.mesh


async def test_a_lost_key_is_told_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_mesh, "RETRY_SECONDS", 0.05)
    async with node(tmp_path) as first:
        await first.act("invite", {})
        key_file = first.paths.node_key_file
    key_file.unlink()
    async with node(tmp_path) as again:
        await until(lambda: bool(again.store.snapshot.notices))
        await asyncio.sleep(0.3)
        (notice,) = again.store.snapshot.notices
        assert "gone" in notice.text
        assert "tried again" not in notice.text


def token_of_nobody(port: int) -> str:
    """An invite of a node that does not answer."""
    return encode(
        Invite(
            node=SigningKey.generate().public,
            secret=bytes(range(16)),
            mesh=bytes(8),
            expires_at=0,
            addresses=(Endpoint("127.0.0.1", port),),
            role="host",
        )
    )


async def test_a_client_in_no_mesh_is_told_so(tmp_path: Path) -> None:
    async with node(tmp_path, client=True) as alone:
        await until(lambda: bool(alone.store.snapshot.notices))
        assert "in no mesh" in alone.store.snapshot.notices[0].text


async def test_a_node_that_looks_for_somebody_who_is_away_stops_at_once(tmp_path: Path, taken: int) -> None:
    token = token_of_nobody(taken)
    async with node(tmp_path, join=token) as waiting:
        await until(lambda: waiting.store.snapshot.join is not None)
        await asyncio.sleep(0.5)
        began = time.monotonic()
        await waiting.stop()
        assert time.monotonic() - began < 1.5


@pytest.mark.parametrize(
    "error", [JoinRefused("Full.", reason="full"), JoinFailed("Nobody."), LinkClosed("x")]
)
async def test_a_public_mesh_is_looked_for_again_whatever_went_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: MeshNetworkError
) -> None:
    tries: list[object] = []

    async def public(_: Joiner, wants: object) -> None:
        tries.append(wants)
        raise error

    monkeypatch.setattr(node_mesh, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(Joiner, "public", public)
    async with node(tmp_path, auto=True):
        await until(lambda: len(tries) > 2)


BY_ITSELF = """
import asyncio, sys
from pathlib import Path
from meshllm_core.config import load_settings
from meshllm_core.node.mesh import NodeMesh
from meshllm_core.node.store import EventStore
from meshllm_core.paths import default_paths
from meshllm_core.serve.service import InferenceService

async def main():
    paths = default_paths({"MESHLLM_HOME": sys.argv[1]})
    store = EventStore()
    mesh = NodeMesh(load_settings(paths, flags={}, environ={}), paths, store, "alone")
    mesh.inference = InferenceService({}, store.append, peers=mesh, name="alone")
    mesh.start()
    while not store.snapshot.node:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert not mesh.replicas()
    await mesh.stop()

asyncio.run(main())
print(*sorted({name.partition(".")[0] for name in sys.modules} | set(sys.modules)))
"""


def test_a_node_by_itself_spends_nothing_on_the_mesh(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BY_ITSELF, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert "meshllm_core.node.mesh" in loaded
    heavy = {"aioquic", "zeroconf", "nostr_sdk", "qrcode", "PIL", "zxingcpp"}
    assert not loaded & (heavy | {"meshllm_core.mesh.service", "meshllm_core.transport.quic"})
