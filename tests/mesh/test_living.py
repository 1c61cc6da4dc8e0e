"""Members that come, go, die, sleep and lie, over real sockets."""

import asyncio
import time
from pathlib import Path

import pytest

from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.membership.certificates import found
from meshllm_core.mesh.storage import MeshState
from meshllm_core.wire.announcement import Address
from tests.mesh.members import Member, joined, members, until


async def test_one_that_leaves_is_gone_within_a_second(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b", "c") as (a, b, c):
        await joined(a, b, c)
        began = time.monotonic()
        await c.service.leave()
        await until(lambda: a.sees(c, "left") and b.sees(c, "left"))
        assert time.monotonic() - began < 2
        assert c.snapshot.mesh is None
        assert not c.service.environment.store.exists()


async def test_one_that_stops_comes_back_by_itself(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        await joined(a, b)
        await b.service.stop()
        await until(lambda: a.sees(b, "left"))
        b.service = b.make()
        await b.service.start()
        await until(lambda: a.sees(b) and b.sees(a))


async def test_a_whole_mesh_that_was_switched_off_finds_itself_again(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b", "c") as machines:
        a, b, c = machines
        await joined(a, b, c)
        await asyncio.gather(*(machine.service.stop() for machine in machines))
        for machine in machines:
            machine.service = machine.make()
            await machine.service.start()
        await until(
            lambda: all(one.sees(other) for one in machines for other in machines if one is not other)
        )


async def test_the_second_machine_with_a_copied_key_is_refused_and_both_are_told(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        await joined(a, b)
        copy = Member("b", tmp_path / "copy", key=b.key, options={"bind_ip": ("127.0.0.1",)})
        state = b.service.environment.store.load()
        assert state is not None
        copy.service.environment.store.save(state)
        try:
            await copy.service.start()
            await until(lambda: "copied" in copy.log())
            await until(lambda: a.refused("duplicate identity") > 0)
            assert a.sees(b)
        finally:
            await copy.service.stop()


async def test_a_stolen_certificate_opens_nothing(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b", "thief") as (a, b, thief):
        await joined(a, b)
        state = b.service.environment.store.load()
        assert state is not None
        thief.service.greeter.me.mesh, thief.service.greeter.me.chain = state.mesh, state.chain
        sockets = await thief.service.listen()
        (address,) = a.service.greeter.me.addresses
        link = await sockets.transport.dial(a.key.public, address, timeout=3)
        reason = "no refusal"
        try:
            await thief.service.greeter.introduce(link)
        except Exception as error:  # noqa: BLE001 - which one it is, is what is tested
            reason = getattr(error, "reason", repr(error))
        assert reason == "not_member"
        await until(lambda: a.refused("stolen certificate") == 1)
        assert a.peer(thief) is None


async def test_a_member_of_another_mesh_is_told_which_it_is_not(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        await a.invite()
        await b.invite()
        sockets = await b.service.listen()
        (address,) = a.service.greeter.me.addresses
        link = await sockets.transport.dial(a.key.public, address, timeout=3)
        try:
            await b.service.greeter.introduce(link)
        except Exception as error:  # noqa: BLE001 - which one it is, is what is tested
            assert getattr(error, "reason", "") == "other_mesh"
        else:
            raise AssertionError("a member of another mesh was taken in")


async def test_a_forged_chain_is_not_entered_from_disk(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        await a.invite()
        assert a.service.session is not None
        chain = found(SigningKey(bytes(range(32))), b.key.public, wall=time.time(), entropy=bytes)
        b.service.environment.store.save(MeshState(mesh=a.service.session.state.mesh, chain=chain))
        try:
            await b.service.start()
        except Exception as error:  # noqa: BLE001 - which one it is, is what is tested
            assert getattr(error, "reason", "") == "other_mesh"
        else:
            raise AssertionError("a forged membership was taken")


async def test_who_dials_while_a_node_still_starts_is_let_in_and_not_refused(tmp_path: Path) -> None:
    async with members(tmp_path, "a") as (a,), members(tmp_path, "b", bind_port=19_382) as (b,):
        await joined(a, b)
        await b.service.stop()
        await until(lambda: a.sees(b, "left"))
        b.service = b.make()
        starting = b.service.surroundings.start

        async def slow(**arguments: object) -> None:
            await starting(**arguments)  # type: ignore[arg-type]
            assert a.service.session is not None
            a.service.session.mesh.seen_nearby(b.key.public, [Address("127.0.0.1", 19_382)])
            await asyncio.sleep(0.7)

        b.service.surroundings.start = slow  # type: ignore[method-assign]
        await b.service.start()
        await until(lambda: a.sees(b) and b.sees(a), 1.0)
        assert b.refused("no mesh") == 0


async def test_a_node_comes_back_at_its_port_whichever_is_free_meanwhile(tmp_path: Path) -> None:
    """Where nothing but the addresses of the last time is known, all of them must not move at once."""
    async with members(tmp_path, "a", "b", "c") as machines:
        await joined(*machines)
        before = [machine.service.greeter.me.addresses for machine in machines]
        for machine in machines:
            await machine.service.stop()
        for machine in reversed(machines):
            machine.service = machine.make()
            await machine.service.start()
        assert [machine.service.greeter.me.addresses for machine in machines] == before


async def test_one_whose_membership_ran_out_while_it_was_off_can_leave_and_join_anew(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        await joined(a, b)
        await b.service.stop()
        a.skew(400 * 86_400.0)
        b.skew(400 * 86_400.0)
        b.service = b.make()
        with pytest.raises(ProofInvalid, match=r"expired|ended"):
            await b.service.start()
        token = await a.invite()
        await b.service.leave()
        view = await b.join(token)
        assert view.state == "joined", view
