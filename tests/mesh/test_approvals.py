"""Invites whose holders wait until a person lets them in."""

import asyncio
from pathlib import Path

import pytest

from meshllm_core.discovery.token import Invite, decode, encode
from meshllm_core.errors import InvalidRequest, NotPermitted
from meshllm_core.mesh import approvals, joiner
from meshllm_core.state.mesh_events import WaitingRow
from meshllm_core.state.snapshot import JoinLine
from tests.mesh.members import Member, joined, members, until


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joiner, "ASK_AGAIN_SECONDS", 0.1)


def waiting(member: Member) -> tuple[WaitingRow, ...]:
    return member.snapshot.mesh.waiting if member.snapshot.mesh is not None else ()


def admission(member: Member) -> JoinLine | None:
    view = member.snapshot.join
    return next((line for line in view.lines if line.step == "admission"), None) if view else None


async def test_who_comes_waits_until_a_person_lets_it_in(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        b.service.joiner.begin(await a.invite(approve=True))
        await until(lambda: bool(waiting(a)))
        (row,) = waiting(a)
        assert (row.node, row.name, row.role) == (b.key.public.hex(), "b", "host")
        assert row.address.startswith("127.0.0.1:")
        await until(lambda: (line := admission(b)) is not None and "approval by a" in line.detail)
        await asyncio.sleep(0.5)
        assert not a.peer(b)
        assert b.service.session is None
        assert a.refused("waiting") == 0
        assert sum("asks to be let in" in notice.text for notice in a.snapshot.notices) == 1
        view = b.snapshot.join
        assert view is not None
        assert [line.status for line in view.lines[:7]] == ["passed"] * 6 + ["running"]
        assert a.service.decide(row.node[:10], admit=True) == "b"
        await until(lambda: a.sees(b) and b.sees(a))
        assert waiting(a) == ()
        view = b.snapshot.join
        assert view is not None
        await until(lambda: b.snapshot.join is not None and b.snapshot.join.state == "joined")
        assert a.snapshot.mesh is not None
        (asking,) = [invite for invite in a.snapshot.mesh.invites if invite.approve]
        assert (asking.state, asking.used_by) == ("used_up", ("b",))


async def test_nobody_comes_in_by_it_at_another_member(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b", "c") as (a, b, c):
        await joined(a, b)
        token = decode(await a.invite(approve=True, uses=0))
        assert b.service.session is not None
        address = b.service.greeter.me.addresses[0]
        elsewhere = Invite(
            node=b.key.public,
            secret=token.secret,
            mesh=token.mesh,
            expires_at=token.expires_at,
            addresses=(type(token.addresses[0])(address.host, address.port),),
            role=token.role,
        )
        view = await c.join(encode(elsewhere))
        assert view.state == "failed"
        assert "does not know this invite" in view.message
        # Not even once the first has been let in by it.
        c.service.joiner.begin(encode(token))
        await until(lambda: bool(waiting(a)))
        a.service.decide(c.key.public.hex(), admit=True)
        await until(lambda: a.sees(c))
        async with members(tmp_path / "late", "d") as (d,):
            view = await d.join(encode(elsewhere))
            assert "does not know this invite" in view.message


async def test_a_no_is_told_and_stays_a_no(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        token = await a.invite(approve=True)
        b.service.joiner.begin(token)
        await until(lambda: bool(waiting(a)))
        a.service.decide(b.key.public.hex(), admit=False)
        await until(lambda: b.snapshot.join is not None and b.snapshot.join.state == "failed")
        assert b.snapshot.join is not None
        assert "did not let this node in" in b.snapshot.join.message
        view = await b.join(token)
        assert "did not let this node in" in view.message
        assert waiting(a) == ()
        with pytest.raises(InvalidRequest, match="No waiting machines"):
            a.service.decide(b.key.public.hex(), admit=True)


async def test_one_that_waits_can_give_up_and_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approvals, "SILENT_SECONDS", 1.0)
    async with members(tmp_path, "a", "b") as (a, b):
        b.service.joiner.begin(await a.invite(approve=True))
        await until(lambda: bool(waiting(a)) and b.service.joiner.waiting)
        await b.service.leave()
        assert b.snapshot.join is not None
        assert b.snapshot.join.message == "Joining was given up."
        await until(lambda: not waiting(a))
        assert b.service.session is None


async def test_nobody_decides_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joiner, "DECIDE_SECONDS", 0.5)
    async with members(tmp_path, "a", "b") as (a, b):
        view = await b.join(await a.invite(approve=True))
        assert view.state == "failed"
        assert view.message.startswith("Nobody decided for")
        assert next(line for line in view.lines if line.step == "admission").status == "failed"


async def test_such_invites_outlive_the_node_and_can_be_taken_back(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        token = await a.invite(approve=True)
        await a.service.stop()
        a.service = a.make()
        await a.service.start()
        assert a.snapshot.mesh is not None
        (row,) = a.snapshot.mesh.invites
        assert (row.approve, row.state) == (True, "open")
        assert a.service.revoke(row.id, confirm=False) == {"revoked": [row.id], "done": False}
        assert [invite.state for invite in a.snapshot.mesh.invites] == ["open"]
        assert a.service.revoke(row.id, confirm=True)["done"]
        assert [invite.state for invite in a.snapshot.mesh.invites] == ["revoked"]
        view = await b.join(token)
        assert "was revoked" in view.message
        assert waiting(a) == ()


async def test_only_so_many_wait_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals, "WAITING", 1)
    async with members(tmp_path, "a", "b", "c") as (a, b, c):
        token = await a.invite(approve=True, uses=0)
        b.service.joiner.begin(token)
        await until(lambda: bool(waiting(a)))
        view = await c.join(token)
        assert "takes no more" in view.message
        assert len(waiting(a)) == 1
        await b.service.leave()


async def test_who_may_not_invite_cannot_do_it_this_way(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        await joined(a, b)
        with pytest.raises(NotPermitted, match="may not invite"):
            await b.invite(approve=True)
