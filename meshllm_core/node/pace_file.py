"""What is kept of this machine's speed: one entry for each way in which it was measured."""

import importlib.metadata
import logging
from pathlib import Path
from typing import Annotated

import msgspec

from meshllm_core.errors import StorageError
from meshllm_core.identity.private_file import replace
from meshllm_core.paths import Paths
from meshllm_core.state.pace_events import Pace

log = logging.getLogger(__name__)

VERSION = 1
KEPT = 16
"""Entries, the latest; another way of computing replaces the oldest."""
FILE_LIMIT = 1 << 16
"""Bytes of the file that are read at most."""

Text = Annotated[str, msgspec.Meta(max_length=256)]


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """What a measurement holds for."""

    kind: Text
    """Of the device: cpu, gpu, …"""
    device: Text
    """Its own name."""
    engine: Text
    """Version of llama.cpp's binding."""
    threads: int


class KeptPace(msgspec.Struct, frozen=True, kw_only=True):
    """One entry."""

    conditions: Conditions
    pace: Pace
    at: float
    """Seconds since the epoch."""


class _File(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    paces: Annotated[tuple[KeptPace, ...], msgspec.Meta(max_length=KEPT)]


_decoder = msgspec.json.Decoder(_File)


def engine_version() -> str:
    """Version of llama.cpp's binding, without loading it; empty where it is not installed."""
    try:
        return importlib.metadata.version("llama-cpp-python")
    except importlib.metadata.PackageNotFoundError:
        return ""


def kept_pace(paths: Paths, conditions: Conditions) -> Pace | None:
    """What was measured under these conditions; None where nothing was, or the file is of no use."""
    return next((kept.pace for kept in _read(paths.pace_file) if kept.conditions == conditions), None)


def keep_pace(paths: Paths, kept: KeptPace) -> None:
    """Puts an entry in the place of the one under the same conditions. Raises StorageError."""
    others = [each for each in _read(paths.pace_file) if each.conditions != kept.conditions]
    latest = sorted((*others, kept), key=lambda each: each.at)[-KEPT:]
    data = msgspec.json.format(msgspec.json.encode(_File(version=VERSION, paces=tuple(latest))))
    try:
        replace(paths.pace_file, data + b"\n")
    except OSError as error:
        raise StorageError(
            f"This machine's speed cannot be kept in {paths.pace_file}: {error.strerror}.",
            hint="Free some space, or set MESHLLM_HOME to a folder you own.",
        ) from error


def _read(path: Path) -> tuple[KeptPace, ...]:
    try:
        with path.open("rb") as file:
            found = _decoder.decode(file.read(FILE_LIMIT))
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        # It is measured again, which takes less time than telling a person about it.
        log.warning("%s is of no use and is made anew: %s", path, error)
        return ()
    return found.paces if found.version == VERSION else ()
