"""Marks that say a running process uses a model's files, so that nothing removes them under it."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import psutil

_PREFIX = ".in-use-"


@contextlib.contextmanager
def in_use(files: tuple[Path, ...]) -> Iterator[None]:
    """Marks the folder of `files` as used by this process for as long as the block runs.

    A folder that cannot be written (a read-only disk, a package) needs no mark: nothing is removed there.
    """
    process = psutil.Process()
    name = f"{_PREFIX}{process.pid}-{int(process.create_time())}-{os.urandom(4).hex()}"
    marks = []
    for folder in {file.parent for file in files}:
        mark = folder / name
        with contextlib.suppress(OSError):
            mark.touch()
            marks.append(mark)
    try:
        yield
    finally:
        for mark in marks:
            with contextlib.suppress(OSError):
                mark.unlink()


def users_of(folder: Path) -> tuple[int, ...]:
    """Process ids that use a folder's files; marks of processes that are gone are removed."""
    users = set()
    for mark in folder.glob(f"{_PREFIX}*"):
        pid, _, rest = mark.name.removeprefix(_PREFIX).partition("-")
        started = rest.partition("-")[0]
        if pid.isdecimal() and started.isdecimal() and _runs(int(pid), int(started)):
            users.add(int(pid))
        else:
            with contextlib.suppress(OSError):
                mark.unlink()
    return tuple(sorted(users))


def _runs(pid: int, started: int) -> bool:
    """Whether the process of that id is still the one that made the mark: ids are used again."""
    try:
        return abs(int(psutil.Process(pid).create_time()) - started) <= 1
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
