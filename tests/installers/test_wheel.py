"""The engine's wheel: when it is built, when it is used again, and what is said when that fails."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from installers import wheel
from installers.accelerator import choose
from installers.report import SetupError
from tests.installers.conftest import Computer

CHECKOUT = Path(__file__).resolve().parents[2]
LOCKS = CHECKOUT / "installers"
LOCK = LOCKS / "llama-cpp-python.lock"

# Stands in for the environment's Python: `pip wheel` writes a wheel, everything else succeeds silently.
_PIP = """
echo "$@" >>"$HOME/pip.log"
case "$*" in *"pip wheel"*) ;; *) exit 0 ;; esac
echo "[3/9] Building" ; echo "$CMAKE_ARGS|$CUDACXX|$CMAKE_BUILD_PARALLEL_LEVEL" >>"$HOME/builds.log"
/bin/sleep ${BUILD_SECONDS:-0}
for last; do :; done
/bin/mkdir -p "$last" && echo built >"$last/llama_cpp_python-0.3.36-py3-none-any.whl"
"""


@pytest.fixture
def home(tmp_path: Path, computer: Computer) -> Path:
    """HOME of the computer, and its cache."""
    folder = tmp_path / "home with a space"
    folder.mkdir()
    computer.environ["HOME"] = str(folder)
    return folder


def _obtain(computer: Computer, python: Path) -> wheel.Built:
    machine = computer.machine()
    choice = choose(machine)
    cache = wheel.cache_folder(machine, computer.root)
    return wheel.obtain(
        machine, choice, wheel.recipe(machine, choice, LOCK), cache=cache, python=python, locks=LOCKS
    )


def _builds(home: Path) -> list[str]:
    return (home / "builds.log").read_text().splitlines() if (home / "builds.log").exists() else []


def test_built_once_then_reused(computer: Computer, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = computer.program("python", _PIP)
    first = _obtain(computer, python)
    assert not first.reused
    assert first.path.read_text() == "built\n"
    assert first.path.is_relative_to(home / ".cache/meshllm/wheels")
    capsys.readouterr()
    second = _obtain(computer, python)
    assert second == wheel.Built(first.path, reused=True)
    assert "reused the wheel built earlier for CPU" in capsys.readouterr().err
    assert len(_builds(home)) == 1
    assert not list(first.path.parent.parent.glob(".build-*"))


def test_source_package_is_checked_and_no_other_cache_is_used(computer: Computer, home: Path) -> None:
    _obtain(computer, computer.program("python", _PIP))
    (line,) = [line for line in (home / "pip.log").read_text().splitlines() if "pip wheel" in line]
    for argument in ("--require-hashes", "--no-binary llama-cpp-python", "--no-cache-dir", "--no-deps"):
        assert argument in line


def test_flags_reach_the_build(computer: Computer, home: Path) -> None:
    computer.program("nvidia-smi")
    nvcc = computer.program("nvcc")
    computer.environ["CMAKE_ARGS"] = "-DGGML_AVX512=OFF"
    built = _obtain(computer, computer.program("python", _PIP))
    assert _builds(home)[0].split("|")[:2] == [
        "-DLLAVA_BUILD=OFF -DGGML_CUDA=ON -DGGML_AVX512=OFF",
        str(nvcc),
    ]
    facts = json.loads((built.path.parent / "build.json").read_text())
    assert facts["recipe"]["accelerator"] == "cuda"


def test_jobs_are_bounded_by_memory(computer: Computer, home: Path) -> None:
    computer.file("proc/meminfo", "MemAvailable: 1000000 kB\n")
    _obtain(computer, computer.program("python", _PIP))
    assert _builds(home)[0].endswith("|1")


def test_damaged_wheel_is_built_anew(computer: Computer, home: Path) -> None:
    python = computer.program("python", _PIP)
    first = _obtain(computer, python)
    first.path.write_text("dam")
    assert _obtain(computer, python).path.read_text() == "built\n"
    assert len(_builds(home)) == 2


def test_key_follows_what_the_code_depends_on(computer: Computer) -> None:
    machine = computer.machine()
    choice = choose(machine)
    base = wheel.recipe(machine, choice, LOCK)
    computer.file("proc/cpuinfo", "flags : fpu sse4_2 avx2 fma rdtscp new_kernel_flag\n")
    assert wheel.recipe(machine, choice, LOCK).key == base.key
    computer.file("proc/cpuinfo", "flags : sse4_2 avx2 fma avx512f\n")
    assert wheel.recipe(machine, choice, LOCK).key != base.key
    others = [
        replace(base, version="0.3.37"),
        replace(base, accelerator="cuda"),
        replace(base, cmake_args=("-DX=1",)),
        replace(base, platform="linux_aarch64"),
        replace(base, devices=("Model: GeForce",)),
        replace(base, toolkit="nvcc 13"),
    ]
    assert len({base.key, *(other.key for other in others)}) == len(others) + 1


def test_failed_accelerated_build_is_loud_and_installs_nothing(computer: Computer, home: Path) -> None:
    computer.program("nvidia-smi")
    computer.program("nvcc")
    script = 'case "$*" in *"pip wheel"*) echo "nvcc fatal: gpu arch"; '
    script += (
        'echo "  error: subprocess-exited-with-error"; echo "note: not a problem with pip"; exit 1 ;; esac'
    )
    with pytest.raises(SetupError) as caught:
        _obtain(computer, computer.program("python", script))
    assert "BUILDING llama.cpp FOR CUDA FAILED" in caught.value.message
    assert "nvcc fatal: gpu arch" in caught.value.message
    assert "not a problem with pip" not in caught.value.message
    assert "MESHLLM_ACCELERATOR=cpu sh installers/run.sh" in caught.value.next_step
    cache = home / ".cache/meshllm/wheels"
    assert not list(cache.rglob("*.whl"))
    assert not list(cache.glob(".build-*"))


def test_failed_download_names_the_network(computer: Computer, home: Path) -> None:
    script = 'echo "ERROR: No matching distribution"; exit 1'
    with pytest.raises(SetupError, match="No matching distribution") as caught:
        _obtain(computer, computer.program("python", script))
    assert "check the network" in caught.value.next_step


@pytest.mark.parametrize("missing", ["cc", "c++"])
def test_missing_compiler_is_named(computer: Computer, home: Path, missing: str) -> None:
    (computer.root / "usr/bin" / missing).unlink()
    computer.program("apt-get")
    with pytest.raises(SetupError, match="compiler") as caught:
        _obtain(computer, computer.program("python", _PIP))
    assert "apt-get install g++ cmake" in caught.value.next_step


@pytest.mark.parametrize(("version", "fetched"), [("3.25.1", False), ("3.18.4", True), (None, True)])
def test_cmake_is_fetched_only_when_missing_or_old(
    computer: Computer, home: Path, version: str | None, fetched: bool
) -> None:
    if version:
        computer.program("cmake", f'echo "cmake version {version}"')
    keep = 'for last; do :; done; case "$last" in *.lock) /bin/cat "$last" >>"$HOME/requirements" ;; esac\n'
    _obtain(computer, computer.program("python", keep + _PIP))
    requirements = (home / "requirements").read_text()
    assert ("\ncmake==" in "\n" + requirements) is fetched
    assert "scikit-build-core==" in requirements
    assert "hatchling==" not in requirements


def test_too_small_a_disk_is_named(computer: Computer, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel, "_BUILD_BYTES", {"cpu": 10**18})
    with pytest.raises(SetupError, match=r"needs 1000000000000 MB, but only \d+ MB are free") as caught:
        _obtain(computer, computer.program("python", _PIP))
    assert "MESHLLM_WHEEL_CACHE" in caught.value.next_step


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "{t}/h"}, "h/.cache/meshllm/wheels"),
        ({"HOME": "{t}/h", "XDG_CACHE_HOME": "{t}/x"}, "x/meshllm/wheels"),
        ({"HOME": "{t}/h", "MESHLLM_HOME": "{t}/m"}, "m/cache/wheels"),
        ({"HOME": "{t}/h", "MESHLLM_HOME": "{t}/m", "MESHLLM_WHEEL_CACHE": "{t}/w"}, "w"),
        ({"HOME": "/dev/null/nowhere"}, "venv/wheels"),
    ],
)
def test_cache_folder(tmp_path: Path, computer: Computer, environ: dict[str, str], expected: str) -> None:
    computer.environ.update({name: value.format(t=tmp_path) for name, value in environ.items()})
    (tmp_path / "venv").mkdir()
    folder = wheel.cache_folder(computer.machine(), tmp_path / "venv")
    assert folder == tmp_path / expected
    assert folder.is_dir()


def test_named_cache_that_cannot_be_made_is_an_error(tmp_path: Path, computer: Computer) -> None:
    computer.environ["MESHLLM_WHEEL_CACHE"] = "/dev/null/wheels"
    with pytest.raises(SetupError, match="MESHLLM_WHEEL_CACHE=/dev/null/wheels cannot be made"):
        wheel.cache_folder(computer.machine(), tmp_path)


_SCRIPT = """
import sys
from pathlib import Path
from installers.process import stop_on_signals
from tests.installers.conftest import Computer
from tests.installers.test_wheel import _obtain
root, home = map(Path, sys.argv[1:])
computer = Computer(root, environ={"HOME": str(home), "BUILD_SECONDS": "%s"})
stop_on_signals()
sys.stdout.write("reused" if _obtain(computer, root / "usr/bin/python").reused else "built")
"""


def _start(computer: Computer, home: Path, seconds: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _SCRIPT % seconds, str(computer.root), str(home)],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_at_once_build_once(computer: Computer, home: Path) -> None:
    computer.program("python", _PIP)
    results = [process.communicate(timeout=60) for process in [_start(computer, home, "1") for _ in "ab"]]
    assert sorted(output for output, _ in results) == ["built", "reused"]
    assert len(_builds(home)) == 1


def test_a_stopped_build_leaves_nothing_and_can_be_repeated(computer: Computer, home: Path) -> None:
    computer.program("python", _PIP.replace("/bin/sleep", 'echo $$ >"$HOME/pid"; exec /bin/sleep'))
    process = _start(computer, home, "600")
    deadline = time.monotonic() + 30
    while not (home / "pid").exists() or not (home / "pid").read_text().strip():
        assert time.monotonic() < deadline, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int((home / "pid").read_text()), 0)
    assert not list((home / ".cache/meshllm/wheels").glob(".build-*"))
    assert not _obtain(computer, computer.program("python", _PIP)).reused
