"""`meshllm status`: the node, its models and its requests, as text or as `/api/status` gives them."""

import time

from meshllm_core.api.schema import Status
from meshllm_core.cli import text
from meshllm_core.cli.connect import ask
from meshllm_core.cli.options import AsJson, Console
from meshllm_core.cli.output import clean, emit, emit_json, fields, table
from meshllm_core.cli.split_text import split_parts, split_progress, where
from meshllm_core.state.snapshot import ModelView


def status(as_json: AsJson = False, console: Console = "") -> None:
    """Show the running node, its models and what they are doing."""
    found = ask(lambda client: client.status(), console=console)
    if as_json:
        emit_json(found)
    else:
        emit(clean(render(found, time.time())))


def render(status: Status, now: float) -> str:
    """The node as text; `now` in seconds since the epoch."""
    uptime = text.duration(now - status.started_at) if status.started_at else "just started"
    parts = [
        fields(
            [
                ("node", f"{status.my_hostname} · {status.node_status}"),
                ("endpoint", f"{status.api_url}/v1"),
                ("management", status.console_url),
                ("running", f"for {uptime}, meshllm {status.version}, process {status.pid}"),
                ("requests", f"{status.inflight_requests} running or waiting"),
                *([("lending", "paused; `meshllm resume` lends again")] if status.lending_paused else []),
                *mesh_fields(status),
            ]
        )
    ]
    if status.runtime.models:
        parts.append(models_table(status.runtime.models))
        parts += [
            f"{view.id}: {view.error} {view.hint}".strip() for view in status.runtime.models if view.error
        ]
    elif status.is_client:
        parts.append(_asked(status))
    elif not status.runtime.stages:
        parts.append("No model is loaded. Load one with `meshllm load MODEL`.")
    parts += split_parts(status)
    if status.refusals:
        rows = [(view.kind, str(view.count), view.detail) for view in status.refusals]
        parts.append(table(("refused from outside", "times", "last"), rows, right=(1,)))
    return "\n\n".join(parts)


def mesh_fields(status: Status) -> list[tuple[str, str]]:
    """What is to be said of the mesh; nothing of a node by itself."""
    if not status.mesh_id:
        return []
    name = f"{status.mesh_name} ({status.mesh_id[:10]})" if status.mesh_name else status.mesh_id[:10]
    others = [peer for peer in status.peers if peer.state != "left"]
    there = sum(peer.state == "alive" for peer in others)
    rows = [("mesh", f"{name}, as {status.mesh_role}; {there} of {len(others)} others there")]
    if status.publication_state != "private":
        rows.append(("listing", f"{status.publication_state}: {status.publication_detail}".rstrip(": ")))
    if status.accepts_udp is False:
        rows.append(("reach", "others do not reach this node unasked; it reaches them"))
    return rows


def _asked(status: Status) -> str:
    """A client's models are those of others."""
    if not status.mesh_id:
        return "This client is in no mesh, so no model answers. Join one: `meshllm join TOKEN`."
    if not status.available_models:
        return "This is a client. No machine of the mesh serves a model now."
    return f"This is a client. The mesh answers with {', '.join(status.available_models)}."


def models_table(models: tuple[ModelView, ...]) -> str:
    """One row per model."""
    rows = [
        (
            view.id,
            progress(view, brief=True),
            text.number(view.context, 0),
            text.number(view.lanes, 0),
            text.number(view.decode_tokens_per_second),
            text.number(view.prompt_tokens_per_second),
            f"{view.active}+{view.queued}",
            text.size(view.memory_measured or view.memory_needed),
            where(view) or "–",
        )
        for view in models
    ]
    heads = ("model", "state", "context", "lanes", "tok/s", "prompt tok/s", "busy", "memory", "device")
    return table(heads, rows, right=(2, 3, 4, 5, 6, 7))


def progress(view: ModelView, *, brief: bool = False) -> str:
    """The state of a model in words, with how far it is; brief: without what each stage of a split does."""
    if view.split is not None and view.status in ("requested", "downloading", "loading"):
        return f"{view.status}: {split_progress(view.split, brief=brief)}"
    match view.status:
        case "downloading" if view.bytes_total:
            percent = 100 * view.bytes_done / view.bytes_total
            return f"downloading {percent:.0f} % of {text.size(view.bytes_total)}"
        case "loading" if view.load_fraction:
            return f"loading {100 * view.load_fraction:.0f} %"
        case other:
            return other
