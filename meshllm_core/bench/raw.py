"""The measurements themselves, one JSON object per line, so that a table can be made again."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from meshllm_core.bench.measure import Run
from meshllm_core.bench.session import Side
from meshllm_core.errors import ConfigError


class RawLog:
    """Appends to an open file; without one it drops everything."""

    def __init__(self, file: TextIO | None) -> None:
        self._file = file

    def conditions(self, values: dict[str, Any]) -> None:
        """A line that says what the following ones were measured on."""
        self._write({"kind": "conditions", **values})

    def line(self, kind: str, values: dict[str, Any]) -> None:
        """A line of another kind."""
        self._write({"kind": kind, **values})

    def run(self, side: Side, run: Run, kept: bool) -> None:
        """A line per request of a run; `kept` says whether the run counts."""
        for request in run.as_json():
            self._write(
                {"kind": "request", "server": side.name, "model": side.target.model, "kept": kept, **request}
            )

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line, separators=(",", ":")) + "\n")
            self._file.flush()


@contextmanager
def open_raw(path: Path | None) -> Iterator[RawLog]:
    """Opens `path` for appending. Raises ConfigError when it cannot be written."""
    if path is None:
        yield RawLog(None)
        return
    try:
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"--raw {str(path)!r} cannot be written: {error.strerror}.", param="--raw"
        ) from error
    with file:
        yield RawLog(file)
