"""What the figures were measured on, and how much of the processor other programs took meanwhile."""

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import psutil

from meshllm_core.bench.memory import family

_CPUINFO = Path("/proc/cpuinfo")


def machine_facts() -> dict[str, Any]:
    """Processor, memory and software, as a JSON object. Names neither the machine nor its user."""
    return {
        "cpu": _cpu_name(),
        "cores_physical": psutil.cpu_count(logical=False),
        "cores_logical": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "meshllm": _version("meshllm"),
        "llama_cpp_python": _version("llama-cpp-python"),
        "load_average": [round(load, 2) for load in psutil.getloadavg()],
    }


def _cpu_name() -> str:
    try:
        lines = _CPUINFO.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


class Meter(Protocol):
    """Measures how much of the processor others take during an interval."""

    def start(self) -> None:
        """Begins an interval."""

    def stop(self) -> float | None:
        """Share (0 to 1) of all cores that others took since `start`; None where it cannot be known."""


@dataclass
class CpuMeter:
    """Tells apart the processor time of the measured programs and that of everything else.

    Without `pids` it knows nothing and says None.
    """

    pids: Sequence[int]
    _at: float = field(default=0.0, init=False)
    _busy: float = field(default=0.0, init=False)
    _own: float = field(default=0.0, init=False)

    def start(self) -> None:
        """Begins an interval."""
        self._at, self._busy, self._own = time.perf_counter(), _busy_seconds(), self._own_seconds()

    def stop(self) -> float | None:
        """Share (0 to 1) of all cores that others took since `start`."""
        seconds = time.perf_counter() - self._at
        if not self.pids or seconds <= 0:
            return None
        others = (_busy_seconds() - self._busy) - (self._own_seconds() - self._own)
        return min(1.0, max(0.0, others / (seconds * (psutil.cpu_count() or 1))))

    def _own_seconds(self) -> float:
        times = [process.cpu_times() for process in family(self.pids)] if self.pids else []
        client = os.times()
        return sum(t.user + t.system for t in times) + client.user + client.system


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))
