"""snapshot -> the mesh's part of `/api/status` and `/health`. Pure."""

from typing import Literal

from meshllm_core.api.schema_mesh import PeerStatus
from meshllm_core.state.mesh_events import PeerRow
from meshllm_core.state.snapshot import NodeSnapshot


def peer_statuses(snapshot: NodeSnapshot) -> tuple[PeerStatus, ...]:
    """The other members by the field's common names."""
    blocked = frozenset(snapshot.mesh.blocked) if snapshot.mesh else frozenset()
    return tuple(peer_status(row, blocked=row.node in blocked) for row in snapshot.peers)


def peer_status(row: PeerRow, *, blocked: bool) -> PeerStatus:
    """Another member by the field's common names."""
    return PeerStatus(
        id=row.node,
        name=row.name,
        hostname=row.name,
        role=row.role,
        state=row.status,
        state_since=row.since,
        version=row.version,
        address=row.address,
        addresses=row.addresses,
        path=row.path,
        rtt_ms=row.rtt_ms,
        latency_source=row.rtt_source,
        reach=row.reach,
        seen_through=row.seen_through,
        clock_skew_seconds=row.clock_skew,
        vram_gb=round(row.memory_total / 1e9, 2),
        memory_bytes=row.memory_total,
        free_memory_bytes=row.memory_free,
        lent_memory_bytes=row.memory_lent,
        blocked=blocked,
        lending_paused=row.lending_paused,
        gpus=row.devices,
        models=tuple(model.id for model in row.models),
        serving_models=tuple(model.id for model in row.models if model.status == "ready"),
        owner=row.owner,
        may_invite=row.may_invite,
        admitted_by=row.admitted_by,
        membership_expires_at=row.expires_at,
        detail=row.detail,
    )


def is_linked(row: PeerRow) -> bool:
    """Whether this node has a link to that member now."""
    return row.status in ("alive", "suspect") and bool(row.address or row.path)


def mesh_status(snapshot: NodeSnapshot) -> Literal["standalone", "connected", "disconnected"]:
    """disconnected: others are known that did not say goodbye, and there is a link to none of them."""
    if snapshot.mesh is None:
        return "standalone"
    others = [row for row in snapshot.peers if row.status != "left"]
    return "connected" if not others or any(is_linked(row) for row in others) else "disconnected"


def available_models(snapshot: NodeSnapshot) -> tuple[str, ...]:
    """Names of the models that answer now: this node's own first, then what its linked peers serve."""
    names = [str(view.id) for view in snapshot.models if view.status == "ready"]
    for row in snapshot.peers:
        if is_linked(row):
            names += (model.id for model in row.models if model.status == "ready")
    return tuple(dict.fromkeys(names))
