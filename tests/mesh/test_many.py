"""The whole runtime of many members in virtual time: an air that loses, a partition, a node that freezes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from meshllm_core.identity.keys import SigningKey
from meshllm_core.transport.memory import MemoryNetwork
from meshllm_core.transport.virtual_clock import VirtualClock, virtual_loop
from tests.mesh.members import Member

SEED = 5


def in_virtual_time(
    work: Callable[[list[Member], MemoryNetwork], Awaitable[None]], folder: Path, count: int
) -> None:
    """Runs `work` with `count` members of one mesh."""

    async def run() -> None:
        random = Random(SEED)
        clock = VirtualClock(asyncio.get_running_loop())
        network = MemoryNetwork(clock, random.random, delay=0.002, jitter=0.002)
        members = []
        for number in range(count):
            key = SigningKey(random.randbytes(32))
            name = f"m{number}"
            members.append(
                Member(name, folder / name, key=key, clock=network.clock(key.public), network=network)
            )
        try:
            founder, *others = members
            for member in others:
                view = await member.join(await founder.invite())
                assert view.state == "joined", view
            await all_see_all(members, 10)
            await work(members, network)
        finally:
            await asyncio.gather(*(member.service.stop() for member in members))

    with asyncio.Runner(loop_factory=virtual_loop) as runner:
        runner.run(run())


async def all_see_all(members: list[Member], seconds: float, status: str = "alive") -> float:
    """Virtual seconds until everybody sees everybody with that status."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while loop.time() - began <= seconds:
        if all(one.sees(other, status) for one in members for other in members if one is not other):
            return loop.time() - began
        await asyncio.sleep(0.1)
    missing = [
        f"{one.name}->{other.name}: {row.status if (row := one.peer(other)) else None}"
        for one in members
        for other in members
        if one is not other and not one.sees(other, status)
    ]
    raise AssertionError(f"not {status} within {seconds} s: {missing[:12]}")


async def sees(member: Member, other: Member, status: str, seconds: float) -> float:
    """Virtual seconds until `member` sees `other` so."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while loop.time() - began <= seconds:
        if member.sees(other, status):
            return loop.time() - began
        await asyncio.sleep(0.05)
    raise AssertionError(f"{member.name} does not see {other.name} {status} within {seconds} s")


@pytest.mark.parametrize("share", [1, 4])
def test_a_partition_of_a_minute_heals_under_loss(tmp_path: Path, share: int) -> None:
    async def work(members: list[Member], network: MemoryNetwork) -> None:
        network.loss = 0.1
        await asyncio.sleep(60)
        await all_see_all(members, 1)
        network.part([member.key.public for member in members[:share]])
        await asyncio.sleep(60)
        assert members[0].sees(members[-1], "down")
        network.heal()
        await all_see_all(members, 30)
        await asyncio.sleep(60)
        await all_see_all(members, 1)

    in_virtual_time(work, tmp_path, 8)


def test_a_killed_one_is_gone_everywhere_within_ten_seconds_and_nobody_else(tmp_path: Path) -> None:
    async def work(members: list[Member], network: MemoryNetwork) -> None:
        *rest, dead = members
        await asyncio.sleep(5)
        network.kill(dead.key.public)
        for member in rest:
            assert await sees(member, dead, "down", 10) <= 10
        await all_see_all(rest, 0.2)

    in_virtual_time(work, tmp_path, 6)


def test_a_frozen_one_is_back_within_ten_seconds_of_waking(tmp_path: Path) -> None:
    async def work(members: list[Member], network: MemoryNetwork) -> None:
        *rest, frozen = members
        network.freeze(frozen.key.public)
        for member in rest:
            await sees(member, frozen, "down", 12)
        await asyncio.sleep(80)
        network.thaw(frozen.key.public)
        await all_see_all(members, 10)

    in_virtual_time(work, tmp_path, 5)


def test_two_that_cannot_reach_each_other_see_each_other_through_the_third(tmp_path: Path) -> None:
    async def work(members: list[Member], network: MemoryNetwork) -> None:
        a, b, c = members
        network.block(b.key.public, c.key.public)
        network.block(c.key.public, b.key.public)
        await asyncio.sleep(60)
        for one, other in ((b, c), (c, b)):
            row = one.peer(other)
            assert row is not None
            assert (row.status, row.reach, row.path) == ("alive", "no_path", "")
            assert row.seen_through == a.name
            assert "No path from here" in row.detail

    in_virtual_time(work, tmp_path, 3)


def test_members_that_joined_one_after_the_other_are_all_known(tmp_path: Path) -> None:
    async def work(members: list[Member], network: MemoryNetwork) -> None:
        assert {len(member.snapshot.peers) for member in members} == {11}

    in_virtual_time(work, tmp_path, 12)
