"""The shell half: which Python is taken, what is said without one, and what run.sh and test.sh start."""

import contextlib
import os
import pty
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

INSTALLERS = Path(__file__).resolve().parents[2] / "installers"
Tools = Callable[..., Path]

# A Python of some version, answering the questions that lib.sh asks.
_PYTHON = """
case "$*" in
*version_info\\ \\<*) exit {too_old} ;;
*"import venv"*) exit {incomplete} ;;
*version_info\\[*) echo {version} ;;
-V) echo "Python {version}" ;;
esac
"""


def _python(folder: Path, name: str, version: str, *, incomplete: bool = False) -> Path:
    path = folder / name
    too_old = int(tuple(map(int, version.split("."))) < (3, 11))
    script = _PYTHON.format(too_old=too_old, incomplete=int(incomplete), version=version)
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)
    return path


def _find(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-euc", f'. "{INSTALLERS}/lib.sh"; find_python'],
        env={"PATH": str(folder), **environ},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("script", sorted(INSTALLERS.glob("*.sh")), ids=lambda path: path.name)
def test_scripts_are_posix_shell(script: Path) -> None:
    assert subprocess.run(["/bin/sh", "-n", str(script)], check=False).returncode == 0


def test_first_new_enough_python_is_taken(real_tools: Tools) -> None:
    folder = real_tools("id", "head")
    _python(folder, "python3", "3.9")
    newer = _python(folder, "python3.12", "3.12")
    done = _find(folder)
    assert (done.stdout.strip(), done.returncode) == (str(newer), 0)


def test_named_python_is_the_only_one_tried(real_tools: Tools) -> None:
    folder = real_tools("id", "head")
    _python(folder, "python3", "3.12")
    done = _find(folder, MESHLLM_PYTHON=str(_python(folder, "old one", "3.10")))
    assert done.returncode == 1
    assert "is not a Python 3.11 or newer" in done.stderr
    done = _find(folder, MESHLLM_PYTHON=str(_python(folder, "my own", "3.13")))
    assert done.stdout.strip() == str(folder / "my own")


def test_too_old_python_is_named_with_the_next_step(real_tools: Tools) -> None:
    folder = real_tools("id", "head")
    _python(folder, "python3", "3.9")
    done = _find(folder)
    assert done.returncode == 1
    assert f"{folder}/python3 is Python 3.9" in done.stderr
    assert "Next: install Python 3.11 or newer" in done.stderr


def test_no_python_on_debian_names_the_packages(real_tools: Tools) -> None:
    folder = real_tools("id", "head")
    (folder / "apt-get").symlink_to("/bin/true")
    done = _find(folder)
    assert done.returncode == 1
    assert "Python is not installed" in done.stderr
    assert "apt-get install python3 python3-venv" in done.stderr


def test_python_without_venv_names_the_package(real_tools: Tools) -> None:
    folder = real_tools("id", "head")
    _python(folder, "python3", "3.11", incomplete=True)
    done = _find(folder)
    assert done.returncode == 1
    assert "cannot make virtual environments" in done.stderr
    assert "apt-get install python3.11-venv" in done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The real run.sh and test.sh, with an environment whose programs only tell how they were called."""
    folder = tmp_path / "check out"
    (folder / "installers").mkdir(parents=True)
    (folder / "venv/bin").mkdir(parents=True)
    for script in ("run.sh", "test.sh"):
        shutil.copy(INSTALLERS / script, folder / "installers")
    (folder / "installers/lib.sh").write_text(
        'say() { printf "%s\\n" "$*" >&2; }\nset_up() { shift; echo "set_up $*"; venv=$checkout/venv; }\n'
    )
    for name in ("meshllm", "ruff", "mypy", "lint-imports", "python"):
        program = folder / "venv/bin" / name
        program.write_text(f'#!/bin/sh\necho {name} "$@"\n[ "${{FAILS:-}}" = {name} ] && exit 7\nexit 0\n')
        program.chmod(0o755)
    return folder


def _run(checkout: Path, script: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(checkout / "installers" / script), *arguments],
        cwd="/",
        env={"PATH": os.defpath, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "started"),
    [
        ((), "meshllm serve --headless"),
        (("--port", "9400", "a b"), "meshllm serve --headless --port 9400 a b"),
        (("status", "--json"), "meshllm status --json"),
        (("--version",), "meshllm --version"),
    ],
)
def test_run_without_a_terminal(checkout: Path, arguments: tuple[str, ...], started: str) -> None:
    assert _run(checkout, "run.sh", *arguments).stdout.splitlines() == ["set_up ", started]


@pytest.mark.parametrize(
    ("arguments", "started"), [((), "meshllm"), (("--model", "auto"), "meshllm serve --model auto")]
)
def test_run_on_a_terminal_starts_the_dashboard(
    checkout: Path, arguments: tuple[str, ...], started: str
) -> None:
    ours, theirs = pty.openpty()
    subprocess.run(
        ["sh", str(checkout / "installers/run.sh"), *arguments], stdin=theirs, stdout=theirs, check=True
    )
    os.close(theirs)
    output = b""
    with contextlib.suppress(OSError):  # The end of a terminal, on Linux.
        while piece := os.read(ours, 4096):
            output += piece
    os.close(ours)
    assert output.decode().split("\r\n")[:2] == ["set_up ", started]


def test_gate_runs_everything_in_order(checkout: Path) -> None:
    done = _run(checkout, "test.sh", "-k", "two words")
    assert done.stdout.splitlines() == [
        "set_up --development",
        "ruff check .",
        "ruff format --check .",
        "mypy",
        "lint-imports",
        "python -m pytest -k two words",
    ]
    assert done.returncode == 0
    assert "all passed in" in done.stderr


def test_gate_stops_at_the_first_failure(checkout: Path) -> None:
    done = _run(checkout, "test.sh", FAILS="mypy")
    assert done.returncode == 7
    assert done.stdout.splitlines()[-1] == "mypy"
    assert "== mypy --strict FAILED after" in done.stderr
