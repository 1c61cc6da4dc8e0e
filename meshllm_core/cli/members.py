"""`meshllm members` and `meshllm invites`: who is in the mesh, and by which invites one can come in."""

import asyncio
import time
from collections.abc import Mapping

from meshllm_core.api.client import ManagementClient
from meshllm_core.cli import text
from meshllm_core.cli.connect import ask
from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.options import AsJson, Console
from meshllm_core.cli.output import clean, emit, emit_json, table
from meshllm_core.errors import NotInMesh
from meshllm_core.mesh.storage import MeshStore
from meshllm_core.paths import default_paths
from meshllm_core.state.mesh_events import InviteRow, PeerRow, PeerStatus
from meshllm_core.state.snapshot import MeshView, NodeSnapshot

ENTER_SECONDS = 10.0
"""So long after its start a node may take to be in its mesh again."""
ID_SHOWN = 10
"""Hex digits of an id: enough for `meshllm revoke`."""

STATUS: Mapping[PeerStatus, str] = {
    "alive": "there",
    "suspect": "does not answer",
    "down": "gone",
    "left": "left",
}
REACH = {
    "both": "both ways",
    "outgoing_only": "it reaches us only",
    "no_path": "no path from here",
    "unknown": "not known",
}


def members(as_json: AsJson = False, console: Console = "") -> None:
    """List the machines of the mesh: what they serve, and how they are reached."""
    snapshot = ask(settled, console=console)
    mesh = in_mesh(snapshot)
    if as_json:
        emit_json({"mesh": mesh, "node": snapshot.node, "peers": snapshot.peers})
        return
    emit(members_table(snapshot, mesh))
    for peer in snapshot.peers:
        if peer.detail:
            emit(f"\n{clean(peer.name)}: {clean(peer.detail)}")
    for row in mesh.waiting:
        emit(f"\n{clean(row.name)} ({row.node[:ID_SHOWN]}, {row.address}) waits to come in as {row.role}.")
        emit(f"  `meshllm approve {row.node[:ID_SHOWN]}` lets it in, `meshllm refuse` does not.")
    listed = {peer.node for peer in snapshot.peers}
    if strangers := [node[:ID_SHOWN] for node in mesh.blocked if node not in listed]:
        emit(f"\nBlocked here, and not listed now: {', '.join(strangers)}")


def invites(as_json: AsJson = False, console: Console = "") -> None:
    """List the invites of the mesh: what they allow, and who came by them."""
    snapshot = ask(settled, console=console)
    mesh = in_mesh(snapshot)
    if as_json:
        emit_json({"invites": mesh.invites})
    elif mesh.invites:
        emit(invites_table(snapshot, mesh.invites, time.time()))
    else:
        say("There are no invites. `meshllm invite` makes one.")


async def settled(client: ManagementClient) -> NodeSnapshot:
    """The node as it is, or, if it has only just started, once it is in its mesh again."""
    deadline = time.monotonic() + ENTER_SECONDS
    while True:
        snapshot = await client.snapshot()
        if not _enters(snapshot) or time.monotonic() > deadline:
            return snapshot
        await asyncio.sleep(0.2)


def _enters(snapshot: NodeSnapshot) -> bool:
    """Whether it is in no mesh yet, is a member of one by its folder, and nothing was told of a hindrance."""
    young = time.time() - snapshot.started_at < ENTER_SECONDS
    failed = any(notice.source == "mesh" and notice.level == "error" for notice in snapshot.notices)
    return snapshot.mesh is None and young and not failed and MeshStore(default_paths()).exists()


def in_mesh(snapshot: NodeSnapshot) -> MeshView:
    """The mesh that the node is in. Raises NotInMesh."""
    if snapshot.mesh is None:
        raise NotInMesh(
            "This node is in no mesh.",
            hint="Found one with `meshllm invite`, or join one with `meshllm join TOKEN`.",
        )
    return snapshot.mesh


def members_table(snapshot: NodeSnapshot, mesh: MeshView) -> str:
    """One row per member, this node first."""
    own = (
        f"{snapshot.name} (this node)",
        snapshot.node[:ID_SHOWN],
        "there, lending paused" if snapshot.lending_paused else "there",
        mesh.role,
        _models([view.id for view in snapshot.models]),
        _memory(snapshot.memory_free, snapshot.memory_total),
        "–",
        "–",
        "–",
        snapshot.version,
        "–",
    )
    heads = (
        "name",
        "id",
        "status",
        "role",
        "models",
        "memory free",
        "rtt",
        "path",
        "reach",
        "version",
        "owner",
    )
    others = [_member(peer, peer.node in mesh.blocked) for peer in snapshot.peers]
    return table(heads, [own, *others], right=(5, 6))


def _member(peer: PeerRow, blocked: bool) -> tuple[str, ...]:
    heard = f" (through {peer.seen_through})" if peer.seen_through else ""
    status = "blocked here" if blocked else STATUS[peer.status]
    return (
        peer.name,
        peer.node[:ID_SHOWN],
        f"{status}, lending paused" if peer.lending_paused else status,
        peer.role,
        _models([model.id for model in peer.models]),
        _memory(peer.memory_free, peer.memory_total),
        f"{peer.rtt_ms:.1f} ms" if peer.rtt_ms else "–",
        peer.path or "–",
        REACH[peer.reach] + heard,
        peer.version or "–",
        peer.owner or "–",
    )


def _models(names: list[str]) -> str:
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return f"{names[0]}{more}" if names else "–"


def _memory(free: int, total: int) -> str:
    return f"{text.size(free)} of {text.size(total)}" if total else "–"


def invites_table(snapshot: NodeSnapshot, rows: tuple[InviteRow, ...], now: float) -> str:
    """One row per invite; `now` in seconds since the epoch."""
    names = {snapshot.node: "this node", **{peer.node: peer.name for peer in snapshot.peers}}
    shown = [
        (
            row.id,
            row.state.replace("_", " "),
            row.role,
            f"{row.used} of {row.uses or 'any number'}",
            _expiry(row, now),
            names.get(row.created_by, row.created_by[:ID_SHOWN]),
            ", ".join(row.used_by) or "–",
        )
        for row in rows
    ]
    return table(("id", "state", "role", "used", "expires", "made by", "who came"), shown)


def _expiry(row: InviteRow, now: float) -> str:
    if not row.expires_at:
        return "never"
    left = row.expires_at - now
    return f"in {text.duration(left)}" if row.state == "open" and left > 0 else text.moment(row.expires_at)
