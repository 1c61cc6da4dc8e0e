"""snapshot + event -> snapshot. The only place that decides what an event means."""

from typing import Any, assert_never

import msgspec

from meshllm_core.ids import ModelId
from meshllm_core.state import events as ev
from meshllm_core.state.reduce_certify import certify_words, fold_certify
from meshllm_core.state.reduce_downloads import download_words, fold_download
from meshllm_core.state.reduce_mesh import MeshEvent, fold_mesh, mesh_words
from meshllm_core.state.reduce_split import fold_split, split_words
from meshllm_core.state.snapshot import (
    NOTICES_KEPT,
    REQUESTS_KEPT,
    ModelView,
    NodeSnapshot,
    NodeState,
    Notice,
    RequestView,
)

replace = msgspec.structs.replace


def reduce(snapshot: NodeSnapshot, event: ev.AnyEvent) -> NodeSnapshot:
    """The snapshot after `event`; its `sequence` grows by one."""
    folded = _fold(snapshot, event)
    return replace(folded, sequence=snapshot.sequence + 1, node_state=_node_state(folded))


def _fold(snapshot: NodeSnapshot, event: ev.AnyEvent) -> NodeSnapshot:
    match event:
        case ev.NodeStarted():
            return _started(snapshot, event)
        case ev.NodeStopping():
            stopping = replace(snapshot, node_state="stopping")
            return _notice(stopping, event.at, "info", "node", f"stopping: {event.reason}")
        case ev.HardwareDetected():
            return replace(
                snapshot,
                cpu=event.cpu,
                threads=event.threads,
                memory_total=event.memory_total,
                memory_free=event.memory_free,
                devices=event.devices,
            )
        case ev.MemoryMeasured():
            return replace(snapshot, memory_free=event.memory_free, memory_lent=event.memory_lent)
        case ev.PaceLearned():
            return replace(snapshot, pace=event.pace)
        case ev.NoticeLogged():
            return _notice(snapshot, event.at, event.level, event.source, event.text)
        case ev.RequestStarted() | ev.RequestFinished():
            return _fold_request(snapshot, event)
        case (
            ev.ModelRequested()
            | ev.ModelNamed()
            | ev.ModelDownloadProgressed()
            | ev.ModelLoadProgressed()
            | ev.ModelReady()
            | ev.ModelFailed()
            | ev.ModelUnloaded()
            | ev.EngineExited()
            | ev.ThroughputMeasured()
        ):
            return _fold_model(snapshot, event)
        case (
            ev.SplitPlanned()
            | ev.SplitInterrupted()
            | ev.StageUpdated()
            | ev.StageHosted()
            | ev.StageReleased()
        ):
            folded = fold_split(snapshot, event)
            words = split_words(snapshot, event)
            return _notice(folded, event.at, *words) if words else folded
        case ev.DownloadChanged() | ev.DownloadRemoved():
            folded = fold_download(snapshot, event)
            words = download_words(snapshot, event)
            return _notice(folded, event.at, *words) if words else folded
        case ev.CertificationStarted() | ev.CertificationProgressed() | ev.CertificationEnded():
            folded, told = fold_certify(snapshot, event), certify_words(event)
            return _notice(folded, event.at, *told) if told else folded
        case _:
            return _fold_mesh(snapshot, event)


def _started(snapshot: NodeSnapshot, event: ev.NodeStarted) -> NodeSnapshot:
    return replace(
        snapshot,
        node_state="standby",
        name=event.name,
        version=event.version,
        pid=event.pid,
        started_at=event.at,
        api_url=event.api_url,
        console_url=event.console_url,
    )


def _fold_mesh(snapshot: NodeSnapshot, event: MeshEvent) -> NodeSnapshot:
    folded = fold_mesh(snapshot, event)
    words = mesh_words(snapshot, event)
    return _notice(folded, event.at, words[0], "mesh", words[1]) if words else folded


def _fold_request(snapshot: NodeSnapshot, event: ev.RequestStarted | ev.RequestFinished) -> NodeSnapshot:
    if isinstance(event, ev.RequestStarted):
        started = RequestView(
            id=event.request,
            model=event.model,
            route=event.route,
            started_at=event.at,
            prompt_tokens=event.prompt_tokens,
            served_by=event.served_by,
            asked_by=event.asked_by,
        )
        # A request that went on to another node starts there again: it is still one request.
        others = [v for v in snapshot.requests if v.id != event.request or v.status != "running"]
        return replace(snapshot, requests=(*others, started)[-REQUESTS_KEPT:])
    requests = tuple(
        replace(
            view,
            status=event.reason,
            prompt_tokens=event.prompt_tokens,
            cached_tokens=event.cached_tokens,
            completion_tokens=event.completion_tokens,
            queue_ms=event.queue_ms,
            first_token_ms=event.first_token_ms,
            total_ms=event.total_ms,
            decode_tokens_per_second=event.decode_tokens_per_second,
            error=event.error,
        )
        if view.id == event.request
        else view
        for view in snapshot.requests
    )
    served = snapshot.model(event.model)
    count = served.requests_served + 1 if served else 0
    return _update(replace(snapshot, requests=requests), event.model, requests_served=count)


def _fold_model(
    snapshot: NodeSnapshot,
    event: ev.ModelRequested
    | ev.ModelNamed
    | ev.ModelDownloadProgressed
    | ev.ModelLoadProgressed
    | ev.ModelReady
    | ev.ModelFailed
    | ev.ModelUnloaded
    | ev.EngineExited
    | ev.ThroughputMeasured,
) -> NodeSnapshot:
    match event:
        case ev.ModelRequested():
            others = tuple(view for view in snapshot.models if view.id != event.model)
            row = ModelView(id=event.model, ref=event.ref, status="requested", requested_at=event.at)
            return replace(snapshot, models=(*others, row))
        case ev.ModelNamed():
            others = tuple(v for v in snapshot.models if v.id != event.name or v.id == event.model)
            return _update(replace(snapshot, models=others), event.model, id=event.name)
        case ev.ModelUnloaded():
            kept = tuple(view for view in snapshot.models if view.id != event.model)
            return _notice(replace(snapshot, models=kept), event.at, "info", event.model, "unloaded")
        case ev.ModelDownloadProgressed():
            return _update(
                snapshot,
                event.model,
                status="downloading",
                bytes_done=event.bytes_done,
                bytes_total=event.bytes_total,
            )
        case ev.ModelLoadProgressed():
            return _update(
                snapshot, event.model, status="loading", load_fraction=event.fraction, **_known(event)
            )
        case ev.ModelReady():
            return _ready(snapshot, event)
        case ev.ModelFailed():
            return _failed(snapshot, event)
        case ev.EngineExited():
            return _engine_exited(snapshot, event)
        case ev.ThroughputMeasured():
            return _update(snapshot, event.model, **_figures(event))
        case _:
            assert_never(event)


def _ready(snapshot: NodeSnapshot, event: ev.ModelReady) -> NodeSnapshot:
    cleared = {"load_fraction": 1.0, "error": "", "error_code": "", "hint": ""}
    ready = _update(snapshot, event.model, status="ready", **cleared, **_figures(event))
    lanes = "1 lane" if event.lanes == 1 else f"{event.lanes} lanes"
    text = f"ready in {event.load_seconds:.1f} s, context {event.context}, {lanes}"
    return _notice(ready, event.at, "info", event.model, text)


def _failed(snapshot: NodeSnapshot, event: ev.ModelFailed) -> NodeSnapshot:
    reason = {"error_code": event.code, "error": event.message, "hint": event.hint}
    failed = _update(snapshot, event.model, status="failed", pid=0, active=0, queued=0, **reason)
    return _notice(failed, event.at, "error", event.model, f"{event.message} {event.hint}".strip())


def _figures(event: ev.ModelReady | ev.ThroughputMeasured) -> dict[str, Any]:
    """The event's own fields: they carry the names of the row's."""
    return {name: getattr(event, name) for name in event.__struct_fields__ if name not in ("at", "model")}


def _engine_exited(snapshot: NodeSnapshot, event: ev.EngineExited) -> NodeSnapshot:
    view = snapshot.model(event.model)
    exited = _update(
        snapshot,
        event.model,
        status="restarting" if event.restarting else "failed",
        restarts=(view.restarts if view else 0) + 1,
        error_code=event.reason,
        error=event.detail,
        log_tail=event.log_tail,
        pid=0,
        active=0,
        queued=0,
        decode_tokens_per_second=0.0,
        prompt_tokens_per_second=0.0,
    )
    then = "It is started again." if event.restarting else "It is not started again."
    return _notice(exited, event.at, "error", event.model, f"{event.detail} {then}")


def _known(event: ev.ModelLoadProgressed) -> dict[str, Any]:
    """Facts that only the first progress event of a load carries."""
    facts = {"path": event.path, "file_bytes": event.file_bytes, "memory_needed": event.memory_needed}
    return {key: value for key, value in facts.items() if value}


def _update(snapshot: NodeSnapshot, model: ModelId, **changes: Any) -> NodeSnapshot:
    models = tuple(replace(view, **changes) if view.id == model else view for view in snapshot.models)
    return replace(snapshot, models=models)


def _notice(snapshot: NodeSnapshot, at: float, level: ev.NoticeLevel, source: str, text: str) -> NodeSnapshot:
    notice = Notice(at=at, level=level, source=source, text=text)
    return replace(snapshot, notices=(*snapshot.notices, notice)[-NOTICES_KEPT:])


def _node_state(snapshot: NodeSnapshot) -> NodeState:
    """serving when any model is ready, loading while one is on its way, else standby."""
    if snapshot.node_state in ("starting", "stopping") and not snapshot.started_at:
        return snapshot.node_state
    if snapshot.node_state == "stopping":
        return "stopping"
    statuses = {view.status for view in snapshot.models}
    if "ready" in statuses:
        return "serving"
    return "loading" if statuses & {"requested", "downloading", "loading", "restarting"} else "standby"
