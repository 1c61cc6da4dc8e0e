"""The node in sentences, for a screen reader or a log: what there is, then a line for each change.

No boxes, no columns, no glyphs that stand for a state, nothing that is drawn over.
"""

from collections.abc import Iterator

from meshllm_core.cli import text
from meshllm_core.cli.split_text import split_progress, where
from meshllm_core.state.download_events import DownloadRow
from meshllm_core.state.mesh_events import PeerRow
from meshllm_core.state.snapshot import ModelView, NodeSnapshot, RequestView

SHARE = 10
"""Percents between two lines about something that gets on."""
MOST_LINES = 200
"""Lines of one change that are told; how many more there were is told too."""
_TOLD_BY_NOTICE = ("ready", "failed", "restarting")
"""States of a model whose event writes a notice, which says more."""
_UNSAID = "no name"


def opening(snapshot: NodeSnapshot, now: float) -> Iterator[str]:
    """The node as it is; `now` in seconds since the epoch."""
    up = f", up {text.duration(now - snapshot.started_at)}" if snapshot.started_at else ""
    yield f"This node is {snapshot.name or 'without a name'}: {snapshot.node_state}{up}."
    yield f"Apps connect to {snapshot.api_url}/v1. The management API is at {snapshot.console_url}."
    if snapshot.lending_paused:
        yield "Lending is paused; `meshllm resume` lends again."
    if not snapshot.models:
        yield "No model is loaded. Load one with `meshllm load MODEL`."
    yield from (_model(view) for view in snapshot.models)
    yield from (_download(row) for row in snapshot.downloads if row.state != "done")
    if snapshot.mesh is None:
        yield "This node is in no mesh. `meshllm invite` makes one, `meshllm join` enters one."
        return
    name = snapshot.mesh.name or snapshot.mesh.mesh[:10]
    others = text.counted(len(snapshot.peers), "other member")
    yield f"The mesh is {name}, {snapshot.mesh.publication}, with {others}."
    yield f"This node is a {snapshot.mesh.role} of it."
    yield from (_peer(row) for row in snapshot.peers[:MOST_LINES])
    if len(snapshot.peers) > MOST_LINES:
        yield f"And {len(snapshot.peers) - MOST_LINES:,} more; `meshllm members` lists all."
    for row in snapshot.mesh.waiting:
        short = row.node[:10]
        yield f"{row.name} asks to be let in: `meshllm approve {short}` or `meshllm refuse {short}`."


def changes(before: NodeSnapshot | None, after: NodeSnapshot) -> Iterator[str]:
    """A line for each thing that a person would want to hear of."""
    if before is None:
        return
    if after.node != before.node:
        yield "Another node answers now, in place of the one before. It follows as it is."
        yield from opening(after, after.started_at)
        return
    if after.pid != before.pid:
        yield f"The node was started anew, as process {after.pid}."
    if after.node_state != before.node_state:
        yield f"node: {after.node_state}"
    yield from _bounded(
        [
            *_model_changes(before, after),
            *_download_changes(before, after),
            *_peer_changes(before, after),
            *_request_changes(before, after),
            *_join_changes(before, after),
            *_notices(before, after),
        ]
    )


def _bounded(lines: list[str]) -> Iterator[str]:
    yield from lines[:MOST_LINES]
    if len(lines) > MOST_LINES:
        yield f"And {len(lines) - MOST_LINES:,} more changes at once; `meshllm status` shows how it is now."


def _model(view: ModelView) -> str:
    facts = [_model_state(view)]
    if view.status == "ready":
        facts += [f"on {where(view)}"] if where(view) else []
        facts += (
            [f"{view.decode_tokens_per_second:.1f} tokens a second"] if view.decode_tokens_per_second else []
        )
        facts += [f"{view.active} active, {view.queued} queued"]
    facts += [f"{view.error} {view.hint}".strip()] if view.error else []
    return f"Model {view.id}: {', '.join(facts).rstrip('.')}."


def _model_state(view: ModelView) -> str:
    """The state of a model, how far it is told in steps of SHARE percent."""
    if view.split is not None and view.status in ("requested", "downloading", "loading"):
        return f"{view.status}, {split_progress(view.split, brief=True)}"
    if view.status == "downloading" and view.bytes_total:
        return f"downloading, {_share(view.bytes_done, view.bytes_total)} of {text.size(view.bytes_total)}"
    if view.status == "loading" and view.load_fraction:
        return f"loading, {_share(view.load_fraction, 1)}"
    return view.status


def _share(done: float, total: float) -> str:
    return f"{int(100 * done / total) // SHARE * SHARE} %"


def _model_changes(before: NodeSnapshot, after: NodeSnapshot) -> Iterator[str]:
    known = {view.id: view for view in before.models}
    for view in after.models:
        old = known.get(view.id)
        said = _model_state(view)
        if (old is None or _model_state(old) != said) and view.status not in _TOLD_BY_NOTICE:
            yield f"{view.id}: {said}"
        if view.split is None:
            continue
        rows = {row.index: row for row in old.split.stages} if old and old.split else {}
        for row in view.split.stages:
            then = rows.get(row.index)
            if then is None or (then.state, then.node, then.detail) != (row.state, row.node, row.detail):
                why = f", {row.detail}" if row.detail else ""
                which = f"stage {row.index}, layers {row.start} to {row.end - 1} on {row.node_name}"
                yield f"{view.id}: {which}: {row.state}{why}"


def _download(row: DownloadRow) -> str:
    name = row.model or row.ref
    far = (
        f", {_share(row.bytes_done, row.bytes_total)} of {text.size(row.bytes_total)}"
        if row.bytes_total
        else ""
    )
    why = f": {row.message} {row.hint}".rstrip() if row.state == "failed" else ""
    return f"Download of {name}: {row.state}{far}{why}"


def _download_changes(before: NodeSnapshot, after: NodeSnapshot) -> Iterator[str]:
    known = {row.id: _download(row) for row in before.downloads}
    yield from (said for row in after.downloads if (said := _download(row)) != known.get(row.id))


def _peer(row: PeerRow) -> str:
    if row.status in ("down", "left"):
        return f"Member {row.name or _UNSAID}: {row.status}."
    ready = [model.id for model in row.models[:5] if model.status == "ready"]
    models = f"serves {', '.join(ready)}" if ready else "serves no model"
    near = f", {row.rtt_ms:.1f} ms away" if row.rtt_source != "unknown" and row.rtt_ms > 0 else ""
    return f"Member {row.name or _UNSAID}: {row.status}{near}, {models}."


def _peer_changes(before: NodeSnapshot, after: NodeSnapshot) -> Iterator[str]:
    """What they serve; that they come and go is told by notices."""
    known = {row.node: row for row in before.peers}
    for row in after.peers:
        old = known.get(row.node)
        if old is row or row.status in ("down", "left"):
            continue
        had = {model.id for model in old.models if model.status == "ready"} if old else set()
        has = {model.id for model in row.models if model.status == "ready"}
        for model in sorted(has - had):
            yield f"{row.name or _UNSAID}: serves {model}"
        for model in sorted(had - has):
            yield f"{row.name or _UNSAID}: serves {model} no more"


def _request_changes(before: NodeSnapshot, after: NodeSnapshot) -> Iterator[str]:
    known = {view.id: view.status for view in before.requests}
    for view in after.requests:
        if view.status != "running" and known.get(view.id, "running") == "running":
            yield _request(view)


def _request(view: RequestView) -> str:
    by = f", computed by {view.served_by}" if view.served_by else ""
    asked = f", asked by {view.asked_by}" if view.asked_by else ""
    if view.status == "error":
        return f"Request for {view.model} failed{by}{asked}: {view.error}"
    speed = f", {view.decode_tokens_per_second:.1f} tokens a second" if view.decode_tokens_per_second else ""
    tokens = text.counted(view.completion_tokens, "token")
    ended = "cancelled" if view.status == "cancelled" else "answered"
    return f"Request for {view.model} {ended}: {tokens}{speed}{by}{asked}"


def _join_changes(before: NodeSnapshot, after: NodeSnapshot) -> Iterator[str]:
    if after.join is None or after.join is before.join:
        return
    same = before.join is not None and before.join.started_at == after.join.started_at
    known = {row.step: row.status for row in before.join.lines} if before.join and same else {}
    for row in after.join.lines:
        if row.status in ("passed", "failed", "skipped") and known.get(row.step) != row.status:
            yield f"join, {row.step}: {row.status}{f', {row.detail}' if row.detail else ''}"


def _notices(before: NodeSnapshot, after: NodeSnapshot) -> Iterator[str]:
    if after.notices is before.notices:
        return
    for notice in after.notices:
        if notice not in before.notices:
            yield f"{notice.level}: {notice.source}: {notice.text}"
