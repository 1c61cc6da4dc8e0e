"""Memory of real processes: a mapped file counts once and whole, whoever maps it."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from meshllm_core.bench.machine import CpuMeter, machine_facts
from meshllm_core.bench.memory import family, memory_use
from meshllm_core.errors import ConfigError

MIB = 2**20
FILE = 64 * MIB
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells mappings apart")

_HOLDER = """
import mmap, sys
block = bytearray(b"x" * (int(sys.argv[2]) * 1024 * 1024))
file = open(sys.argv[1], "rb")
view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
sum(view[i] for i in range(0, len(view), 4096))
print("ready", flush=True)
sys.stdin.read()
"""
_PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], *sys.argv[2:]], stdin=subprocess.PIPE)
sys.stdin.read()
child.stdin.close()
child.wait()
"""


@contextmanager
def process(code: str, *arguments: str) -> Iterator[int]:
    """A Python process that has said `ready`; it ends when its stdin does."""
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout and running.stdin
        assert running.stdout.readline() == b"ready\n"
        yield running.pid
        running.stdin.close()


@pytest.fixture
def model_file(tmp_path: Path) -> str:
    path = tmp_path / "model"
    path.write_bytes(b"m" * FILE)
    return str(path)


@linux
def test_a_mapped_file_counts_whole_though_others_map_it(model_file: str) -> None:
    with process(_HOLDER, model_file, "20") as alone:
        before = memory_use([alone]).distinct
        with process(_HOLDER, model_file, "20"):
            after = memory_use([alone]).distinct
    assert before == pytest.approx(FILE + 30 * MIB, abs=16 * MIB)
    assert after == pytest.approx(before, abs=4 * MIB)


@linux
def test_a_file_mapped_by_two_of_the_group_counts_once(model_file: str) -> None:
    with ExitStack() as stack:
        pids = [stack.enter_context(process(_HOLDER, model_file, "20")) for _ in range(2)]
        use = memory_use(pids)
    assert use.processes == 2
    assert use.distinct == pytest.approx(FILE + 2 * 27 * MIB, abs=20 * MIB)
    assert use.resident == pytest.approx(use.distinct + FILE, abs=24 * MIB)
    assert use.high_water >= use.resident - 2 * MIB


def test_children_belong_to_their_parent(model_file: str) -> None:
    with process(_PARENT, _HOLDER, model_file, "40") as parent:
        use = memory_use([parent])
        assert len(family([parent])) == use.processes == 2
    assert use.distinct > 40 * MIB + FILE


def test_a_process_that_does_not_exist_is_named() -> None:
    with pytest.raises(ConfigError, match="--pid 99999999"):
        memory_use([99_999_999])


def test_the_highest_of_each_figure_is_kept() -> None:
    use = memory_use([psutil.Process().pid])
    assert use.highest(use) == use
    assert use.as_json()["distinct_bytes"] == use.distinct > 0


def test_work_of_others_is_told_from_that_of_the_measured() -> None:
    """A busy process is a disturbance to those who do not count it, and none to those who do."""
    idle = "print('ready', flush=True)\nimport sys; sys.stdin.read()"
    busy = (
        "import sys, threading\nthreading.Thread(target=sys.stdin.read).start()\nprint('ready', flush=True)\n"
        "while threading.active_count() > 1: pass"
    )
    with process(idle) as idle_pid, process(busy) as busy_pid:
        blind, seeing = CpuMeter([idle_pid]), CpuMeter([busy_pid])
        blind.start()
        seeing.start()
        time.sleep(0.5)
        others, rest = blind.stop(), seeing.stop()
    assert others is not None and rest is not None
    assert others - rest > 0.2 / (psutil.cpu_count() or 1)
    assert CpuMeter([]).stop() is None


def test_facts_name_no_person_and_no_place() -> None:
    facts = machine_facts()
    assert facts["cores_logical"] >= 1
    assert facts["memory_bytes"] > 0
    assert set(facts) == {
        "cpu", "cores_physical", "cores_logical", "memory_bytes", "system", "python", "meshllm",
        "llama_cpp_python", "load_average",
    }  # fmt: skip
