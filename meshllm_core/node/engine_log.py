"""The log file of each engine: one per model, bounded by starting over when it grew."""

from pathlib import Path

from meshllm_core.log_files import engine_file

LOG_LIMIT = 4 << 20
"""Bytes at which an engine's log is moved aside before the next start."""


def engine_log(folder: Path, model: str) -> Path:
    """Where the engine of a model writes; a large old log is kept as `.1`."""
    path = engine_file(folder, model)
    if path.exists() and path.stat().st_size > LOG_LIMIT:
        path.replace(path.with_suffix(".log.1"))
    return path
