"""A member that means ill: what it can make another one do, which is little."""

import asyncio
import os
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from meshllm_core.discovery.token import Endpoint, decode, encode
from meshllm_core.errors import JoinRefused, ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import NodeId
from meshllm_core.membership.gossip_records import announcement_record
from meshllm_core.mesh import control
from meshllm_core.mesh.addresses import AddressBook
from meshllm_core.mesh.peer_link import PeerLink
from meshllm_core.wire import gossip as go
from meshllm_core.wire import handshake as hs
from meshllm_core.wire.announcement import Address
from tests.mesh.members import Member, joined, members, until

ELSEWHERE = "127.0.0.2"


@pytest.mark.parametrize(
    "host",
    [
        "example.org",
        "localhost",
        "1.2.3",
        "999.1.1.1",
        "::g",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "ff02::1",
        "255.255.255.255",
    ],
)
def test_only_addresses_of_one_machine_are_dialled(host: str) -> None:
    book, node = AddressBook(), NodeId(bytes(32))
    assert not book.learn(node, [Address(host, 9)])
    assert not book.candidates(node)
    assert book.learn(node, [Address(host, 9), Address("10.0.0.1", 9)])
    assert book.candidates(node) == [Address("10.0.0.1", 9)]


async def test_no_member_can_look_for_open_ports_through_another(tmp_path: Path) -> None:
    came: list[str] = []

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append("tcp")
        writer.close()

    async with members(tmp_path, "a", "evil") as (a, evil):
        await joined(a, evil)
        async with await asyncio.start_server(accept, ELSEWHERE, 0) as server:
            port = server.sockets[0].getsockname()[1]
            strange = Address(ELSEWHERE, port)
            here, there = link(a, evil), link(evil, a)
            hello = msgspec.structs.replace(
                here.greeted.hello, addresses=(strange, Address("localhost", port))
            )
            object.__setattr__(here.greeted, "hello", hello)
            session = a.service.session
            assert session is not None
            session.mesh.reach._served.clear()
            said = hs.DialBack(nonce=bytes(8), addresses=hello.addresses)
            there.push(control.HANDSHAKE + hs.encoder.encode(said))
            await until(lambda: evil.key.public in session.mesh.reach._served)
            await asyncio.sleep(0.5)
    assert came == []


async def test_a_stolen_certificate_and_a_wrong_key_open_no_door(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b", "thief") as (a, b, thief):
        await joined(a, b)
        sockets = await thief.service.listen()
        address = link(b, a).greeted.link.address
        assert b.service.session is not None
        me = thief.service.greeter.me
        me.mesh, me.chain = b.service.session.state.mesh, b.service.greeter.me.chain
        dialled = await sockets.transport.dial(a.key.public, address, timeout=3)
        with pytest.raises(JoinRefused, match="does not know this node"):
            await thief.service.greeter.greet(dialled)
        with pytest.raises(ProofInvalid, match="another node answers"):
            await sockets.transport.dial(SigningKey.generate().public, address, timeout=3)
        await until(lambda: a.refused("stolen certificate") == 1)
        assert thief.key.public.hex() not in {row.node for row in a.snapshot.peers}


async def test_a_join_that_was_recorded_and_is_sent_again_lets_nobody_in(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        invite = decode(await a.invite(uses=5))
        real = invite.addresses[0]
        loop = asyncio.get_running_loop()
        transport, recorder = await loop.create_datagram_endpoint(
            lambda: Recorder((real.host, real.port)), local_addr=("127.0.0.1", 0)
        )
        between = Endpoint(*transport.get_extra_info("sockname"))
        view = await b.join(encode(replace(invite, addresses=(between,))))
        assert view.state == "joined", view
        await b.service.stop()
        assert len(recorder.recorded) > 5
        for source in ("127.0.0.1", ELSEWHERE):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
                again.bind((source, 0))
                for datagram in recorder.recorded * 3:
                    again.sendto(datagram, (real.host, real.port))
                    await asyncio.sleep(0)
        transport.close()
        await asyncio.sleep(0.5)
        assert a.snapshot.mesh is not None
        assert [(row.used, row.state) for row in a.snapshot.mesh.invites] == [(1, "open")]
        assert a.service.session is not None
        assert not a.service.session.mesh.links
        assert a.service.session.healthy
        assert [row.status for row in a.snapshot.peers] == ["left"]


class Recorder(asyncio.DatagramProtocol):
    """Stands between two nodes, passes everything on and keeps what the one that dials sent."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.dialler: tuple[str | Any, int] | None = None
        self.recorded: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        if addr == self.target:
            self.transport.sendto(data, self.dialler)
            return
        self.dialler = addr
        self.recorded.append(data)
        self.transport.sendto(data, self.target)


async def test_announcements_that_are_too_large_or_forged_are_counted_and_not_passed_on(
    tmp_path: Path,
) -> None:
    async with members(tmp_path, "a", "b", "evil") as (a, b, evil):
        await joined(a, b, evil)
        session = evil.service.session
        assert session is not None
        said = session.mesh.announcer._make()
        forged = announcement_record(
            SigningKey.generate(), msgspec.structs.replace(said, name="forged", sequence=5)
        )
        many = msgspec.structs.replace(
            said,
            sequence=9,
            addresses=tuple(Address(f"10.0.{i // 250}.{i % 250 + 1}", 9) for i in range(500)),
        )
        for record in (forged, announcement_record(evil.key, many)):
            send(evil, a, go.Item(int(record.kind), go.pack_digest(record.key, record.version), record.raw))
        await until(lambda: a.refused("announcement") >= 1)
        link(evil, a).push(control.GOSSIP + os.urandom(200_000))
        await until(lambda: a.refused("malformed") == 1)
        for one in (a, b):
            assert {row.name for row in one.snapshot.peers} == {"a", "b", "evil"} - {one.name}
            held = one.service.session
            assert held is not None
            assert len(held.mesh.book.candidates(evil.key.public)) <= 2


async def test_a_flood_of_announcements_costs_others_nothing(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b", "evil") as (a, b, evil):
        await joined(a, b, evil)
        session = evil.service.session
        assert session is not None
        said, before = session.mesh.announcer._make(), a.snapshot.sequence
        end = time.monotonic() + 2
        sequence = 1000
        while time.monotonic() < end:
            for _ in range(50):
                sequence += 1
                record = announcement_record(
                    evil.key, msgspec.structs.replace(said, sequence=sequence, name=f"evil {sequence}")
                )
                send(
                    evil, a, go.Item(int(record.kind), go.pack_digest(record.key, record.version), record.raw)
                )
            await asyncio.sleep(0)
        assert sequence > 1200
        assert a.snapshot.sequence - before < 200
        assert a.sees(b)
        assert b.sees(a)


def send(sender: Member, receiver: Member, item: go.Item) -> None:
    """A record, unasked."""
    link(sender, receiver).push(control.GOSSIP + go.encode(go.Records((item,))))


def link(one: Member, other: Member) -> PeerLink:
    """The link from one to the other."""
    session = one.service.session
    assert session is not None
    return session.mesh.links[other.key.public]
