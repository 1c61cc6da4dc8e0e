"""The log files of a node and its engines: which there are, and pieces of them, asked for by name."""

import re
import stat
from dataclasses import dataclass
from pathlib import Path

from meshllm_core.errors import InvalidRequest, NodeError
from meshllm_core.log import log_file
from meshllm_core.paths import Paths

NODE = "node"
"""Name of the node's own log."""
_ENGINE = "engine-"
LISTED = 500
"""Logs that are listed at most: the newest."""
NAME_LIMIT = 120
TAIL_LIMIT = 4 << 20
"""Bytes from the end of a file that are looked at for its last lines."""
PIECE_LIMIT = 64 << 10
"""Bytes of one piece."""


@dataclass(frozen=True)
class LogFile:
    """A log that is there."""

    name: str
    path: Path
    size: int
    """Bytes."""
    changed_at: float
    """Seconds since the epoch."""


@dataclass(frozen=True)
class Piece:
    """Some whole lines of a log, or a part of one that is longer than a piece."""

    data: bytes
    file: str
    """Another value means another file: the log was moved aside and began anew."""
    start: int
    """Where `data` begins, in bytes from the file's beginning."""
    end: int
    size: int
    """Bytes of the whole file."""
    fresh: bool
    """It does not go on where was asked for, because the file is another one or became shorter."""


def safe_name(model: str) -> str:
    """A model's name as part of a file's: what a file name cannot hold is an underscore."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", model)[:NAME_LIMIT] or "model"


def engine_file(folder: Path, model: str) -> Path:
    """Where the engine of a model writes."""
    return folder / f"{_ENGINE}{safe_name(model)}.log"


def engine_name(name: str) -> str:
    """Of which model's engine the log of that name is, as file names write it; empty: of none."""
    return name.removeprefix(_ENGINE) if name.startswith(_ENGINE) else ""


def list_logs(paths: Paths) -> list[LogFile]:
    """The node's log first, then the engines', newest first; links and other things are left out."""
    found = [
        log
        for path in (log_file(paths), *paths.logs.glob(f"{_ENGINE}*.log"))
        if (log := _seen(path)) is not None
    ]
    own, others = [log for log in found if log.name == NODE], [log for log in found if log.name != NODE]
    others.sort(key=lambda log: (-log.changed_at, log.name))
    return [*own, *others[: LISTED - 1]]


def _seen(path: Path) -> LogFile | None:
    try:
        facts = path.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    return LogFile(path.stem, path, facts.st_size, facts.st_mtime)


def find_log(paths: Paths, name: str) -> LogFile:
    """The log of that name. Raises InvalidRequest for a name that is not among those listed."""
    for log in list_logs(paths):
        if log.name == name:
            return log
    raise InvalidRequest(
        f"This node has no log named {name[:NAME_LIMIT]!r}.",
        hint="The question `logs` lists them.",
        param="name",
    )


def tail(file: Path, lines: int) -> list[str]:
    """The last lines of a file. Raises NodeError when it cannot be read."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, opened.seek(0, 2) - TAIL_LIMIT))
            return opened.read(TAIL_LIMIT).decode("utf-8", "replace").splitlines()[-lines:]
    except OSError as error:
        raise _unreadable(file, error) from None


def read_piece(file: Path, after: int | None, known: str = "", limit: int = PIECE_LIMIT) -> Piece:
    """At most `limit` bytes from `after` on; None: the end of the file.

    `known` is the `file` of the piece before. Where the file is another one by now, or shorter than
    `after`, it is read from its beginning. Raises NodeError when it cannot be read.
    """
    try:
        with file.open("rb") as opened:
            facts = opened.seek(0, 2), file.stat()
            size, identity = facts[0], f"{facts[1].st_dev:x}-{facts[1].st_ino:x}"
            fresh = after is not None and (after > size or bool(known and known != identity))
            start = max(0, size - limit) if after is None else 0 if fresh else after
            opened.seek(start)
            data = opened.read(limit)
    except OSError as error:
        raise _unreadable(file, error) from None
    if after is None and start > 0:
        skipped = data.find(b"\n") + 1
        start, data = start + skipped, data[skipped:]
    if start + len(data) < size or not data.endswith(b"\n"):
        # The rest of a line comes with the next piece, unless a piece holds no end of a line at all.
        whole = data.rfind(b"\n") + 1
        data = data[:whole] if whole or len(data) < limit else data
    return Piece(data, identity, start, start + len(data), size, fresh)


def _unreadable(file: Path, error: OSError) -> NodeError:
    return NodeError(f"Cannot read {file}: {error.strerror}.", hint="Has a node run here?")
