"""The file of one stage, from a model on this disk: a GGUF, a split set, a package. And what stages from
anywhere have in common.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from meshllm_core.errors import DownloadFailed, ModelError, ModelFileInvalid
from meshllm_core.models.cache import Cache, Source, SourceFile, downloading
from meshllm_core.models.cursor import DAMAGED_HINT
from meshllm_core.models.gguf_file import read_head
from meshllm_core.models.hub import Hub
from meshllm_core.models.package_folder import PackageFolder, check_layers
from meshllm_core.models.package_fragment import EMBEDDINGS, METADATA, OUTPUT, Role, layer_role, role_of
from meshllm_core.models.resolve import LOCK_WAIT, OnProgress, free_disk
from meshllm_core.models.split import model_stem
from meshllm_core.models.stage_entries import SHAPE_KEY
from meshllm_core.models.stage_file import StageFile, plan_stage_file
from meshllm_core.models.stage_room import make_room
from meshllm_core.models.stage_rules import StageRules, StageShape
from meshllm_core.models.stage_source import SourceFile as File
from meshllm_core.models.stage_source import StageSource, local_file, local_files, open_source
from meshllm_core.models.stage_writer import write_stage_file


@dataclass(frozen=True)
class StageMaker:
    """What the making of a stage needs around it."""

    cache: Cache
    hub: Hub
    on_progress: OnProgress = lambda done, total: None
    cancelled: Callable[[], bool] = lambda: False
    disk_free: Callable[[Path], int] = free_disk
    on_wait: Callable[[], None] = lambda: None
    """Called when another process works on the same model, once each time that it is waited for."""

    @contextmanager
    def holding(self, folder: Path) -> Iterator[None]:
        """Waits until no other process works in `folder`. Raises DownloadFailed when cancelled meanwhile."""
        for attempt in itertools.count():
            with downloading(folder, wait=LOCK_WAIT) as held:
                if held:
                    yield
                    return
            if attempt == 0:
                self.on_wait()
            if self.cancelled():
                raise DownloadFailed(
                    "Waiting for another process was cancelled.", hint="It goes on with the same download."
                )


@dataclass(frozen=True)
class PreparedStage:
    """A stage that can be loaded."""

    id: str
    """Public name of the model."""
    file: Path
    shape: StageShape
    downloaded: int
    """Bytes that came over the network for it."""
    identity: str
    """SHA-256 of the package's manifest; empty where there is no package."""
    probes: Path | None = None
    note: str = ""
    """What a person should know; empty if nothing."""


def stage_path(folder: Path, start: int, end: int) -> Path:
    """Where the stage of layers [start, end) is kept."""
    return folder / f"stage-{start:03d}-{end:03d}.gguf"


def ready(target: Path, shape: StageShape) -> bool:
    """Whether the stage was made before, by the same rules."""
    try:
        return read_head(target).values.get(SHAPE_KEY) == msgspec.json.encode(shape).decode()
    except ModelError:
        return False


def stage_of_file(path: Path, start: int, end: int, maker: StageMaker) -> PreparedStage:
    """Layers [start, end) of a model file, given any member of a split set. Raises ModelError."""
    files = local_files(path)
    source = open_source(files)
    changed = path.stat().st_mtime_ns
    content = f"{path.absolute()} {changed} {[(file.name, file.size) for file in files]}"
    name = model_stem(path.name)
    folder = _record(maker.cache, content, name, path, sum(file.size for file in files))
    with maker.holding(folder):
        file, shape = _written(source, folder, start, end, maker)
    return PreparedStage(name, file, shape, 0, "")


def stage_of_package(package: PackageFolder, start: int, end: int, maker: StageMaker) -> PreparedStage:
    """Layers [start, end) of a package in a folder; the files used are checked. Raises ModelError."""
    manifest = package.manifest

    def path(role: Role) -> Path:
        return package.checked(manifest.artifact(role))

    files = {METADATA: local_file(path(METADATA))}
    whole = open_source(list(files.values()))
    check_layers(whole, manifest)
    shape = StageRules(whole).shape(start, end)
    layers = [layer_role(layer) for layer in range(shape.window_start, shape.window_end)]
    files |= {role: local_file(path(role)) for role in (EMBEDDINGS, *layers, OUTPUT)}
    source = open_source(list(files.values()))
    check_roles(source, files)
    total = sum(artifact.artifact_bytes for _, artifact in manifest.fragments())
    folder = _record(maker.cache, package.identity, manifest.model_id, package.folder, total)
    with maker.holding(folder):
        file, shape = _written(source, folder, start, end, maker)
    return PreparedStage(manifest.model_id, file, shape, 0, package.identity, package.probes())


def check_roles(source: StageSource, files: Mapping[Role, File]) -> None:
    """Whether every tensor is in its file, and no file without one of its own. Raises ModelFileInvalid."""
    roles = {file: role for role, file in files.items()}
    empty = {role: file for role, file in files.items() if role != METADATA}
    for name, found in source.tensors.items():
        role = role_of(name)
        if role not in (roles[found.file], None):
            raise source.keys.invalid(f"the tensor {name!r} does not belong to {found.file.name}")
        if role is not None:
            empty.pop(role, None)
    for role, file in empty.items():
        raise ModelFileInvalid(
            f"{file.name} is damaged: it holds no tensor of {role.title}.", hint=DAMAGED_HINT
        )


def write_stage(plan: StageFile, target: Path, maker: StageMaker) -> None:
    """Writes a planned stage, after making room for it. Raises StorageError and what the source raises."""
    make_room(maker.cache, target, plan.copied_bytes, f"The stage {target.name}", maker.disk_free)
    write_stage_file(plan, target)


def _written(
    source: StageSource, folder: Path, start: int, end: int, maker: StageMaker
) -> tuple[Path, StageShape]:
    rules = StageRules(source)
    target = stage_path(folder, start, end)
    shape = rules.shape(start, end)
    if not ready(target, shape):
        write_stage(plan_stage_file(rules, start, end), target, maker)
    return target, shape


def _record(cache: Cache, content: str, name: str, path: Path, total: int) -> Path:
    source = Source(
        repo="",
        quant="",
        revisions={},
        files=(SourceFile(name=path.name, path=str(path.absolute()), size=total),),
        kind="layers",
        id=name,
        bytes_total=total,
    )
    return cache.record_source(cache.layers_folder("", content), source)
