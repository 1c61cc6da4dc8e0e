"""What the machine has, also inside a container."""

from pathlib import Path

import psutil
import pytest

from meshllm_core.errors import EngineExited
from meshllm_core.models.hardware import Hardware, cpu_name, detect
from meshllm_core.models.memory import read_memory, usable_cores
from meshllm_core.state.events import Device

MIB = 1 << 20


def lay_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def gpu(name: str = "CUDA0", free: int = 8000 * MIB, kind: str = "gpu") -> Device:
    return Device(name=name, description="A GPU", kind=kind, memory_total=free, memory_free=free)  # type: ignore[arg-type]


def test_without_groups_it_is_the_machines_memory(tmp_path: Path) -> None:
    memory = read_memory(tmp_path)
    assert memory.total == psutil.virtual_memory().total
    assert 0 < memory.available <= memory.total and memory.limited_by == ""


def test_a_version_2_group_limits_and_its_page_cache_gives_way(tmp_path: Path) -> None:
    root = lay_out(
        tmp_path,
        {
            "proc/self/cgroup": "0::/app.slice/me\n",
            "sys/fs/cgroup/app.slice/memory.max": f"{100 * MIB}\n",
            "sys/fs/cgroup/app.slice/memory.current": f"{60 * MIB}\n",
            "sys/fs/cgroup/app.slice/memory.stat": (
                f"anon 5\ninactive_file {20 * MIB}\nactive_file {10 * MIB}\n"
            ),
            "sys/fs/cgroup/app.slice/me/memory.max": "max\n",
            "sys/fs/cgroup/app.slice/me/memory.current": "5\n",
        },
    )
    memory = read_memory(root)
    assert (memory.total, memory.available) == (100 * MIB, 70 * MIB)
    assert memory.limited_by.endswith("app.slice")


def test_a_version_1_group_limits(tmp_path: Path) -> None:
    base = "sys/fs/cgroup/memory"
    root = lay_out(
        tmp_path,
        {
            "proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/docker/abc\n0::/\n",
            f"{base}/memory.limit_in_bytes": f"{64 * MIB}",
            f"{base}/memory.usage_in_bytes": f"{80 * MIB}",
            f"{base}/memory.stat": f"total_inactive_file {4 * MIB}\n",
        },
    )
    # The path in the process's file is the host's; only the mount itself is visible in here.
    memory = read_memory(root)
    assert (memory.total, memory.available) == (64 * MIB, 0)


def test_a_limit_that_is_none_is_none(tmp_path: Path) -> None:
    root = lay_out(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "1000",
        },
    )
    assert read_memory(root).limited_by == ""


def test_a_processor_quota_counts(tmp_path: Path) -> None:
    assert usable_cores(tmp_path) >= 1
    root = lay_out(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"})
    assert usable_cores(root) == 1
    lay_out(root, {"sys/fs/cgroup/cpu.max": "max 100000\n"})
    assert usable_cores(root) == usable_cores(tmp_path / "nothing")


def test_the_processor_has_a_name(tmp_path: Path) -> None:
    lay_out(tmp_path, {"proc/cpuinfo": "processor : 0\nmodel name\t: Some  CPU  @ 3GHz\n"})
    assert cpu_name(tmp_path) == "Some CPU @ 3GHz"
    assert cpu_name(tmp_path / "nothing")


def test_detect_lists_devices_and_always_the_processor() -> None:
    found = detect(lambda: (gpu(),))
    assert [device.name for device in found.devices] == ["CUDA0", "CPU"]
    assert found.problem == "" and found.threads >= 1
    event = found.event(12.0)
    assert (event.at, event.cpu, event.devices) == (12.0, found.cpu, found.devices)


@pytest.mark.parametrize(
    "error",
    [EngineExited("The device list ended by signal 11."), OSError("no python"), ValueError("no JSON")],
)
def test_a_broken_device_list_is_no_failure(error: Exception) -> None:
    def fail() -> tuple[Device, ...]:
        raise error

    found = detect(fail)
    assert [device.kind for device in found.devices] == ["cpu"]
    assert str(error) in found.problem


def test_the_memory_of_a_device_is_what_a_model_may_take() -> None:
    def machine(*devices: Device) -> Hardware:
        return Hardware("cpu", 4, 16000 * MIB, 10000 * MIB, devices)

    two = machine(gpu(), gpu("CUDA1", 2000 * MIB), gpu("Vulkan9", 90000 * MIB, "integrated_gpu"))
    assert two.memory_for() == 10000 * MIB
    assert two.memory_for("cuda1") == 2000 * MIB
    assert two.memory_for("cpu") == 10000 * MIB
    shared = machine(gpu("Vulkan0", 12000 * MIB, "integrated_gpu"))
    assert shared.memory_for() == 10000 * MIB
    assert machine().memory_for() == 10000 * MIB
