"""Memory of a group of processes, with nothing counted twice and nothing left out.

PSS would divide a mapped model file by the number of programs that map it, so a server would look smaller
while its rival runs beside it. Here every page of a file counts once for the group, and whole, whoever else
maps it; what is not of a file counts by its PSS.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from meshllm_core.errors import ConfigError


@dataclass(frozen=True)
class MemoryUse:
    """Bytes of a group of processes at one moment."""

    distinct: int
    """Resident pages, each once. Where the system does not tell mappings apart: the sum of resident sizes."""
    resident: int
    """Sum of resident sizes (shared pages count once per process)."""
    high_water: int
    """Sum of the kernel's high-water marks of resident size; the resident sizes where it keeps none."""
    processes: int

    def highest(self, other: "MemoryUse") -> "MemoryUse":
        """The larger of each figure."""
        return MemoryUse(
            max(self.distinct, other.distinct),
            max(self.resident, other.resident),
            max(self.high_water, other.high_water),
            max(self.processes, other.processes),
        )

    def as_json(self) -> dict[str, int]:
        """The same as a JSON object."""
        return {
            "distinct_bytes": self.distinct,
            "resident_bytes": self.resident,
            "high_water_bytes": self.high_water,
            "processes": self.processes,
        }


def family(pids: Iterable[int]) -> list[psutil.Process]:
    """The processes and all their descendants. Raises ConfigError for a pid that does not exist."""
    found: dict[int, psutil.Process] = {}
    for pid in pids:
        try:
            parent = psutil.Process(pid)
            members = [parent, *parent.children(recursive=True)]
        except (psutil.NoSuchProcess, ValueError, OverflowError) as error:
            raise ConfigError(f"--pid {pid}: no such process.", hint="Did it end?", param="--pid") from error
        found |= {member.pid: member for member in members}
    return list(found.values())


def memory_use(pids: Sequence[int]) -> MemoryUse:
    """What the processes and their descendants hold now. Raises ConfigError (gone, not allowed)."""
    members = family(pids)
    resident = high_water = 0
    for member in members:
        try:
            size = member.memory_info().rss
        except psutil.NoSuchProcess:
            continue
        resident += size
        high_water += max(size, _high_water(member.pid))
    return MemoryUse(_distinct(members) or resident, resident, high_water, len(members))


def _distinct(members: Sequence[psutil.Process]) -> int:
    """0 where the system does not list mappings."""
    private = 0
    files: dict[str, int] = {}
    for member in members:
        if not hasattr(member, "memory_maps"):
            return 0
        try:
            mappings = member.memory_maps(grouped=True)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        except psutil.AccessDenied as error:
            raise ConfigError(
                f"--pid {member.pid}: its memory may not be read.", hint="Run as its owner.", param="--pid"
            ) from error
        for mapping in mappings:
            anonymous = getattr(mapping, "anonymous", 0)
            if mapping.path.startswith("/"):
                private += anonymous
                files[mapping.path] = max(files.get(mapping.path, 0), mapping.rss - anonymous)
            else:
                private += getattr(mapping, "pss", mapping.rss)
    return private + sum(files.values())


def _high_water(pid: int) -> int:
    """VmHWM in bytes; 0 where there is none."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return 0
    for line in lines:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
