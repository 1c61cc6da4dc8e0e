"""snapshot -> the documents of `/api/status` and `/health`. Pure."""

from urllib.parse import urlsplit

from meshllm_core.api.manage_mesh_status import available_models, mesh_status, peer_statuses
from meshllm_core.api.manage_split_status import BACKEND, splits_of, stages_of
from meshllm_core.api.schema import (
    GpuStatus,
    Health,
    MeshHealth,
    RuntimeStatus,
    ServingHealth,
    ServingStatus,
    Status,
)
from meshllm_core.state.snapshot import NodeSnapshot

_WORDS = {
    "starting": "Starting",
    "standby": "Running; no model is loaded",
    "loading": "Loading",
    "serving": "Serving",
    "stopping": "Stopping",
}


def status_of(snapshot: NodeSnapshot) -> Status:
    """The whole node as one document."""
    gpus = tuple(
        GpuStatus(
            name=device.name,
            description=device.description,
            kind=device.kind,
            vram_bytes=device.memory_total,
            free_vram_bytes=device.memory_free,
        )
        for device in snapshot.devices
        if device.kind != "cpu"
    )
    usable = sum(gpu.vram_bytes for gpu in gpus) or snapshot.memory_total
    serving = tuple(str(view.id) for view in snapshot.models if view.status == "ready")
    mesh = snapshot.mesh
    return Status(
        version=snapshot.version,
        node_state=snapshot.node_state,
        node_status=_sentence(snapshot, serving),
        lending_paused=snapshot.lending_paused,
        is_host=mesh is None or mesh.role == "host",
        is_client=mesh is not None and mesh.role == "client",
        llama_ready=bool(serving),
        runtime=RuntimeStatus(
            backend=BACKEND,
            models=snapshot.models,
            stages=stages_of(snapshot),
            splits=splits_of(snapshot),
        ),
        models=tuple(str(view.id) for view in snapshot.models),
        serving_models=serving,
        available_models=available_models(snapshot),
        requested_models=tuple(view.ref for view in snapshot.models),
        api_port=_port(snapshot.api_url),
        api_url=snapshot.api_url,
        console_url=snapshot.console_url,
        my_hostname=snapshot.name,
        my_vram_gb=round(usable / 1e9, 2),
        gpus=gpus,
        node_id=snapshot.node,
        mesh_id=mesh.mesh if mesh else "",
        mesh_name=mesh.name if mesh else "",
        mesh_role=mesh.role if mesh else "",
        mesh_discovery_mode=mesh.discovery if mesh else "",
        publication_state=mesh.publication if mesh else "private",
        publication_detail=mesh.publication_detail if mesh else "",
        my_addresses=mesh.addresses if mesh else (),
        my_addresses_left_out=mesh.left_out if mesh else (),
        accepts_udp=mesh.accepts_udp if mesh else None,
        accepts_tcp=mesh.accepts_tcp if mesh else None,
        first_joined_mesh_ts=mesh.entered_at if mesh else 0.0,
        peers=peer_statuses(snapshot),
        invites=mesh.invites if mesh else (),
        refusals=snapshot.refusals,
        inflight_requests=_inflight(snapshot),
        pid=snapshot.pid,
        started_at=snapshot.started_at,
        sequence=snapshot.sequence,
    )


def health_of(snapshot: NodeSnapshot, now: float) -> Health:
    """Whether the node would answer requests; made from the snapshot alone, so it never waits."""
    serving = serving_status(snapshot)
    return Health(
        mode="serving" if serving in ("healthy", "degraded") else "worker",
        mesh=MeshHealth(status=mesh_status(snapshot)),
        serving=ServingHealth(status=serving),
        version=snapshot.version,
        pid=snapshot.pid,
        uptime_seconds=round(max(0.0, now - snapshot.started_at), 1) if snapshot.started_at else 0.0,
    )


def serving_status(snapshot: NodeSnapshot) -> ServingStatus:
    """healthy: all models ready; degraded: some; starting: on the way; unhealthy: all failed; idle: none."""
    statuses = {view.status for view in snapshot.models}
    if not statuses:
        return "starting" if snapshot.node_state == "starting" else "idle"
    if "ready" in statuses:
        return "degraded" if statuses & {"failed", "restarting"} else "healthy"
    return "unhealthy" if statuses == {"failed"} else "starting"


def _sentence(snapshot: NodeSnapshot, serving: tuple[str, ...]) -> str:
    words = _WORDS[snapshot.node_state]
    if snapshot.node_state == "serving":
        return f"{words} {', '.join(serving)}"
    if snapshot.node_state == "loading":
        return f"{words} {', '.join(v.id for v in snapshot.models if v.status not in ('ready', 'failed'))}"
    if snapshot.node_state != "standby":
        return words
    parts = []
    if hosted := len(snapshot.hosted_stages):
        parts.append(f"computes {hosted} stage{'s' if hosted > 1 else ''} of other machines' models")
    if failed := [view.id for view in snapshot.models if view.status == "failed"]:
        parts.append(f"{', '.join(failed)} failed")
    return "; ".join(("Running", *parts)) if parts else words


def _inflight(snapshot: NodeSnapshot) -> int:
    """Running requests; the sampled figures also know those that still wait for a lane."""
    running = sum(view.status == "running" for view in snapshot.requests)
    return max(running, sum(view.active + view.queued for view in snapshot.models))


def _port(url: str) -> int:
    return urlsplit(url).port or 0
