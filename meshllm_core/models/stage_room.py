"""Room on the disk for a stage: earlier ones, which come again when they are asked for, give way to it.

Each cut of a model is a file of its own, on whoever cuts it as large as the model, and what machines lend
moves the cut: without this a disk fills with cuts that nobody asks for any more.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from meshllm_core.errors import StorageError
from meshllm_core.models.cache import STAGES, Cache, stages_in
from meshllm_core.models.marks import users_of
from meshllm_core.models.package_write import check_disk
from meshllm_core.models.resolve import DISK_MARGIN


def make_room(cache: Cache, target: Path, needed: int, what: str, disk_free: Callable[[Path], int]) -> None:
    """Before `needed` bytes are written to `target`, a stage in a folder of layers.

    Where the disk lacks them, stages go that were cut from a file of this disk or sent by another machine:
    of the same model those that share layers with the new one, then other models', the oldest first. What a
    process uses stays. Raises StorageError when that is not enough.
    """
    folder = target.parent
    if needed and needed + DISK_MARGIN > disk_free(folder):
        for give_way in _giving_way(cache, target):
            with contextlib.suppress(StorageError, OSError):
                give_way()
            if needed + DISK_MARGIN <= disk_free(folder):
                break
    check_disk(folder, needed, what, disk_free)


def _giving_way(cache: Cache, target: Path) -> Iterator[Callable[[], object]]:
    folder = target.parent
    source = cache.source(folder)
    if source is not None and not source.repo and not set(users_of(folder)) - {os.getpid()}:
        for file in _sharing(target):
            yield file.unlink
    derived = [model for model in cache.models() if model.derived and model.folder != folder]
    for model in sorted(derived, key=lambda model: model.modified):
        yield partial(cache.prune, (model,))


def _sharing(target: Path) -> Iterator[Path]:
    """Other stages of the folder with layers of `target`: no chain has both."""
    ((start, end, _),) = stages_in([target])
    for file in sorted(target.parent.glob(STAGES)):
        for first, last, _ in stages_in([file]):
            if file != target and first < end and start < last:
                yield file
