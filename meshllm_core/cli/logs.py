"""`meshllm logs`: the end of the node's log, or of an engine's."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.options import AsJson
from meshllm_core.cli.output import clean, emit, emit_json, is_terminal, write
from meshllm_core.errors import ConfigError, NodeError
from meshllm_core.log import log_file
from meshllm_core.log_files import NODE, engine_file, engine_name, list_logs, tail
from meshllm_core.paths import Paths, default_paths

READ_LIMIT = 1 << 20
"""Bytes of a growing file that are read at a time."""
FOLLOW_SECONDS = 0.25

Lines = Annotated[int, typer.Option("--lines", "-n", min=1, max=10_000, help="Lines from the end.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines until Ctrl+C.")]
Engine = Annotated[
    str,
    typer.Option("--engine", metavar="MODEL", help="The log of this model's engine instead of the node's."),
]


def logs(lines: Lines = 50, follow: Follow = False, engine: Engine = "", as_json: AsJson = False) -> None:
    """Show the end of the node's log, or of an engine's."""
    if follow and as_json:
        raise ConfigError("--follow has no end and --json is one document.", hint="Leave one of them out.")
    file = _file(default_paths(), engine)
    shown = tail(file, lines)
    if as_json:
        emit_json({"file": str(file), "lines": shown})
        return
    say(f"{file}:")
    for line in shown:
        emit(clean(line) if is_terminal() else line)
    if follow:
        for text in new_text(file):
            write(clean(text) if is_terminal() else text)


def new_text(file: Path) -> Iterator[str]:
    """What is appended from now on, for ever; goes on with the next file when this one is rotated."""
    opened = file.open("rb")
    try:
        opened.seek(0, 2)
        while True:
            if text := opened.read(READ_LIMIT):
                yield text.decode("utf-8", "replace")
                continue
            time.sleep(FOLLOW_SECONDS)
            if _replaced(file, opened.fileno()):
                opened.close()
                opened = file.open("rb")
    finally:
        opened.close()


def _replaced(file: Path, descriptor: int) -> bool:
    try:
        return file.stat().st_ino != os.fstat(descriptor).st_ino
    except OSError:
        return False


def _file(paths: Paths, engine: str) -> Path:
    if not engine:
        return log_file(paths)
    file = engine_file(paths.logs, engine)
    if file.is_file():
        return file
    known = sorted(engine_name(log.name) for log in list_logs(paths) if log.name != NODE)
    raise NodeError(
        f"There is no engine log of {engine!r}.", hint=f"There are logs of: {', '.join(known) or 'none'}."
    )
