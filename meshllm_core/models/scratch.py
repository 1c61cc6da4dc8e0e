"""Folders for what is not finished: they go with the block that made them, or with the next one like it."""

import contextlib
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from meshllm_core.models.storage import PARTIAL_SUFFIX, storing

LOCK_NAME = ".lock"
"""Held as long as somebody works in the folder."""


@contextlib.contextmanager
def scratch(parent: Path, name: str) -> Iterator[Path]:
    """A fresh folder in `parent`, which need not exist: gigabytes may be put there, and are gone afterwards.

    What a killed program left under the same `name` is removed first. Raises StorageError.
    """
    folder = parent / f".{name}.{secrets.token_hex(4)}{PARTIAL_SUFFIX}"
    lock = FileLock(folder / LOCK_NAME)
    try:
        with storing(parent):
            parent.mkdir(parents=True, exist_ok=True)
            _sweep(parent, name)
            folder.mkdir()
            lock.acquire(timeout=0)
        yield folder
    finally:
        lock.release()
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(parent: Path, name: str) -> None:
    for folder in parent.iterdir():
        key = folder.name.removeprefix(f".{name}.").removesuffix(PARTIAL_SUFFIX)
        if folder.name != f".{name}.{key}{PARTIAL_SUFFIX}" or not (folder / LOCK_NAME).is_file():
            continue
        lock = FileLock(folder / LOCK_NAME)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue
        lock.release()
        shutil.rmtree(folder, ignore_errors=True)
