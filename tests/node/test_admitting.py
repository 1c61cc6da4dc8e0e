"""The node's actions on who comes in and who is kept away: approve, refuse, block, unblock."""

from pathlib import Path

import pytest

from meshllm_core.mesh import joiner
from meshllm_core.node.mesh import NodeMesh
from tests.mesh.members import until
from tests.node.test_node_mesh import node


def waits(one: NodeMesh) -> bool:
    mesh = one.store.snapshot.mesh
    return mesh is not None and bool(mesh.waiting)


async def test_a_machine_is_let_in_then_blocked_by_actions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joiner, "ASK_AGAIN_SECONDS", 0.1)
    async with node(tmp_path / "a") as a, node(tmp_path / "b") as b:
        made = await a.act("invite", {"approve": True})
        assert made["approve"] is True
        await b.act("join", {"token": made["token"]})
        await until(lambda: waits(a))
        other = b.store.snapshot.node
        assert await a.act("approve", {"node": other[:12]}) == {"name": "test", "status": "approved"}
        await until(lambda: [row.node for row in a.store.snapshot.peers] == [other])
        assert (await a.act("block", {"node": other}))["status"] == "blocked"
        assert a.store.snapshot.mesh is not None
        assert a.store.snapshot.mesh.blocked == (other,)
        session = b.session()
        assert session is not None
        await until(lambda: not session.mesh.links)
        assert (await a.act("unblock", {"node": other}))["status"] == "unblocked"


async def test_a_machine_is_refused_by_an_action(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joiner, "ASK_AGAIN_SECONDS", 0.1)
    async with node(tmp_path / "a") as a, node(tmp_path / "b") as b:
        await b.act("join", {"token": (await a.act("invite", {"approve": True}))["token"]})
        await until(lambda: waits(a))
        told = await a.act("refuse", {"node": b.store.snapshot.node})
        assert told["status"] == "refused"
        await until(lambda: b.store.snapshot.join is not None and b.store.snapshot.join.state == "failed")
        assert b.store.snapshot.mesh is None
