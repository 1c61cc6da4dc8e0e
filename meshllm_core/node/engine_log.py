"""The log file of each engine: one per model, bounded by starting over when it grew."""

import re
from pathlib import Path

LOG_LIMIT = 4 << 20
"""Bytes at which an engine's log is moved aside before the next start."""


def engine_log(folder: Path, model: str) -> Path:
    """Where the engine of a model writes; a large old log is kept as `.1`."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", model)[:120] or "model"
    path = folder / f"engine-{name}.log"
    if path.exists() and path.stat().st_size > LOG_LIMIT:
        path.replace(path.with_suffix(".log.1"))
    return path
