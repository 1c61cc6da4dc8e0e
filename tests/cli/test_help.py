"""The help of every command, letter by letter, and the completion that shells ask for.

After a wanted change: `python -m tests.cli.test_help` writes the golden file anew.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from meshllm_core.cli.app import COMMANDS
from meshllm_core.config import KEYS
from tests.cli.conftest import COMMAND, Result, run_apart, run_here

GOLDEN = Path(__file__).with_name("golden_help.txt")
ELSEWHERE = {"bench"}
"""Commands whose options another test pins."""
GROUPS = {
    "models": ("list", "show", "download", "prune", "recommended"),
    "package": ("build", "verify", "show", "fetch"),
    "doctor": ("split",),
}

Run = Callable[..., Result]


def helps() -> Iterator[tuple[str, ...]]:
    """The arguments of every call for help."""
    yield ("--help",)
    for name in COMMANDS:
        if name not in ELSEWHERE:
            yield (name, "--help")
        for inner in GROUPS.get(name, ()):
            yield (name, inner, "--help")


def all_help() -> str:
    """Every help text, each under the command that prints it."""
    parts = []
    for arguments in helps():
        result = run_here(arguments)
        assert (result.code, result.err) == (0, "")
        lines = [line for line in result.out.splitlines() if line.split()[:1] != ["bench"]]
        parts.append("\n".join([f"$ meshllm {' '.join(arguments)}", *lines, ""]))
    return "\n".join(parts)


def test_help_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert all_help() == GOLDEN.read_text(encoding="utf-8")


def test_an_option_before_a_command_does_not_hide_the_others() -> None:
    assert run_here(("-h", "serve")).out == run_here(("--help",)).out


def test_serve_offers_every_flag_of_the_table() -> None:
    text = run_here(("serve", "--help")).out
    for row in KEYS:
        if row.flag:
            assert f"{row.flag}" in text
            assert row.variable in text


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_found_alone_and_among_all(name: str) -> None:
    assert run_here((name, "--help")).out.startswith(f"Usage: meshllm {name}")
    assert f"\n  {name} " in run_here(("--help",)).out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("meshllm st", {"stages", "status", "stop"}),
        ("meshllm models ", {"list", "show", "download", "prune", "recommended"}),
        ("meshllm serve --ma", {"--max-vram", "--max-clients"}),
        ("meshllm serve --kv-type q", {"q8_0", "q4_0"}),
    ],
)
def test_completion_in_a_real_shell(words: str, expected: set[str], tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    script = run_apart("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1").out
    program = tmp_path / "meshllm"
    program.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    asked = words.split(" ")
    ask = (
        f"COMP_WORDS=({' '.join(repr(word) for word in asked)}); COMP_CWORD={len(asked) - 1}; "
        f'COMP_LINE="{words}"; COMP_POINT={len(words)}; _meshllm_completion meshllm; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [bash, "--norc", "-c", f"{script}\n{ask}"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert set(done.stdout.split()) == expected, done.stderr


if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"
    GOLDEN.write_text(all_help(), encoding="utf-8")
    sys.stderr.write(f"{GOLDEN} is written anew.\n")
