"""Logging to a rotating file and a ring in memory; secrets never reach either.

Nothing goes to the terminal unless asked for: a dashboard may own it.
"""

import logging
import logging.handlers
import re
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from meshllm_core.paths import Paths

FILE_BYTES = 4 << 20
FILES_KEPT = 3
LINES_KEPT = 1000
"""Lines of the ring in memory."""
LINE_LIMIT = 8192
"""Characters of one record; the rest is cut."""
MASK = "•••"

_TALKATIVE = ("httpx", "httpcore", "huggingface_hub", "urllib3", "asyncio", "uvicorn.access", "sse_starlette")
_PATTERNS = (
    re.compile(r"(?i)(bearer\s+)[A-Za-z0-9._~+/=-]{6,}"),
    re.compile(r"(?i)((?:api[_-]?key|token|password|secret)[\"']?\s*[=:]\s*[\"']?)[^\s\"',&}]{6,}"),
    re.compile(r"()\b(?:hf_|sk-)[A-Za-z0-9_-]{8,}"),
    # An invite, with dashes, without, or with spaces between its groups.
    re.compile(r"(?i)(meshllm:/{0,2})[a-z0-9]{4,}(?:-[a-z0-9]+|\s+[a-z0-9]{8}(?![a-z0-9]))*"),
)


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without the given secrets and without anything that looks like one."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<1>{MASK}", text)
    return text


class _MaskingFormatter(logging.Formatter):
    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
        self._secrets = tuple(secret for secret in secrets if len(secret) >= 4)

    def format(self, record: logging.LogRecord) -> str:
        return mask(super().format(record)[:LINE_LIMIT], self._secrets)


class LogRing(logging.Handler):
    """The last lines of the log, kept in memory."""

    def __init__(self, keep: int = LINES_KEPT) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=keep)

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps one record as text."""
        self._lines.append(self.format(record))

    @property
    def lines(self) -> tuple[str, ...]:
        """Oldest first."""
        return tuple(self._lines)


class LogSession:
    """Logging as `start_logging` set it up; `close` puts back what was before."""

    def __init__(
        self, ring: LogRing, file: Path | None, problem: str, handlers: list[logging.Handler]
    ) -> None:
        self.ring = ring
        self.file = file
        """The log file, or None when it cannot be written."""
        self.problem = problem
        """Why there is no file; empty when there is one."""
        self._handlers = handlers
        root = logging.getLogger()
        self._before = (root.level, list(root.handlers))
        root.handlers = list(handlers)

    def close(self) -> None:
        """Flushes, closes the file and restores the root logger."""
        root = logging.getLogger()
        root.level, root.handlers = self._before[0], self._before[1]
        logging.captureWarnings(False)
        for handler in self._handlers:
            handler.close()


def log_file(paths: Paths, name: str = "node") -> Path:
    """Where the log of a process of ours is."""
    return paths.logs / f"{name}.log"


def start_logging(
    paths: Paths,
    *,
    level: str = "info",
    name: str = "node",
    secrets: Iterable[str] = (),
    stderr: bool = False,
) -> LogSession:
    """Sends all logging of this process to `<logs>/<name>.log`, to a ring, and to stderr if asked.

    A log that cannot be written does not stop the node: `LogSession.problem` says why.
    """
    formatter = _MaskingFormatter(secrets)
    ring = LogRing()
    handlers: list[logging.Handler] = [ring]
    file: Path | None = log_file(paths, name)
    problem = ""
    try:
        handlers.append(_file_handler(log_file(paths, name)))
    except OSError as error:
        file, problem = None, f"cannot write {paths.logs}: {error.strerror}"
    if stderr:
        handlers.append(logging.StreamHandler())
    for handler in handlers:
        handler.setFormatter(formatter)
    session = LogSession(ring, file, problem, handlers)
    root = logging.getLogger()
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    for talkative in _TALKATIVE:
        logging.getLogger(talkative).setLevel(max(logging.WARNING, root.level))
    if problem:
        logging.getLogger(__name__).warning("%s", problem)
    return session


def _file_handler(path: Path) -> logging.Handler:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600)
    return _QuietRotatingFile(
        path, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8", errors="replace"
    )


class _QuietRotatingFile(logging.handlers.RotatingFileHandler):
    """A full disk must not print tracebacks over a dashboard: lines are lost, the node goes on."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Loses the line."""
