"""Members that meet after an absence, however little each knows of the other."""

from pathlib import Path

import pytest

from meshllm_core.ids import NodeId
from meshllm_core.mesh import absent
from meshllm_core.mesh.absent import Absent
from meshllm_core.mesh.addresses import AddressBook
from meshllm_core.wire.announcement import Address
from tests.mesh.members import Member, joined, members, until
from tests.mesh.test_joining import joined_by

NODES = [NodeId(bytes([number]) * 32) for number in range(1, 6)]


def test_one_that_is_seen_nearby_is_wanted_for_a_while() -> None:
    looking = Absent(lambda: 0.5)
    looking.seen(NODES[0], 100.0)
    assert looking.wanted((), 100.0) == [NODES[0]]
    assert looking.wanted((), 100.0 + absent.SEEN_SECONDS / 2) == [NODES[0]]
    assert looking.wanted((), 100.0 + absent.SEEN_SECONDS) == []
    looking.seen(NODES[0], 200.0)
    looking.found(NODES[0])
    assert looking.wanted((), 200.0) == []


def test_silent_members_are_looked_for_now_and_then_and_few_at_a_time() -> None:
    looking = Absent(lambda: 0.5)
    asked = [node for tick in range(400) for node in looking.wanted(NODES, tick / 4)]
    assert len(asked) == absent.LOOKED_FOR * len(range(0, 100, int(absent.LOOK_SECONDS)))


def test_a_flood_of_records_is_bounded() -> None:
    looking = Absent(lambda: 0.5)
    for number in range(1000):
        looking.seen(NodeId(number.to_bytes(32, "big")), 0.0)
    assert len(looking.wanted((), 0.0)) == absent.SEEN


def test_a_book_tells_whether_an_address_is_new() -> None:
    book = AddressBook()
    assert book.learn(NODES[0], [Address("10.0.0.1", 1)])
    assert not book.learn(NODES[0], [Address("10.0.0.1", 1)])
    assert book.learn(NODES[0], [Address("10.0.0.1", 1), Address("10.0.0.1", 2)])
    assert not book.learn(NODES[0], [])


async def away_while_two_were_let_in(a: Member, b: Member, *others: Member) -> None:
    """A founds and goes; B, whom it let in, lets in the others and goes, too; then A is back."""
    await joined_by(b, await a.invite(may_invite=True))
    await until(lambda: a.sees(b) and b.sees(a))
    await a.service.stop()
    for other in others:
        await joined_by(other, await b.invite())
    for other in others:
        await until(lambda other=other: all(other.sees(o) for o in (b, *others) if o is not other))  # type: ignore[misc]
    await b.service.stop()
    await until(lambda: all(other.sees(b, "left") for other in others))
    a.service = a.make()


async def test_who_was_let_in_while_this_node_was_away_is_a_member_here_too(tmp_path: Path) -> None:
    """Only its own chain proves it: the member that let it in is gone when the two meet."""
    async with members(tmp_path, "a", "b", "c") as (a, b, c):
        await away_while_two_were_let_in(a, b, c)
        await a.service.start()
        assert c.service.session is not None
        c.service.session.mesh.seen_nearby(a.key.public, a.service.greeter.me.addresses)
        await until(lambda: c.sees(a) and a.sees(c), 5)
        assert a.service.revoke(c.key.public.hex(), confirm=False)["revoked"]


async def test_a_node_that_says_nearby_that_it_is_in_this_mesh_is_asked_for_its_proof(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b", "c") as (a, b, c):
        await away_while_two_were_let_in(a, b, c)
        await a.service.start()
        assert a.service.session is not None
        a.service.session.mesh.seen_nearby(c.key.public, c.service.greeter.me.addresses, ours=True)
        await until(lambda: c.sees(a) and a.sees(c), 5)


async def test_members_that_have_each_other_still_look_for_one_that_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A knows nobody who is there, and those who are there have links: nobody would dial A."""
    monkeypatch.setattr(absent, "LOOK_SECONDS", 1.0)
    async with (
        members(tmp_path, "b", "c", "d") as (b, c, d),
        members(tmp_path, "a", bind_port=19_381) as (a,),
    ):
        await away_while_two_were_let_in(a, b, c, d)
        await a.service.start()
        await until(lambda: all(one.sees(a) and a.sees(one) for one in (c, d)), 15)


async def test_a_reused_address_does_not_keep_a_node_from_its_new_one(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        await joined(a, b)
        (old,) = b.service.greeter.me.addresses
        await b.service.stop()
        other = Member("other", tmp_path / "other", options={"bind_port": old.port})
        try:
            await other.invite()
            assert a.service.session is not None
            mesh = a.service.session.mesh
            mesh.seen_nearby(b.key.public, [old])
            await until(lambda: a.refused("wrong key") > 0)
            b.service = b.make()
            sockets = await b.service.listen()
            mesh.seen_nearby(b.key.public, [Address("127.0.0.1", sockets.transport.port)])
            # It listens and is in no mesh yet: that it is asked at all is what counts.
            await until(lambda: b.refused("no mesh") > 0, 4)
        finally:
            await other.service.stop()


async def test_a_stranger_nearby_is_dialled_only_if_it_says_that_it_is_in_this_mesh(tmp_path: Path) -> None:
    async with members(tmp_path, "a") as (a,):
        await a.invite()
        assert a.service.session is not None
        mesh = a.service.session.mesh
        mesh.seen_nearby(NODES[0], [Address("127.0.0.1", 9)])
        assert NODES[0] not in mesh.absent.wanted((), mesh.clock.monotonic())
        assert not mesh.book.candidates(NODES[0])
        mesh.seen_nearby(NODES[0], [Address("127.0.0.1", 9)], ours=True)
        assert NODES[0] in mesh.absent.wanted((), mesh.clock.monotonic())
