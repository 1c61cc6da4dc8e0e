"""What this machine offers a model: processor, memory, and the devices that llama.cpp sees."""

import platform
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from meshllm_core.errors import MeshError, describe
from meshllm_core.models.memory import read_memory, usable_cores
from meshllm_core.state.events import Device, HardwareDetected


@dataclass(frozen=True)
class Hardware:
    """One machine. Memory in bytes."""

    cpu: str
    threads: int
    """Physical cores that may be used."""
    memory_total: int
    memory_free: int
    devices: tuple[Device, ...]
    problem: str = ""
    """Why the devices could not be listed; the processor is used then."""

    def event(self, at: float) -> HardwareDetected:
        """As an event of the node's log."""
        return HardwareDetected(
            at=at,
            cpu=self.cpu,
            threads=self.threads,
            memory_total=self.memory_total,
            memory_free=self.memory_free,
            devices=self.devices,
        )

    def memory_for(self, device: str = "auto") -> int:
        """Bytes free for a model on `device`: a listed name, `cpu`, or `auto` (what the engine takes)."""
        named = [found for found in self.devices if found.name.lower() == device.lower()]
        if device.lower() == "auto":
            named = [found for found in self.devices if found.kind == "gpu"]
            named = named or [found for found in self.devices if found.kind == "integrated_gpu"][:1]
        graphics = [found for found in named if found.kind in ("gpu", "integrated_gpu")]
        if not graphics:
            return self.memory_free
        free = sum(found.memory_free for found in graphics)
        shared = any(found.kind == "integrated_gpu" for found in graphics)
        return min(free, self.memory_free) if shared else free


def detect(run_devices: Callable[[], tuple[Device, ...]], *, root: Path = Path("/")) -> Hardware:
    """Looks at the machine. `run_devices` asks llama.cpp in a process of its own, and may fail."""
    memory = read_memory(root)
    devices: tuple[Device, ...] = ()
    problem = ""
    try:
        devices = run_devices()
    except (MeshError, OSError, ValueError, subprocess.SubprocessError) as error:
        problem = f"llama.cpp's devices could not be listed: {describe(error)}"
    cpu = cpu_name(root)
    if not any(device.kind == "cpu" for device in devices):
        own = Device(
            name="CPU",
            description=cpu,
            kind="cpu",
            memory_total=memory.total,
            memory_free=memory.available,
        )
        devices = (*devices, own)
    return Hardware(cpu, usable_cores(root), memory.total, memory.available, devices, problem)


def cpu_name(root: Path = Path("/")) -> str:
    """The processor's own name."""
    try:
        with (root / "proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                if key.strip().lower() in ("model name", "hardware", "cpu model") and value.strip():
                    return " ".join(value.split())
    except OSError:
        if platform.system() == "Darwin":
            return _mac_cpu_name()
    return platform.processor() or platform.machine() or "unknown processor"


def _mac_cpu_name() -> str:
    try:
        found = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return platform.machine()
    return found.stdout.strip() or platform.machine()
