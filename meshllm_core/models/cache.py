"""Downloaded models on disk. The disk is the only record: what is there is what is listed.

    models/<owner>/<name>/<content>/model.gguf      whole and checked, or not there at all
    models/<owner>/<name>/<content>/model.gguf.part what has arrived so far
    models/<owner>/<name>/<content>/source.json     where it comes from, and what belongs to it
    models/<owner>/<name>/<content>-layers/         some layers of a model, and stages cut from them

<content> is made of the hashes of the files: another version of a model lands in another folder, and an
unchanged one is never fetched again.
"""

import contextlib
import hashlib
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec
from filelock import FileLock, Timeout

from meshllm_core.errors import StorageError
from meshllm_core.ids import ModelId
from meshllm_core.models.marks import in_use, users_of
from meshllm_core.models.quants import RemoteModel, quant_of, rank
from meshllm_core.models.split import model_stem, parse_split
from meshllm_core.models.storage import PARTIAL_SUFFIX, storing

SOURCE_NAME = "source.json"
LOCK_NAME = ".lock"
_STAGE = re.compile(r"stage-(\d{3,6})-(\d{3,6})\.gguf")
STAGES = "stage-*.gguf"
"""Names of stages that were cut and are ready to load."""
Kind = Literal["model", "layers"]
"""A model, or only some layers of one."""
MAX_SOURCE_BYTES = 1 << 20
"""Largest source.json that is read."""


class SourceFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file as the hub listed it."""

    name: str
    """On this disk."""
    path: str
    """In the repository."""
    size: int
    sha256: str = ""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Content of source.json."""

    repo: str
    quant: str
    revisions: dict[str, str]
    """Branch, tag or commit asked for, and the commit that it was."""
    files: tuple[SourceFile, ...]
    kind: Kind = "model"
    id: str = ""
    """Public name, for layers; a model's is that of its file."""
    bytes_total: int = 0
    """Of the whole model, for layers."""


@dataclass(frozen=True)
class CachedModel:
    """One model in the cache, whole or in part."""

    id: ModelId
    repo: str
    """owner/name; empty for a file that somebody put there."""
    quant: str
    folder: Path
    files: tuple[Path, ...]
    """Those that are whole, in order."""
    complete: bool
    bytes_here: int
    bytes_total: int
    modified: float
    """Seconds since the epoch."""
    used_by: tuple[int, ...]
    """Processes that have it loaded."""
    revisions: tuple[tuple[str, str], ...] = ()
    """Branch, tag or commit asked for, and the commit that it was."""
    path_in_repo: str = ""
    """Of its first file."""
    kind: Kind = "model"

    @property
    def derived(self) -> bool:
        """Stages that were cut from a file of this disk, or sent by another machine: they come again."""
        return self.kind == "layers" and not self.repo

    @property
    def ref(self) -> str:
        """What to write to load it."""
        if self.kind == "layers":
            return f"hf://{self.repo}" if self.repo else self.path_in_repo
        if not self.repo:
            return str(self.files[0])
        return f"{self.repo}:{self.quant}" if self.quant else f"hf://{self.repo}/{self.path_in_repo}"


@dataclass(frozen=True)
class Pruned:
    """What `prune` removed, or would remove."""

    removed: tuple[CachedModel, ...]
    kept_in_use: tuple[CachedModel, ...]
    bytes_freed: int
    dry_run: bool


class Cache:
    """The models folder. It need not exist yet."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def models(self) -> tuple[CachedModel, ...]:
        """Everything there, by name; partial downloads too."""
        if not self.root.is_dir():
            return ()
        folders = {path.parent for path in self.root.rglob(SOURCE_NAME)}
        found = [model for folder in folders if (model := _read_sourced(folder)) is not None]
        sourced = {model.folder for model in found}
        loose = (path for path in self.root.rglob("*.gguf") if path.parent not in sourced)
        return tuple(
            sorted([*found, *_loose(loose)], key=lambda model: (model.id.lower(), str(model.folder)))
        )

    def find(self, name: str) -> tuple[CachedModel, ...]:
        """Models whose id, repository or reference is `name`, whatever its case."""
        wanted = name.lower()
        return tuple(
            m
            for m in self.models()
            if wanted in (m.id.lower(), m.repo.lower(), f"{m.repo}:{m.quant}".lower(), str(m.folder).lower())
        )

    def find_source(self, repo: str, quant: str, revision: str, file: str) -> CachedModel | None:
        """The whole model that a hub reference means, the best of several; None if it is not here."""
        fitting = []
        for model in self.models():
            if not model.complete or model.repo.lower() != repo.lower():
                continue
            if quant and model.quant != quant:
                continue
            if file and model_stem(file) != model.id:
                continue
            known = dict(model.revisions)
            if revision in known or (
                len(revision) >= 7 and any(c.startswith(revision) for c in known.values())
            ):
                fitting.append(model)
        return min(fitting, key=lambda m: (rank(m.quant), -m.modified), default=None)

    def folder_for(self, repo: str, model: RemoteModel) -> Path:
        """Where a model of the hub belongs."""
        content = hashlib.sha256()
        for file in model.files:
            content.update(
                f"{PurePosixPath(file.path).name} {file.size} {file.sha256 or file.git_sha1}\n".encode()
            )
        owner, _, name = repo.partition("/")
        return self.root / owner / name / content.hexdigest()[:16]

    def find_layers(self, repo: str, quant: str, revision: str, file: str) -> CachedModel | None:
        """The layers that are here of what a hub reference means; None if there are none."""
        fitting = [
            model
            for model in self.models()
            if model.kind == "layers"
            and model.repo.lower() == repo.lower()
            and revision in dict(model.revisions)
            and (not quant or model.quant == quant)
            and (not file or model.path_in_repo == file)
        ]
        return max(fitting, key=lambda m: m.modified, default=None)

    def layers_folder(self, repo: str, content: str) -> Path:
        """Where layers belong; `content` tells this version of the model from others, `repo` may be empty."""
        owner, _, name = (repo or "local/files").partition("/")
        return self.root / owner / name / f"{hashlib.sha256(content.encode()).hexdigest()[:16]}-layers"

    def source(self, folder: Path) -> Source | None:
        """What was recorded of a folder; None if nothing was."""
        return _read_source(folder)

    def record(self, repo: str, revision: str, commit: str, model: RemoteModel) -> Path:
        """Makes a model's folder and its source.json; keeps earlier revisions of the same content."""
        folder = self.folder_for(repo, model)
        earlier = _read_source(folder)
        source = Source(
            repo=repo,
            quant=model.quant,
            revisions={**(earlier.revisions if earlier else {}), revision: commit},
            files=tuple(
                SourceFile(name=PurePosixPath(f.path).name, path=f.path, size=f.size, sha256=f.sha256)
                for f in model.files
            ),
        )
        return self.record_source(folder, source)

    def record_source(self, folder: Path, source: Source) -> Path:
        """Makes a folder and its source.json; returns the folder. Raises StorageError."""
        if source == _read_source(folder):
            return folder
        with storing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            # A name of its own: two downloads of one model may begin in the same moment.
            fresh = folder / f"{SOURCE_NAME}.{secrets.token_hex(8)}.new"
            fresh.write_bytes(msgspec.json.format(msgspec.json.encode(source)))
            fresh.replace(folder / SOURCE_NAME)
        return folder

    def remove(self, model: CachedModel) -> int:
        """Deletes a model that nothing uses; returns the bytes freed. Raises StorageError."""
        if users := users_of(model.folder):
            raise StorageError(
                f"{model.id} is in use by process {users[0]}.", hint=f"`meshllm unload {model.id}` first."
            )
        with storing(model.folder):
            if model.repo or model.kind == "layers":
                shutil.rmtree(model.folder)
                _remove_empty(model.folder.parent, self.root)
            else:
                for file in model.files:
                    file.unlink()
        return model.bytes_here

    @contextlib.contextmanager
    def in_use(self, files: tuple[Path, ...]) -> Iterator[None]:
        """Keeps `files` from being removed while the block runs; files elsewhere are left alone."""
        with in_use(tuple(file for file in files if self.root in file.parents)):
            yield

    def is_locked(self, folder: Path) -> bool:
        """Whether something downloads into it now."""
        return _is_locked(folder)

    def stale(self) -> tuple[CachedModel, ...]:
        """Partial downloads, and whole models of which a newer version is here."""
        newest: dict[tuple[str, str], CachedModel] = {}
        models = self.models()
        for model in sorted(models, key=lambda m: m.modified):
            if model.complete and model.repo:
                newest[model.repo, model.id] = model
        return tuple(
            m
            for m in models
            if m.kind == "model" and (not m.complete or (m.repo and newest.get((m.repo, m.id), m) is not m))
        )

    def prune(self, models: Iterable[CachedModel], *, dry_run: bool = False) -> Pruned:
        """Removes `models`, except what a running process uses. `dry_run` only says what would go."""
        wanted = tuple(models)
        kept = tuple(m for m in wanted if users_of(m.folder) or _is_locked(m.folder))
        going = tuple(m for m in wanted if m not in kept)
        freed = sum(m.bytes_here if dry_run else self.remove(m) for m in going)
        return Pruned(going, kept, freed, dry_run)


@contextlib.contextmanager
def downloading(folder: Path, *, wait: float) -> Iterator[bool]:
    """Holds a folder's lock. False after `wait` seconds: another process downloads into it."""
    lock = FileLock(folder / LOCK_NAME)
    with storing(folder):
        try:
            lock.acquire(timeout=wait)
        except Timeout:
            held = False
        else:
            held = True
    try:
        yield held
    finally:
        if held:
            lock.release()


def _is_locked(folder: Path) -> bool:
    if not (folder / LOCK_NAME).exists():
        return False
    with downloading(folder, wait=0) as held:
        return not held


def stages_in(files: Iterable[Path]) -> tuple[tuple[int, int, int], ...]:
    """(first layer, one past the last, bytes) of each file that is a stage ready to load."""
    found = ((_STAGE.fullmatch(file.name), _size(file) or 0) for file in files)
    return tuple((int(name[1]), int(name[2]), size) for name, size in found if name is not None)


def _read_source(folder: Path) -> Source | None:
    path = folder / SOURCE_NAME
    try:
        if path.stat().st_size > MAX_SOURCE_BYTES:
            return None
        return msgspec.json.decode(path.read_bytes(), type=Source)
    except (OSError, msgspec.DecodeError, RecursionError):
        return None


def _read_sourced(folder: Path) -> CachedModel | None:
    source = _read_source(folder)
    if source is None or not source.files:
        return None
    if source.kind == "layers":
        return _read_layers(folder, source)
    whole, here, modified = [], 0, (folder / SOURCE_NAME).stat().st_mtime
    for file in source.files:
        path = folder / PurePosixPath(file.name).name
        size = _size(path)
        if size == file.size:
            whole.append(path)
        here += size if size is not None else _size(path.with_name(path.name + PARTIAL_SUFFIX)) or 0
    return CachedModel(
        id=ModelId(model_stem(source.files[0].name)),
        repo=source.repo,
        quant=source.quant,
        folder=folder,
        files=tuple(whole),
        complete=len(whole) == len(source.files),
        bytes_here=here,
        bytes_total=sum(file.size for file in source.files),
        modified=modified,
        used_by=users_of(folder),
        revisions=tuple(source.revisions.items()),
        path_in_repo=source.files[0].path,
    )


def _read_layers(folder: Path, source: Source) -> CachedModel:
    """Never complete: what is here are parts, from which stages are made."""
    return CachedModel(
        id=ModelId(source.id),
        repo=source.repo,
        quant=source.quant,
        folder=folder,
        files=tuple(sorted(folder.glob(STAGES))),
        complete=False,
        bytes_here=sum(_size(path) or 0 for path in folder.iterdir()),
        bytes_total=source.bytes_total,
        modified=(folder / SOURCE_NAME).stat().st_mtime,
        used_by=users_of(folder),
        revisions=tuple(source.revisions.items()),
        path_in_repo=source.files[0].path,
        kind="layers",
    )


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _loose(paths: Iterable[Path]) -> Iterator[CachedModel]:
    """Files without a source.json: somebody copied them there."""
    groups: dict[Path, list[Path]] = {}
    for path in sorted(paths):
        groups.setdefault(path.with_name(model_stem(path.name)), []).append(path)
    for key, files in groups.items():
        split = parse_split(files[0].name)
        total = sum(_size(file) or 0 for file in files)
        yield CachedModel(
            id=ModelId(key.name),
            repo="",
            quant=quant_of(files[0].name),
            folder=key.parent,
            files=tuple(files),
            complete=len(files) == (split.count if split else 1),
            bytes_here=total,
            bytes_total=total,
            modified=max(file.stat().st_mtime for file in files),
            used_by=users_of(key.parent),
        )


def _remove_empty(folder: Path, root: Path) -> None:
    while folder != root and root in folder.parents:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent
