"""Pausing lending: others get no for what is new, hear of it at once, and what is one's own goes on."""

from pathlib import Path

import msgspec
import pytest

from meshllm_core.engine.chain_spec import ChainSpec
from meshllm_core.errors import ModelNotReady, NodeError
from meshllm_core.ids import NodeId, RequestId
from meshllm_core.node.mesh import NodeMesh
from meshllm_core.serve import calls
from meshllm_core.serve import stage_calls as sc
from meshllm_core.state import events as ev
from meshllm_core.state.mesh_events import PeerRow
from meshllm_core.transport.link import Channel
from tests.mesh.members import until
from tests.node.test_node_mesh import node
from tests.tui.samples import SMALL, ready


def row_of(one: NodeMesh, other: NodeMesh) -> PeerRow | None:
    """How `one` shows `other`."""
    return next((row for row in one.store.snapshot.peers if row.node == other.store.snapshot.node), None)


async def in_one_mesh(one: NodeMesh, other: NodeMesh) -> None:
    token = (await one.act("invite", {}))["token"]
    await other.act("join", {"token": token})
    await until(lambda: row_of(one, other) is not None and bool(one.session() and other.session()))
    await until(lambda: bool((row := row_of(other, one)) and row.memory_lent))


def offer() -> sc.Offer:
    """It contradicts itself: that is what a node says that lends, and not one that is paused."""
    chain = ChainSpec(role="driver", run=1, width=8, rows=8, sequences=2, positions=64, dtype="f32", layers=2)
    return sc.Offer(
        run=1,
        model="m",
        index=0,
        stages=2,
        start=0,
        end=1,
        file_size=1,
        file_sha256="0" * 64,
        memory_needed=1,
        upstream=bytes(32),
        context=64,
        lanes=1,
        prefix_slots=1,
        batch=64,
        kv_type="f16",
        chain=chain,
    )


async def asked(one: NodeMesh, other: NodeMesh) -> Channel:
    """A call of `one` to `other`."""
    return await one.open_call(NodeId(bytes.fromhex(other.store.snapshot.node)))


async def facts_refused(one: NodeMesh, other: NodeMesh) -> calls.Refused:
    channel = await asked(one, other)
    await channel.send(calls.encode(calls.AskFacts(SMALL)))
    body = await channel.receive()
    assert body is not None
    refused = calls.decode_reply(body)
    assert isinstance(refused, calls.Refused), refused
    return refused


async def stage_refused(one: NodeMesh, other: NodeMesh) -> str:
    channel = await asked(one, other)
    await channel.send(sc.encode(offer()))
    body = await channel.receive()
    assert body is not None
    progress = sc.decode(body)
    assert isinstance(progress, sc.Progress)
    return progress.text


async def test_a_paused_node_says_no_to_what_is_new_and_others_hear_of_it(tmp_path: Path) -> None:
    async with node(tmp_path / "a") as a, node(tmp_path / "b") as b:
        await in_one_mesh(a, b)
        for event in ready():
            a.store.append(event)
        await until(lambda: [replica.offer.name for replica in b.replicas()] == [SMALL])
        assert "contradicts itself" in await stage_refused(b, a)
        told = await a.act("lending", {"on": False})
        assert told == {"lending": False, "requests_running": 0, "stages_running": 0}
        assert a.store.snapshot.lending_paused
        # At once, before anybody could have heard of it.
        refused = await facts_refused(b, a)
        assert refused.code == ModelNotReady.code
        assert "paused lending" in refused.message
        assert "paused lending" in await stage_refused(b, a)
        await until(lambda: bool((row := row_of(b, a)) and row.lending_paused))
        row = row_of(b, a)
        assert row is not None
        assert (row.memory_lent, row.models) == (0, ())
        assert b.replicas() == []
        (machine,) = [each for each in b.splits().machines() if each.node.hex() == row.node]
        assert machine.excluded == "its owner paused lending"
        await a.act("lending", {"on": True})
        await until(lambda: [replica.offer.name for replica in b.replicas()] == [SMALL])
        assert "paused" not in (await facts_refused(b, a)).message


async def test_what_runs_for_others_is_counted_and_let_run(tmp_path: Path) -> None:
    async with node(tmp_path) as alone:
        started = ev.RequestStarted(
            at=1.0, request=RequestId("r"), model=SMALL, route="mesh", prompt_tokens=3, asked_by="b"
        )
        alone.store.append(started)
        alone.store.append(msgspec.structs.replace(started, request=RequestId("own"), asked_by=""))
        assert (await alone.act("lending", {"on": False}))["requests_running"] == 1
        told = alone.store.snapshot.sequence
        await alone.act("lending", {"on": False})
        assert alone.store.snapshot.sequence == told
        (notice,) = [each for each in alone.store.snapshot.notices if "lending" in each.text]
        assert notice.text == "lending is paused: nothing new is computed for others"


async def test_a_client_has_nothing_to_pause(tmp_path: Path) -> None:
    async with node(tmp_path, client=True) as alone:
        with pytest.raises(NodeError, match="computes nothing for others"):
            await alone.act("lending", {"on": False})
