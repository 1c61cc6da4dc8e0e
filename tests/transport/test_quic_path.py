"""A peer whose address changes keeps its link; nobody else can move it."""

import asyncio
import os
import socket
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.transport.link import Link
from meshllm_core.transport.quic.endpoint import bind
from meshllm_core.transport.quic.path import PACKET_BYTES, PING, PINGS, PONG, Path, PathProof, tag_of
from tests.transport.quic_nodes import SECONDS, Node, channel, linked, node

SECRET = bytes(range(40))
HERE, THERE = ("192.0.2.7", 1), ("192.0.2.8", 2)


def ends() -> tuple[PathProof, PathProof]:
    """Both ends of one link."""
    return PathProof(SECRET, True, os.urandom), PathProof(SECRET, False, os.urandom)


def test_an_answer_proves_the_address_that_was_asked() -> None:
    client, server = ends()
    ping = client.ping(HERE, 0.0)
    assert ping is not None
    assert tag_of(ping) == SECRET[:8]
    pong = server.answer(ping)
    assert pong is not None
    assert not client.proven(pong, THERE)
    again = client.ping(HERE, 1.0)
    assert again is not None
    pong = server.answer(again)
    assert pong is not None
    assert client.proven(pong, HERE)
    assert not client.proven(pong, HERE), "an answer counts once"


def test_own_packets_sent_back_prove_nothing() -> None:
    client, _ = ends()
    ping = client.ping(HERE, 0.0)
    assert ping is not None
    assert client.answer(ping) is None
    assert not client.proven(bytes([PONG]) + ping[1:], HERE)


def test_pings_are_few() -> None:
    client, server = ends()
    first = client.ping(HERE, 0.0)
    assert first is not None
    assert client.ping(THERE, 0.1) is None
    for turn in range(1, PINGS + 1):
        assert client.ping(HERE, float(turn))
    pong = server.answer(first)
    assert pong is not None
    assert not client.proven(pong, HERE), "it was pushed out by newer ones"


@given(st.binary(max_size=PACKET_BYTES + 4), st.integers(0, PACKET_BYTES - 1), st.integers(1, 255))
def test_forged_packets_prove_nothing(noise: bytes, at: int, flip: int) -> None:
    client, server = ends()
    ping = client.ping(HERE, 0.0)
    assert ping is not None
    pong = server.answer(ping)
    assert pong is not None
    forged = pong[:at] + bytes([pong[at] ^ flip]) + pong[at + 1 :]
    for packet in (noise, forged, bytes([PING]) + noise, bytes([PONG]) + noise):
        assert tag_of(packet) is None or len(packet) == PACKET_BYTES
        assert server.answer(packet) is None
        assert not client.proven(packet, HERE)


async def rebind(moving: Node) -> None:
    """The machine's address changes, and with it the port."""
    endpoint = moving.transport._endpoint
    endpoint.close()
    if sys.platform == "linux":
        moving.host = "127.0.0.2"
    endpoint.sock = bind(moving.host, 0)
    moving.transport.port = endpoint.sock.getsockname()[1]
    await endpoint.open()


async def ask(near: Link, far: Link) -> None:
    """A frame there and one back, on a new channel."""
    one, other = await channel(near, far)
    await one.send(b"there")
    assert await asyncio.wait_for(other.receive(), SECONDS) == b"there"
    await other.send(b"back")
    assert await asyncio.wait_for(one.receive(), SECONDS) == b"back"


@pytest.mark.parametrize("who", ["dialler", "listener"])
async def test_a_link_survives_a_new_address(who: str) -> None:
    async with node() as a, node() as b:
        near, far = await linked(a, b)
        await ask(near, far)
        moving, moved, still, witness = (a, near, far, far) if who == "dialler" else (b, far, near, near)
        await rebind(moving)
        await ask(moved, still)
        assert witness.address == moving.address
        await ask(still, moved)
        assert not a.refused
        assert not b.refused


async def test_a_copied_packet_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with node() as a, node() as b:
        near, far = await linked(a, b)
        seen: list[bytes] = []
        send = a.transport._endpoint.send

        def watch(data: bytes, path: Path) -> None:
            seen.append(data)
            send(data, path)

        monkeypatch.setattr(a.transport._endpoint, "send", watch)
        await ask(near, far)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as thief:
            thief.bind(("127.0.0.1", 0))
            thief.settimeout(1)
            thief.sendto(seen[-1], ("127.0.0.1", b.transport.port))
            await asyncio.sleep(0.1)
            asked = thief.recv(2000)
            assert asked[0] == PING
            thief.sendto(bytes([PONG]) + asked[1:], ("127.0.0.1", b.transport.port))
            await asyncio.sleep(0.1)
        assert far.address == a.address
        assert b.refused == {"malformed": 1}
        await ask(near, far)
