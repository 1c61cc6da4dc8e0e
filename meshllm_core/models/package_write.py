"""Writes a planned GGUF: whole under its own name, or not at all; goes on where an earlier try stopped."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from meshllm_core.errors import DownloadFailed, ModelFileInvalid, StorageError
from meshllm_core.models.package_fragment import CHUNK, GgufPlan, Stream
from meshllm_core.models.storage import PARTIAL_SUFFIX, storing
from meshllm_core.models.units import show_bytes

DISK_MARGIN = 256 << 20
"""Bytes that stay free on the disk."""

Progress = Callable[[int], None]
"""Gets the bytes of the file that are there."""
Cancelled = Callable[[], bool]


def write_plan(
    plan: GgufPlan, target: Path, stream: Stream, *, on_progress: Progress, cancelled: Cancelled
) -> str:
    """Writes `plan` to `target`; returns its SHA-256 in hex. What has been written stays for the next try.

    Raises DownloadFailed when cancelled, StorageError, and what `stream` raises.
    """
    partial = target.with_name(target.name + PARTIAL_SUFFIX)
    with storing(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("ab+") as file:
            digest = _fill(plan, file, stream, on_progress, cancelled)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    return digest


def _fill(plan: GgufPlan, file: BinaryIO, stream: Stream, on_progress: Progress, cancelled: Cancelled) -> str:
    done = _usable(plan, file)
    digest = hashlib.sha256()
    file.seek(0)
    while left := done - file.tell():
        digest.update(file.read(min(CHUNK, left)))
    on_progress(done)
    for chunk in plan.chunks(done, stream):
        if cancelled():
            raise DownloadFailed("It was cancelled.", hint="Start it again to go on from there.")
        file.write(chunk)
        digest.update(chunk)
        done += len(chunk)
        on_progress(done)
    if done != plan.size:
        raise ModelFileInvalid(
            f"{file.name} became {done} bytes instead of {plan.size}.", hint="Start it again."
        )
    return digest.hexdigest()


def _usable(plan: GgufPlan, file: BinaryIO) -> int:
    """Bytes of an earlier try that belong to this plan; others are dropped."""
    done = file.seek(0, os.SEEK_END)
    head = b"".join(plan.head)
    file.seek(0)
    known = file.read(min(done, len(head)))
    if done > plan.size or known != head[: len(known)]:
        done = file.truncate(0)
    return done


def check_disk(folder: Path, needed: int, what: str, disk_free: Callable[[Path], int]) -> None:
    """Refuses before anything is written. `needed` in bytes. Raises StorageError."""
    free = disk_free(folder)
    if needed and needed + DISK_MARGIN > free:
        raise StorageError(
            f"{what} does not fit on the disk of {folder}: {show_bytes(needed)} are to be written and "
            f"{show_bytes(DISK_MARGIN)} stay free, but {show_bytes(free)} are left.",
            hint="Free some space (`meshllm models prune`), or choose a larger disk (MESHLLM_HOME).",
        )
