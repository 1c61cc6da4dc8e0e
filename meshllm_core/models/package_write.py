"""Puts a planned GGUF on the disk; and looks beforehand whether the disk has room."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from meshllm_core.errors import StorageError
from meshllm_core.models.package_fragment import GgufPlan
from meshllm_core.models.resolve import DISK_MARGIN
from meshllm_core.models.transfer import Report
from meshllm_core.models.units import show_bytes


def write_plan(plan: GgufPlan, target: Path, on_progress: Callable[[int], None]) -> str:
    """Writes `plan` to `target`, whose folder is there; returns its SHA-256 in hex.

    `on_progress` gets the bytes that are written, four times a second at most. Raises OSError and what the
    source raises.
    """
    digest, done, report = hashlib.sha256(), 0, Report(on_progress)
    with target.open("wb") as file:
        for chunk in plan.chunks():
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            report(done)
    report(done, force=True)
    return digest.hexdigest()


def check_disk(
    folder: Path, needed: int, what: str, disk_free: Callable[[Path], int], *, hint: str = ""
) -> None:
    """Refuses before anything is written. `needed` in bytes; `hint` for folders that are not the cache's.

    Raises StorageError.
    """
    free = disk_free(folder)
    if needed and needed + DISK_MARGIN > free:
        raise StorageError(
            f"{what} does not fit on the disk of {folder}: {show_bytes(needed)} are to be written and "
            f"{show_bytes(DISK_MARGIN)} stay free, but {show_bytes(free)} are left.",
            hint=hint or "Free some space (`meshllm models prune`), or choose a larger disk (MESHLLM_HOME).",
        )
