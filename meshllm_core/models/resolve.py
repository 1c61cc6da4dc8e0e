"""From a reference to a model on disk, ready to load: locate, download what is missing, read its facts."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from meshllm_core.errors import DownloadFailed, StorageError
from meshllm_core.ids import ModelId
from meshllm_core.models.cache import Cache, downloading
from meshllm_core.models.facts import GgufFacts
from meshllm_core.models.hub import Hub
from meshllm_core.models.inspect import inspect_model
from meshllm_core.models.locate import Located, Remote, locate
from meshllm_core.models.quants import RemoteFile
from meshllm_core.models.storage import PARTIAL_SUFFIX
from meshllm_core.models.units import show_bytes
from meshllm_core.paths import Paths

DISK_MARGIN = 256 << 20
"""Bytes that a download leaves free on the disk."""
LOCK_WAIT = 0.5
"""Seconds between two looks at whether another process has finished the same download."""

OnProgress = Callable[[int, int], None]
"""Gets the bytes that are here and the bytes in all, at most four times a second."""


@dataclass(frozen=True)
class ResolvedModel:
    """A model on this disk."""

    id: ModelId
    """Its public name: the value of `model` in a request."""
    ref: str
    """As it was asked for."""
    files: tuple[Path, ...]
    facts: GgufFacts
    note: str
    """What was chosen and why; empty if nothing was."""


def free_disk(folder: Path) -> int:
    """Bytes free on the disk that holds `folder`, which need not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def resolve(
    ref: str,
    *,
    paths: Paths,
    hub: Hub,
    memory_available: int | None,
    on_progress: OnProgress = lambda done, total: None,
    cancelled: Callable[[], bool] = lambda: False,
    refresh: bool = False,
    disk_free: Callable[[Path], int] = free_disk,
) -> ResolvedModel:
    """The model that `ref` names, downloaded if need be. Blocks; raises a ModelError.

    `memory_available` in bytes chooses among quantizations and refuses what cannot fit before it is
    downloaded; None does neither. `refresh` asks the hub for a newer version.
    """
    cache = Cache(paths.models)
    located = locate(ref, cache=cache, hub=hub, memory_available=memory_available, refresh=refresh)
    return fetch(
        located, cache=cache, hub=hub, on_progress=on_progress, cancelled=cancelled, disk_free=disk_free
    )


def fetch(
    located: Located,
    *,
    cache: Cache,
    hub: Hub,
    on_progress: OnProgress = lambda done, total: None,
    cancelled: Callable[[], bool] = lambda: False,
    disk_free: Callable[[Path], int] = free_disk,
) -> ResolvedModel:
    """Downloads a located model if it is not here, and reads its facts. Raises a ModelError."""
    files = located.files
    if located.remote is not None:
        files = _download(located.remote, cache, hub, on_progress, cancelled, disk_free)
    facts = inspect_model(files[0])
    return ResolvedModel(located.id, located.ref, facts.files, facts, located.note)


def _download(
    remote: Remote,
    cache: Cache,
    hub: Hub,
    on_progress: OnProgress,
    cancelled: Callable[[], bool],
    disk_free: Callable[[Path], int],
) -> tuple[Path, ...]:
    folder = cache.folder_for(remote.repo, remote.model)
    targets = tuple(folder / PurePosixPath(file.path).name for file in remote.model.files)
    total = remote.model.size
    if not all(_is_whole(target, file) for target, file in zip(targets, remote.model.files, strict=True)):
        _check_disk(remote, folder, targets, disk_free)
    cache.record(remote.repo, remote.revision, remote.commit, remote.model)
    while True:
        with downloading(folder, wait=LOCK_WAIT) as held:
            if held:
                done = 0
                for target, file in zip(targets, remote.model.files, strict=True):
                    _download_file(remote, file, target, hub, _from(on_progress, done, total), cancelled)
                    done += file.size
                return targets
        if cancelled():
            raise DownloadFailed(
                f"Waiting for the download of {remote.model.stem} was cancelled.",
                hint="Another process goes on with it.",
            )
        on_progress(sum(_bytes_here(target) for target in targets), total)


def _from(on_progress: OnProgress, before: int, total: int) -> Callable[[int], None]:
    return lambda done: on_progress(before + done, total)


def _download_file(
    remote: Remote,
    file: RemoteFile,
    target: Path,
    hub: Hub,
    on_progress: Callable[[int], None],
    cancelled: Callable[[], bool],
) -> None:
    if _is_whole(target, file):
        on_progress(file.size)
        return
    hub.download(remote.repo, remote.commit, file, target, on_progress=on_progress, cancelled=cancelled)


def _is_whole(target: Path, file: RemoteFile) -> bool:
    """A file under its final name was checked before it got it."""
    return target.is_file() and target.stat().st_size == file.size


def _bytes_here(target: Path) -> int:
    for path in (target, target.with_name(target.name + PARTIAL_SUFFIX)):
        if path.is_file():
            return path.stat().st_size
    return 0


def _check_disk(
    remote: Remote, folder: Path, targets: tuple[Path, ...], disk_free: Callable[[Path], int]
) -> None:
    missing = remote.model.size - sum(_bytes_here(target) for target in targets)
    free = disk_free(folder)
    if missing + DISK_MARGIN > free:
        raise StorageError(
            f"{remote.model.stem} does not fit on the disk of {folder}: {show_bytes(missing)} are to come "
            f"and {show_bytes(DISK_MARGIN)} stay free, but {show_bytes(free)} are left.",
            hint="Free some space (`meshllm models prune`), or set MESHLLM_HOME to a larger disk.",
        )
