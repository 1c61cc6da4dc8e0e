"""`meshllm stop`, `load` and `unload`: actions of the running node, and waiting until they are done."""

import contextlib
import time
from pathlib import Path
from typing import Annotated

import typer

from meshllm_core.api.client import ManagementClient
from meshllm_core.api.record import find_node, node_pid
from meshllm_core.api.schema import WireDtype
from meshllm_core.cli.connect import ask
from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.options import AsJson, Console
from meshllm_core.cli.output import clean, emit, emit_json
from meshllm_core.cli.split_text import where
from meshllm_core.cli.status import progress
from meshllm_core.errors import ConfigError, EngineError, ModelError, NodeError, NodeNotRunning
from meshllm_core.models.refs import expanded
from meshllm_core.paths import Paths, default_paths
from meshllm_core.state.snapshot import ModelView, NodeSnapshot
from meshllm_core.state.split_events import NOT_SPLIT

STOP_SECONDS = 30.0
"""So long a node may take to end: running requests get a few seconds of it."""

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A .gguf path, owner/repo[:QUANT][@revision], a catalogue name, auto or default.",
    ),
]
LoadedModel = Annotated[str, typer.Argument(metavar="MODEL", help="Its name as `meshllm status` shows it.")]
ContextSize = Annotated[
    int | None, typer.Option("--ctx-size", metavar="N", min=0, help="Tokens one request may use; 0 chooses.")
]
Lanes = Annotated[
    int | None,
    typer.Option("--lanes", metavar="N", min=1, max=64, help="Requests computed at the same time."),
]
Split = Annotated[
    bool,
    typer.Option("--split", help="Spread it over the mesh's machines where none holds it alone."),
]
WireFormat = Annotated[
    WireDtype | None,
    typer.Option(
        "--wire-dtype",
        help="With --split: format of what travels between the machines; auto takes the smallest that is "
        "certified exact for the model.",
    ),
]
TopologyLock = Annotated[
    Path | None,
    typer.Option(
        "--split-topology-lock",
        metavar="FILE",
        help="With --split: which machine computes which layers, fixed by `meshllm plan --write-lock`.",
    ),
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the model is ready.")]


def stop(as_json: AsJson = False, console: Console = "") -> None:
    """Stop the running node; requests that run get a few seconds to end."""
    record = find_node(default_paths())
    url = ask(_stop_asked, console=console)
    wait_until_gone(url)
    pid = record.pid if record and record.console_url == url else None
    if as_json:
        emit_json({"status": "stopped", "console_url": url, "pid": pid})
    else:
        emit("The node has stopped.")


async def _stop_asked(client: ManagementClient) -> str:
    await client.act("stop")
    return client.console_url


def stop_node(paths: Paths, console_url: str) -> None:
    """Asks the node at `console_url` to stop and waits for it. One that is gone already is fine."""
    with contextlib.suppress(NodeNotRunning):
        ask(_stop_asked, console=console_url)
    wait_until_gone(console_url)


def wait_until_gone(console_url: str) -> None:
    """Returns when nothing answers there any more. Raises NodeError after STOP_SECONDS."""
    deadline = time.monotonic() + STOP_SECONDS
    while node_pid(console_url, timeout=0.5) is not None:
        if time.monotonic() > deadline:
            raise NodeError(
                f"The node at {console_url} still answers {STOP_SECONDS:.0f} s after it was asked to stop.",
                hint="Look at `meshllm logs`; its process id is in `meshllm status`.",
            )
        time.sleep(0.05)


def load(
    model: ModelArgument,
    ctx_size: ContextSize = None,
    lanes: Lanes = None,
    split: Split = False,
    wire_dtype: WireFormat = None,
    lock: TopologyLock = None,
    wait: Wait = True,
    as_json: AsJson = False,
    console: Console = "",
) -> None:
    """Load a model into the running node, downloading it first if needed."""
    ref = absolute(model)
    options: dict[str, object] = {"ctx_size": ctx_size, "lanes": lanes, **_splitting(split, wire_dtype, lock)}

    async def loading(client: ManagementClient) -> tuple[ModelView | None, str]:
        earlier = _row(await client.snapshot(), ref)
        await client.act("load", model=ref, **options)
        if not wait:
            return None, ""
        view = await _until_ready(client, ref, earlier)
        return view, await _why_whole(client, view) if split and view.split is None else ""

    try:
        view, why_whole = ask(loading, console=console)
    except KeyboardInterrupt:
        say(f"Waiting was stopped, loading was not: `meshllm unload {ref}` ends it.")
        raise
    if as_json:
        emit_json(view or {"ref": ref, "status": "requested"})
    elif view is None:
        emit(f"{clean(ref)} was asked for; `meshllm status` shows how far it is.")
    else:
        emit(f"{clean(view.id)} is ready: context {view.context}, {view.lanes} lanes, on {where(view)}.")
        if view.split is not None:
            emit(clean(view.split.sentence))
        if why_whole:
            emit(clean(why_whole))


async def _why_whole(client: ManagementClient, view: ModelView) -> str:
    """Why a model that was to be split is loaded as a whole, as the node said it."""
    notices = reversed((await client.snapshot()).notices)
    own = (each.text for each in notices if each.source == view.id)
    return next((text for text in own if text.startswith(NOT_SPLIT)), "")


def _splitting(split: bool, wire_dtype: WireDtype | None, lock: Path | None) -> dict[str, object]:
    """What the node is told about a split; nothing without one. Raises ConfigError."""
    for option, given in (("--wire-dtype", wire_dtype), ("--split-topology-lock", lock)):
        if given is not None and not split:
            raise ConfigError(
                f"{option} means something only with --split.", hint="Add --split.", param=option
            )
    if not split:
        return {}
    place = str(lock.expanduser().absolute()) if lock is not None else None
    return {"split": True, "wire_dtype": wire_dtype, "split_topology_lock": place}


def unload(model: LoadedModel, as_json: AsJson = False, console: Console = "") -> None:
    """Stop serving a model and free its memory."""
    answer = ask(lambda client: client.act("unload", model=absolute(model)), console=console)
    if as_json:
        emit_json(answer)
    else:
        emit(f"{clean(str(answer.get('model', model)))} is unloaded.")


def absolute(model: str) -> str:
    """A file's path as the node, which may run in another folder, would find it; other names as they are."""
    from meshllm_core.models.package_manifest import MANIFEST_NAME

    if "://" in model:
        return model
    path = expanded(model)
    marked = model.startswith((".", "~", "/"))
    is_folder = (path / MANIFEST_NAME).is_file() or (marked and path.is_dir())
    if is_folder or (model.lower().endswith(".gguf") and (marked or path.exists())):
        return str(path.absolute())
    return model


async def _until_ready(client: ManagementClient, ref: str, earlier: ModelView | None) -> ModelView:
    """Follows the model until it is ready. Raises what it failed with.

    `earlier` is its row before it was asked for: an old failure is not the answer to this request.
    """
    said, seen = "", False
    snapshots = client.follow()
    async with contextlib.aclosing(snapshots):
        async for snapshot in snapshots:
            view = _row(snapshot, ref)
            if view is not None and earlier is not None and view.requested_at == earlier.requested_at:
                continue
            if view is None:
                if seen:
                    raise NodeError(f"{ref} was unloaded while it was loading.", hint="Load it again.")
                continue
            seen = True
            if view.status == "ready":
                return view
            if view.status == "failed":
                raise _failure(view)
            if (now := progress(view)) != said:
                said = now
                say(f"{view.id}: {now}")
    raise NodeNotRunning("The node ended while the model was loading.", hint="See `meshllm logs`.")


def _row(snapshot: NodeSnapshot, ref: str) -> ModelView | None:
    return next((view for view in snapshot.models if ref in (view.ref, view.id)), None)


def _failure(view: ModelView) -> ModelError | EngineError:
    kind = EngineError if view.log_tail else ModelError
    return kind(f"{view.id}: {view.error}", hint=view.hint)
