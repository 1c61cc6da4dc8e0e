"""Memory and processors that this process may really use: the machine's, or its container's."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

_NO_LIMIT = 1 << 60
"""Control groups of version 1 write an enormous number for no limit."""


@dataclass(frozen=True)
class Memory:
    """Main memory in bytes."""

    total: int
    """The machine's, or the limit of its container."""
    available: int
    """What can be taken now without swapping."""
    limited_by: str = ""
    """Which control group set the limit; empty if none does."""


def read_memory(root: Path = Path("/")) -> Memory:
    """Main memory, within the control group's limit. `root` is where proc and sys are looked for."""
    machine = psutil.virtual_memory()
    memory = Memory(machine.total, machine.available)
    for folder, limit, used, cached in _groups(root):
        if limit < memory.total:
            memory = Memory(limit, memory.available, str(folder))
        # Page cache counts as used there, yet gives way at once.
        memory = Memory(memory.total, max(0, min(memory.available, limit - used + cached)), memory.limited_by)
    return memory


def usable_cores(root: Path = Path("/")) -> int:
    """Physical cores, within the process's affinity and the control group's quota. At least 1."""
    cores = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = min(cores, len(os.sched_getaffinity(0)))
    for folder in _group_folders(root, "cpu"):
        quota = _cpu_quota(folder)
        if quota:
            cores = min(cores, quota)
    return max(1, cores)


def _cpu_quota(folder: Path) -> int:
    fields = _text(folder / "cpu.max").split()
    if not fields:
        fields = [_text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")]
    if len(fields) != 2 or not all(field.isdecimal() for field in fields):
        return 0
    quota, period = int(fields[0]), int(fields[1])
    return max(1, round(quota / period)) if quota and period else 0


def _groups(root: Path) -> Iterator[tuple[Path, int, int, int]]:
    """For each control group above this process: its folder, limit, bytes used, page cache in them."""
    for folder in _group_folders(root, "memory"):
        for limit_name, used_name, cached_names in (
            ("memory.max", "memory.current", ("inactive_file", "active_file")),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")),
        ):
            limit, used = _number(folder / limit_name), _number(folder / used_name)
            if limit is None or used is None or not 0 < limit < _NO_LIMIT:
                continue
            lines = (line.split() for line in _text(folder / "memory.stat").splitlines())
            stat = {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdecimal()}
            yield folder, limit, used, sum(stat.get(name, 0) for name in cached_names)


def _group_folders(root: Path, controller: str) -> Iterator[Path]:
    """Folders of the controller for this process's group and all above it; the nearest mount that exists."""
    base = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if names and controller not in names.split(","):
            continue
        mount = base / controller if names else base
        # Inside a container the path is often the host's, and only the mount itself is there.
        parts = Path(path.lstrip("/")).parts
        for depth in range(len(parts), -1, -1):
            folder = mount.joinpath(*parts[:depth])
            if ".." not in parts and folder.is_dir():
                yield folder


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdecimal() else None
