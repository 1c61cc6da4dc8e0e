"""Commands that write gigabytes and are ended in the middle: by Ctrl+C, a closed window, kill, kill -9."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from meshllm_core.errors import ExitCode
from meshllm_core.models.embedded import embedded_model
from meshllm_core.models.package_folder import open_package, verify_package
from meshllm_core.models.scratch import LOCK_NAME
from meshllm_core.paths import Paths
from tests.cli.conftest import COMMAND
from tests.models.foreign_packages import key_values, tensors, write_gguf
from tests.models.packages import build, write_model

LARGE = 192 << 20
"""Bytes of one tensor: long enough to write that a signal comes in between."""


def _large_model(path: Path) -> Path:
    """Its last tensor is a hole."""
    whole = tensors()
    data = write_gguf(key_values(), [*whole, ("blk.0.ffn_up.weight", (1024, LARGE // 4096), b"")])
    path.write_bytes(data)
    os.truncate(path, len(data) + LARGE)
    return path


def _begun(folder: Path, name: str) -> bool:
    return any(path.name != LOCK_NAME for path in folder.glob(f".{name}.*/*"))


def _end(arguments: list[str], folder: Path, name: str, number: int) -> tuple[int, str]:
    """Runs a command and ends it as soon as it begins to write: its exit code, its stderr."""
    with subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not _begun(folder, name) and process.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.002)
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    return process.returncode, said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_build_that_is_told_to_end_leaves_nothing(tmp_path: Path, number: int) -> None:
    model = _large_model(tmp_path / "model.gguf")
    command = ["package", "build", str(model), "--no-probes", "--out", str(tmp_path / "package")]
    code, said = _end(command, tmp_path, "package", number)
    assert (code, "No package was made" in said) == (ExitCode.INTERRUPTED, True), said
    assert list(tmp_path.iterdir()) == [model]


def test_what_a_killed_build_left_goes_with_the_next(tmp_path: Path) -> None:
    model = _large_model(tmp_path / "model.gguf")
    command = ["package", "build", str(model), "--no-probes", "--out", str(tmp_path / "package")]
    assert _end(command, tmp_path, "package", signal.SIGKILL)[0] == -signal.SIGKILL
    assert len(list(tmp_path.glob(".package.*"))) == 1
    (tmp_path / ".package.mine.part").mkdir()
    built = build(write_model(tmp_path / "small.gguf"), tmp_path / "package")
    assert not [problem for _, problem in verify_package(open_package(built.folder)) if problem]
    assert {path.name for path in tmp_path.iterdir()} == {
        *("model.gguf", "small.gguf", "package"),
        ".package.mine.part",
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_measurement_that_is_told_to_end_leaves_nothing(paths: Paths, number: int) -> None:
    code, said = _end(["certify", str(embedded_model())], paths.cache, "certify", number)
    assert (code, "Nothing was measured" in said) == (ExitCode.INTERRUPTED, True), said
    assert not list(paths.cache.glob(".certify.*"))
