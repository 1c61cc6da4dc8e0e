"""llama-server from the very source package that the engine was built from, built once into the cache."""

import os
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.programs import say
from meshllm_core.errors import ConfigError
from meshllm_core.paths import default_paths

PACKAGE = "llama-cpp-python"
_LOCK = Path(__file__).parent.parent / "installers" / f"{PACKAGE}.lock"
_FLAGS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
)
"""The engine's own flags come from CMAKE_ARGS, as they do when it is built: give the same here."""


def find_or_build(given: Path | None) -> Path:
    """The server's path. Raises ConfigError when `given` is no program or the build fails."""
    if given is not None:
        if not os.access(given, os.X_OK):
            raise ConfigError(f"--llama-server {str(given)!r} is no program.", param="--llama-server")
        return given
    return build_programs(("llama-server",), (), "build") / "llama-server"


def build_programs(targets: Sequence[str], flags: Sequence[str], name: str) -> Path:
    """The directory with `targets`, built with more `flags` in a build directory of that name if need be.

    Raises ConfigError when fetching or building fails.
    """
    home = default_paths().cache / "peer" / version(PACKAGE)
    programs = home / name / "bin"
    if not all((programs / target).exists() for target in targets):
        home.mkdir(parents=True, exist_ok=True)
        _build(_source(home), home / name, home / f"{name}.log", targets, flags)
    return programs


def _source(home: Path) -> Path:
    """llama.cpp's source inside the source package, checked against the installer's hash."""
    say(f"fetching the source package of {PACKAGE} {version(PACKAGE)}")
    log = home / "download.log"
    download = (
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--no-binary",
        PACKAGE,
        "--require-hashes",
    )
    _run([*download, "-d", str(home), "-r", str(_LOCK)], log)
    (archive,) = home.glob("llama_cpp_python-*.tar.gz")
    with tarfile.open(archive) as package:
        package.extractall(home, filter="data")
    return home / archive.name.removesuffix(".tar.gz") / "vendor" / "llama.cpp"


def _build(source: Path, build: Path, log: Path, targets: Sequence[str], flags: Sequence[str]) -> None:
    say(f"building {', '.join(targets)} (some minutes; log: {log})")
    own = shlex.split(os.environ.get("CMAKE_ARGS", ""))
    _run(["cmake", "-S", str(source), "-B", str(build), *_FLAGS, *flags, *own], log)
    jobs = str(os.cpu_count() or 1)
    _run(["cmake", "--build", str(build), "--target", *targets, "--parallel", jobs], log)


def _run(command: list[str], log: Path) -> None:
    with log.open("ab") as output:
        try:
            code = subprocess.run(command, stdout=output, stderr=output, check=False).returncode
        except FileNotFoundError as error:
            raise ConfigError(f"{command[0]} is not installed.", hint="Install it first.") from error
    if code != 0:
        raise ConfigError(f"`{shlex.join(command[:4])} …` failed with {code}.", hint=f"See {log}.")
