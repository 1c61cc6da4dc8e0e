"""`meshllm models`: what is on this disk, what the hub has, what suits this machine."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from meshllm_core.cli import models_text, text
from meshllm_core.cli.control import absolute
from meshllm_core.cli.diagnostics import Progress, say
from meshllm_core.cli.options import AsJson
from meshllm_core.cli.output import clean, emit, emit_json, fields, table
from meshllm_core.errors import ConfigError, ModelNotFound
from meshllm_core.models.units import show_bytes
from meshllm_core.paths import Paths, default_paths

if TYPE_CHECKING:
    from meshllm_core.models.cache import Cache, CachedModel
    from meshllm_core.models.hub import Hub
    from meshllm_core.models.locate import Located
    from meshllm_core.models.resolve import OnProgress

app = typer.Typer(help="List, show, download and remove models.", no_args_is_help=True)

Ref = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A .gguf path, owner/repo[:QUANT][@revision], a catalogue name."),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="MODEL", help="Downloaded models, as `models list` shows them."),
]
Everything = Annotated[bool, typer.Option("--all", help="Every downloaded model that nothing uses.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")]
Refresh = Annotated[bool, typer.Option("--refresh", help="Ask the hub for a newer version.")]


@app.command("list")
def list_models(as_json: AsJson = False) -> None:
    """List the models on this disk, partial downloads too, and the stages of models that are split."""
    paths = default_paths()
    from meshllm_core.models.library import kept_models

    found = kept_models(_cache(paths))
    if as_json:
        documents = [models_text.document(model) for model in found]
        emit_json({"folder": str(paths.models), "models": documents})
        return
    rows = []
    for m in found:
        # Of a package whose layers came one by one nobody wants the rest: what counts is what is here.
        held = m.bytes_here if m.kind == "layers" else m.bytes_total
        rows.append((m.id, m.ref, text.size(held), models_text.state(m), models_text.users(m)))
        rows += models_text.stage_rows(m)
    if not rows:
        say("No models are here. `meshllm models recommended` lists what suits this machine.")
        return
    emit(table(("model", "to load it", "size", "state", "in use"), rows, right=(2,)))


@app.command()
def show(model: Ref, as_json: AsJson = False) -> None:
    """Show what a model is: from its file, or from the hub's list when it is not here."""
    from meshllm_core.models.inspect import inspect_model

    paths = default_paths()
    located = _locate(model, paths, memory=None)
    facts = inspect_model(located.files[0]) if located.files else None
    document = models_text.facts_document(located, facts)
    if as_json:
        emit_json(document)
        return
    shown = dict(document)
    for name in ("file_bytes", "tensor_bytes", "download_bytes"):
        if name in shown:
            shown[name] = text.size(shown[name])
    rows = [(name.replace("_", " "), models_text.cell(value)) for name, value in shown.items()]
    emit(fields([row for row in rows if row[1]]))


@app.command()
def download(model: Ref, refresh: Refresh = False, as_json: AsJson = False) -> None:
    """Download a model, so that loading it later needs no network. Goes on where an earlier try stopped."""
    from meshllm_core.models.resolve import resolve

    paths = default_paths()
    progress = Progress()
    try:
        resolved = resolve(
            absolute(model),
            paths=paths,
            hub=open_hub(paths),
            memory_available=_memory(),
            on_progress=show_progress(progress),
            refresh=refresh,
        )
    except KeyboardInterrupt:
        progress.end()
        say("Stopped. What has arrived is kept: the same command goes on from there.")
        raise
    finally:
        progress.end()
    if resolved.note:
        say(resolved.note)
    if as_json:
        files = [str(file) for file in resolved.files]
        emit_json({"id": resolved.id, "ref": resolved.ref, "files": files, "note": resolved.note})
    else:
        for file in resolved.files:
            emit(str(file))


@app.command()
def prune(
    names: Names = None, everything: Everything = False, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Remove downloaded models by name; without a name, only what is of no further use by itself.

    Those are downloads that never became whole, and stages that were cut from files of this disk or sent by
    another machine. What a running process uses stays.
    """
    cache = _cache(default_paths())
    if names and everything:
        raise ConfigError("--all and names do not go together.", hint="Leave one of them out.")
    pruned = cache.prune(_chosen(cache, names or [], everything), dry_run=dry_run)
    if as_json:
        emit_json(
            {
                "removed": [models_text.document(model) for model in pruned.removed],
                "kept_in_use": [models_text.document(model) for model in pruned.kept_in_use],
                "bytes_freed": pruned.bytes_freed,
                "dry_run": pruned.dry_run,
            }
        )
        return
    would = "would be " if dry_run else ""
    for model in pruned.removed:
        emit(f"{clean(model.id)}: {would}removed, {show_bytes(model.bytes_here)}")
    for model in pruned.kept_in_use:
        say(f"{clean(model.id)}: stays, process {models_text.users(model)} uses it")
    say(f"{show_bytes(pruned.bytes_freed)} {would}freed.")


@app.command("catalog", hidden=True)
@app.command("recommended")
def recommended(as_json: AsJson = False) -> None:
    """List good models in steps of memory, and which one suits this machine best."""
    from meshllm_core.models.catalog import catalog, fits, pick

    memory = _memory()
    best = pick(memory)
    if as_json:
        entries = [
            {"fits": fits(entry, memory), "memory_bytes": entry.memory_bytes, "entry": entry}
            for entry in catalog()
        ]
        emit_json({"memory_available": memory, "pick": best.id if best else None, "models": entries})
        return
    rows = [
        (
            "→" if entry is best else "",
            entry.id,
            text.size(entry.bytes),
            text.size(entry.memory_bytes),
            "fits" if fits(entry, memory) else "too large",
            entry.licence,
            entry.about,
        )
        for entry in catalog()
    ]
    emit(table(("", "model", "download", "memory", "here", "licence", "about"), rows, right=(2, 3)))
    suits = f"{best.id} suits it best: meshllm load {best.id}" if best else "only the default model fits"
    say(f"{show_bytes(memory)} are free for a model; {suits}.")


def show_progress(progress: Progress, what: str = "") -> "OnProgress":
    """Says how far a transfer is, after the words `what`."""

    def show(done: int, total: int) -> None:
        percent = 100 * done // total if total else 0
        progress.show(f"{what}{show_bytes(done)} of {show_bytes(total)}, {percent} %", percent)

    return show


def _cache(paths: Paths) -> "Cache":
    from meshllm_core.models.cache import Cache

    return Cache(paths.models)


def open_hub(paths: Paths) -> "Hub":
    """The hub that the settings name."""
    from meshllm_core.config import load_settings
    from meshllm_core.models.hub import Hub

    return Hub(endpoint=load_settings(paths, environ=os.environ).hub_endpoint or None)


def _memory() -> int:
    from meshllm_core.models.hardware import detect
    from meshllm_core.node.devices import list_devices

    return detect(list_devices).memory_for("auto")


def _locate(model: str, paths: Paths, memory: int | None) -> "Located":
    from meshllm_core.models.locate import locate

    cache = _cache(paths)
    by_name = [found for found in cache.find(model) if found.complete]
    ref = str(by_name[0].files[0]) if by_name else absolute(model)
    return locate(ref, cache=cache, hub=open_hub(paths), memory_available=memory or _memory())


def _chosen(cache: "Cache", names: list[str], everything: bool) -> list["CachedModel"]:
    if not names:
        return [model for model in cache.models() if everything or _unfinished(model)]
    chosen: list[CachedModel] = []
    for name in names:
        found = cache.find(name)
        if not found:
            raise ModelNotFound(f"No downloaded model is named {name!r}.", hint="See `meshllm models list`.")
        chosen += found
    return chosen


def _unfinished(model: "CachedModel") -> bool:
    """Whether a download was begun that is not whole, or stages are here that come again when they are
    needed; layers of the hub were wanted as they are."""
    return model.derived or (model.kind == "model" and not model.complete)
