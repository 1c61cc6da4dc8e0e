"""Paths that no system can follow: a sentence for each command, never a traceback."""

from collections.abc import Callable

import pytest

from meshllm_core.errors import ExitCode
from tests.cli.conftest import Result

Run = Callable[..., Result]
COMMANDS = [
    ("plan",),
    ("plan", "x", "--layers", "4", "--bytes", "1GB", "--nodes"),
    ("stages", "show"),
    ("certify",),
    ("package", "show"),
    ("package", "verify"),
    ("package", "fetch", "--layers", "0:1"),
    ("package", "build", "--out", "new"),
    ("models", "download"),
    ("load",),
]


@pytest.mark.parametrize("path", ["x" * 300 + ".gguf", "./" + "x" * 300 + ".gguf", "~nobody-here/x.gguf"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_path_that_cannot_be(meshllm: Run, command: tuple[str, ...], path: str) -> None:
    done = meshllm(*command, path)
    assert done.code in (ExitCode.USAGE, ExitCode.MODEL, ExitCode.NODE), done.err
    assert done.out == "" and done.err.startswith("error: ") and "Traceback" not in done.err
