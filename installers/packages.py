"""Installing locked packages with pip: into the environment, or as build tools into a folder of their own."""

import os
import subprocess
import tempfile
from pathlib import Path

from installers.locks import selected
from installers.machine import Machine
from installers.process import log_tail, run_logged
from installers.report import SetupError

PROJECT_BUILDERS = (
    "hatchling",
    "editables",
    "packaging",
    "pathspec",
    "pluggy",
    "tomlkit",
    "trove-classifiers",
)
"""What building this project takes."""
ENGINE_BUILDERS = ("scikit-build-core", "packaging", "pathspec", "cmake", "ninja")
"""What building the engine takes; CMake and Ninja only where the system has none."""
_CMAKE_OLDEST = (3, 21)


def pip(machine: Machine, python: Path, arguments: list[str], *, subject: str, log: Path) -> None:
    """Runs pip in the environment of `python`. Raises SetupError with the log's end when it fails."""
    _checked([str(python), "-m", "pip", *arguments], pip_environ(machine), subject=subject, log=log)


def pip_install(
    machine: Machine,
    python: Path,
    arguments: list[str],
    *,
    subject: str,
    log: Path,
    tools: Path | None = None,
) -> None:
    """`pip install` of locked packages; `tools` holds the build tools, if any. Raises SetupError."""
    environ = pip_environ(machine)
    if tools is not None:
        environ["PYTHONPATH"] = str(tools)
    _checked(
        [str(python), "-m", "pip", "install", "--no-deps", *arguments], environ, subject=subject, log=log
    )


def build_tools(
    machine: Machine, folder: Path, python: Path, build_lock: Path, log: Path, *, names: tuple[str, ...]
) -> dict[str, str]:
    """Installs locked build tools into `folder`; returns the environment in which they are found."""
    wanted = frozenset(names) - _present_tools(machine)
    with tempfile.NamedTemporaryFile("w", suffix=".lock", delete=False) as requirements:
        requirements.write(selected(build_lock, wanted))
    try:
        pip_install(
            machine,
            python,
            ["--require-hashes", "--target", str(folder), "--requirement", requirements.name],
            subject="the build tools",
            log=log,
        )
    finally:
        Path(requirements.name).unlink()
    environ = pip_environ(machine)
    environ["PYTHONPATH"] = str(folder)
    environ["PATH"] = f"{folder / 'bin'}{os.pathsep}{environ.get('PATH', os.defpath)}"
    return environ


def pip_environ(machine: Machine) -> dict[str, str]:
    """The caller's environment without what would lead pip elsewhere than into our environment."""
    drop = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_HASHES", "PIP_CONSTRAINT")
    environ = {name: value for name, value in machine.environ.items() if name not in drop}
    return environ | {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        "PIP_USER": "0",
        "PYTHONUTF8": "1",
    }


def _checked(command: list[str], environ: dict[str, str], *, subject: str, log: Path) -> None:
    if run_logged(command, log=log, environ=environ, waiting=f"pip, {subject}") != 0:
        raise SetupError(
            f"pip failed on {subject}. The last lines of {log}:\n{log_tail(log, 12)}",
            "check the network (and a proxy or package index in pip's configuration), then run this again; "
            "what is installed already is kept.",
        )


def _present_tools(machine: Machine) -> frozenset[str]:
    """Build tools that the system has, so that they need not be fetched."""
    present = set()
    cmake = machine.tool("cmake")
    if cmake is not None and _cmake_version(cmake) >= _CMAKE_OLDEST:
        present.add("cmake")
    if machine.tool("ninja") or machine.tool("make"):
        present.add("ninja")
    return frozenset(present)


def _cmake_version(cmake: Path) -> tuple[int, ...]:
    try:
        text = subprocess.run(
            [str(cmake), "--version"], capture_output=True, text=True, timeout=20, check=False
        ).stdout
        return tuple(int(part) for part in text.split()[2].split(".")[:2])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError):
        return (0,)
