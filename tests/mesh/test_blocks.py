"""A member that this node does not talk to: no link, no door, and it is remembered."""

import asyncio
from pathlib import Path

import pytest

from meshllm_core.errors import InvalidRequest
from tests.mesh.members import Member, joined, members, until


def is_linked(one: Member, other: Member) -> bool:
    session = one.service.session
    return session is not None and other.key.public in session.mesh.links


async def test_a_blocked_member_has_no_link_and_stays_a_member_for_the_others(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b", "c") as (a, b, c):
        await joined(a, b, c)
        await until(lambda: is_linked(a, b) and is_linked(c, b))
        assert a.service.block(b.key.public.hex()[:12]) == "b"
        await until(lambda: not is_linked(a, b))
        assert a.snapshot.mesh is not None
        assert a.snapshot.mesh.blocked == (b.key.public.hex(),)
        # Both sides would have dialled again by now.
        await asyncio.sleep(2.0)
        assert not is_linked(a, b)
        assert is_linked(a, c)
        assert is_linked(b, c)
        assert b.sees(c)
        await until(lambda: a.sees(b))
        row = a.peer(b)
        assert row is not None
        assert row.reach == "no_path"
        assert a.service.unblock(b.key.public.hex()) == "b"
        await until(lambda: is_linked(a, b))
        assert not a.snapshot.mesh.blocked


async def test_a_block_outlives_the_node_and_no_invite_gets_around_it(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        await joined(a, b)
        a.service.block(b.key.public.hex())
        await b.service.leave()
        await a.service.stop()
        a.service = a.make()
        await a.service.start()
        assert a.snapshot.mesh is not None
        assert a.snapshot.mesh.blocked == (b.key.public.hex(),)
        view = await b.join(await a.invite())
        assert view.state == "failed"
        assert "blocked this node" in view.message


async def test_only_another_member_can_be_blocked(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        await joined(a, b)
        made = await a.service.invite()
        for target, words in (
            (a.key.public.hex(), "itself"),
            (str(made["id"]), "an invite"),
            ("77777777", "No member"),
        ):
            with pytest.raises(InvalidRequest, match=words):
                a.service.block(target)
        with pytest.raises(InvalidRequest, match="No blocked nodes"):
            a.service.unblock(b.key.public.hex())
