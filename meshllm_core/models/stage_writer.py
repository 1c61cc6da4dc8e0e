"""Writes a stage's file: whole or not at all, zeros as holes, memory for one block at a time."""

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from meshllm_core.errors import StorageError
from meshllm_core.models.ggml_types import TENSOR_TYPES
from meshllm_core.models.stage_file import Piece, StageFile
from meshllm_core.models.storage import PARTIAL_SUFFIX, storing
from meshllm_core.models.units import show_bytes

BLOCK = 4 << 20
"""Bytes copied at a time."""

_CODES = {kind.name: code for code, kind in TENSOR_TYPES.items()}


def write_stage_file(
    stage: StageFile, target: Path, *, on_progress: Callable[[int], None] = lambda done: None
) -> Path:
    """Writes `stage` to `target` and returns it; `on_progress` gets the bytes of weights copied so far.

    Raises StorageError (no room, not writable) and what the source raises.
    """
    partial = target.with_name(target.name + PARTIAL_SUFFIX)
    head = _head(stage)
    with storing(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        _check_room(target.parent, len(head) + stage.copied_bytes)
        try:
            with partial.open("wb") as out:
                out.write(head)
                _write_tensors(stage, out, on_progress)
                out.flush()
                os.fsync(out.fileno())
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    return target


def _check_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StorageError(
            f"The stage needs {show_bytes(needed)} in {folder}, and {show_bytes(free)} are free.",
            hint="Free some space (`meshllm models prune`), or set MESHLLM_HOME to a larger disk.",
        )


def _head(stage: StageFile) -> bytes:
    parts = [struct.pack("<4sIQQ", b"GGUF", 3, len(stage.tensors), len(stage.entries)), *stage.entries]
    offset = 0
    for tensor in stage.tensors:
        name = tensor.name.encode()
        parts.append(struct.pack("<Q", len(name)) + name)
        parts.append(struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape))
        parts.append(struct.pack("<IQ", _CODES[tensor.type.name], offset))
        offset += _aligned(tensor.nbytes, stage.alignment)
    head = b"".join(parts)
    return head.ljust(_aligned(len(head), stage.alignment), b"\0")


def _aligned(count: int, alignment: int) -> int:
    return -(-count // alignment) * alignment


def _write_tensors(stage: StageFile, out: BinaryIO, on_progress: Callable[[int], None]) -> None:
    position, done = out.tell(), 0
    for tensor in stage.tensors:
        if tensor.piece is not None:
            out.seek(position)
            _copy(tensor.piece, out)
            done += tensor.nbytes
            on_progress(done)
        position += _aligned(tensor.nbytes, stage.alignment)
    # A file may end with a hole: its length has to be said.
    out.truncate(position)
    if stage.tail is not None and stage.tail.piece is not None:
        out.seek(position)
        _copy(stage.tail.piece, out)
        on_progress(done + stage.tail.nbytes)


def _copy(piece: Piece, out: BinaryIO) -> None:
    if piece.count == 1:
        for start in range(0, piece.length, BLOCK):
            out.write(piece.file.read(piece.offset + start, min(BLOCK, piece.length - start)))
        return
    # Parts of rows: whole rows are read, many at a time, and the parts cut out of them.
    rows = max(1, BLOCK // piece.stride)
    for first in range(0, piece.count, rows):
        count = min(rows, piece.count - first)
        data = piece.file.read(piece.offset + first * piece.stride, (count - 1) * piece.stride + piece.length)
        out.write(b"".join(data[i * piece.stride : i * piece.stride + piece.length] for i in range(count)))
