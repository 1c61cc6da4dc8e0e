"""What a node is asked while it does something else: nothing is done twice, nothing half."""

import asyncio
import socket
from pathlib import Path

import pytest

from meshllm_core.discovery.token import decode
from meshllm_core.errors import AlreadyInMesh, MeshError, NodeError, NotInMesh
from tests.mesh.members import LOOPBACK, members, until


async def test_a_hundred_first_invites_found_one_mesh(tmp_path: Path) -> None:
    async with members(tmp_path, "a") as (a,):
        tokens = await asyncio.gather(*(a.invite(uses=2) for _ in range(100)))
        assert len({decode(token).mesh for token in tokens}) == 1
        assert len({decode(token).secret for token in tokens}) == 100


async def test_one_join_at_a_time_and_none_in_a_mesh(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        token = await a.invite()
        b.service.joiner.begin(token)
        with pytest.raises(AlreadyInMesh, match="running already"):
            b.service.joiner.begin(token)
        with pytest.raises(AlreadyInMesh, match="joining a mesh just now"):
            await b.service.leave()
        await until(b.service.turn.locked)
        # Asked meanwhile: this node may not invite to the mesh that it joins, and founds none beside it.
        with pytest.raises(MeshError, match="may not invite"):
            await b.invite()
        await until(lambda: b.sees(a))
        with pytest.raises(AlreadyInMesh, match="already"):
            b.service.joiner.begin(token)
        assert a.service.session is not None
        assert b.service.session is not None
        assert a.service.session.state.mesh == b.service.session.state.mesh


async def test_a_mesh_founded_before_a_join_has_its_turn_stays(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        token = await a.invite()
        b.service.joiner.begin(token)
        mesh = decode(await b.invite()).mesh
        await until(lambda: b.snapshot.join is not None and b.snapshot.join.state == "failed")
        assert b.snapshot.join is not None
        assert "already" in b.snapshot.join.message
        assert decode(await b.invite()).mesh == mesh


async def test_nothing_is_begun_while_the_node_stops(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        token = await a.invite()
        await b.invite()
        stopping = [asyncio.create_task(one.service.stop()) for one in (a, b)]
        await asyncio.sleep(0)
        with pytest.raises(NodeError, match="stopping"):
            await a.invite()
        with pytest.raises(NodeError, match="stopping"):
            b.service.joiner.begin(token)
        with pytest.raises(NodeError, match="stopping"):
            await b.service.public(True)
        await asyncio.gather(*stopping)


async def test_a_mesh_that_could_not_be_entered_is_not_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        async with members(tmp_path, "a", "b") as (a, b):
            mesh = decode(await a.invite()).mesh
            strange = await b.invite()
            await a.service.stop()
            other.bind((LOOPBACK, 0))
            a.options["bind_port"] = other.getsockname()[1]
            a.service = a.make()
            with pytest.raises(MeshError, match="port"):
                await a.service.start()
            with pytest.raises(AlreadyInMesh, match="could not enter"):
                a.service.joiner.begin(strange)
            with pytest.raises(MeshError, match="port"):
                await a.invite()
            other.close()
            assert decode(await a.invite()).mesh == mesh


async def test_a_membership_that_cannot_be_entered_can_be_given_up(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((LOOPBACK, 0))
        async with members(tmp_path, "a") as (a,):
            mesh = decode(await a.invite()).mesh
            await a.service.stop()
            a.options["bind_port"] = other.getsockname()[1]
            a.service = a.make()
            with pytest.raises(MeshError, match="port"):
                await a.service.start()
            await a.service.leave()
            with pytest.raises(NotInMesh):
                await a.service.leave()
            other.close()
            assert decode(await a.invite()).mesh != mesh
