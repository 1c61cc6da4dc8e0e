"""Reads the head of a GGUF file: key/values and tensor table, never the weights.

Large arrays are skipped, so a vocabulary of 262,144 entries costs a fraction of a second, and every count
and length is compared with the size of the file before anything is allocated.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from meshllm_core.errors import ModelFileInvalid, ModelNotFound
from meshllm_core.models.cursor import DAMAGED_HINT, Cursor
from meshllm_core.models.ggml_types import TENSOR_TYPES, TensorType

Scalar = int | float | bool | str

MAX_KEYS = 65_536
MAX_KEY_BYTES = 65_535
MAX_TENSORS = 1_000_000
MAX_NAME_BYTES = 63
MAX_DIMENSIONS = 4
MAX_ELEMENTS = (1 << 63) - 1
MAX_TEXT_BYTES = 4 << 20
"""Longest string value that is kept (chat templates are the longest in use)."""
MAX_ARRAY = 4096
"""Longest numeric array that is kept; longer ones are counted only."""

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_SCALARS = {
    code: struct.Struct(f"<{letter}")
    for code, letter in enumerate("BbHhIif?")
} | {10: _U64, 11: struct.Struct("<q"), 12: struct.Struct("<d")}  # fmt: skip
_STRING = 8
_ARRAY = 9


@dataclass(frozen=True)
class SkippedArray:
    """An array that is too long to keep, or holds strings."""

    count: int


Value = Scalar | tuple[Scalar, ...] | SkippedArray


@dataclass(frozen=True)
class Tensor:
    """One row of the tensor table."""

    name: str
    shape: tuple[int, ...]
    type: TensorType
    offset: int
    """Bytes from the beginning of the data section."""
    elements: int
    nbytes: int


@dataclass(frozen=True)
class GgufHead:
    """What stands before the weights of one file."""

    path: Path
    version: int
    values: Mapping[str, Value]
    tensors: tuple[Tensor, ...]
    file_bytes: int
    data_offset: int
    spans: Mapping[str, tuple[int, int]]
    """For each key the bytes of its whole entry (key, type, value): first, and one past the last."""
    alignment: int
    """Bytes; every tensor starts at a multiple of it in the data section."""


def read_head(path: Path) -> GgufHead:
    """The head of a GGUF file, checked to be whole. Raises ModelNotFound, ModelFileInvalid."""
    try:
        with path.open("rb") as stream:
            return parse_head(stream, path.stat().st_size, path)
    except FileNotFoundError as error:
        raise ModelNotFound(
            f"There is no file {path}.", hint="Check the spelling, or see `meshllm models list`."
        ) from error
    except OSError as error:
        raise ModelFileInvalid(
            f"{path} cannot be read: {error.strerror or error}.", hint="Check that it is a file you may read."
        ) from error


def parse_head(stream: BinaryIO, size: int, path: Path) -> GgufHead:
    """The head of a file of `size` bytes, named by `path`, from its beginning. Raises ModelFileInvalid."""
    cursor = Cursor(stream, size, path.name)
    version, tensor_count, key_count = _read_start(cursor)
    values, spans = _read_values(cursor, key_count)
    alignment = _alignment(cursor, values)
    tensors = _read_tensors(cursor, tensor_count)
    data_offset = -(-cursor.position // alignment) * alignment
    _check_data(path.name, tensors, alignment, data_offset, size)
    return GgufHead(path, version, values, tensors, size, data_offset, spans, alignment)


def _read_start(cursor: Cursor) -> tuple[int, int, int]:
    if cursor.size < 4 or cursor.bytes(4, "its first bytes") != b"GGUF":
        raise ModelFileInvalid(
            f"{cursor.name} is not a GGUF file.",
            hint="meshllm loads GGUF models; look for a repository whose name ends in -GGUF.",
        )
    (version,) = cursor.unpack(_U32, "the header")
    if version not in (2, 3):
        raise _wrong_version(cursor.name, int(version))
    (tensors,) = cursor.unpack(_U64, "the header")
    (keys,) = cursor.unpack(_U64, "the header")
    if keys > min(MAX_KEYS, cursor.left // 13):
        raise cursor.damaged(f"it claims {keys} keys")
    # A table row is at least 24 bytes: name length, dimension count, type, offset.
    if tensors > min(MAX_TENSORS, cursor.left // 24):
        raise cursor.damaged(f"it claims {tensors} tensors")
    return int(version), int(tensors), int(keys)


def _wrong_version(name: str, version: int) -> ModelFileInvalid:
    if version and version & 0xFFFF == 0:
        return ModelFileInvalid(
            f"{name} is a big-endian GGUF file.", hint="This machine needs the little-endian conversion."
        )
    return ModelFileInvalid(
        f"{name} is GGUF version {version}; versions 2 and 3 are supported.",
        hint="Download a newer conversion of the model, or update meshllm.",
    )


def _read_values(cursor: Cursor, count: int) -> tuple[dict[str, Value], dict[str, tuple[int, int]]]:
    values: dict[str, Value] = {}
    spans: dict[str, tuple[int, int]] = {}
    for _ in range(count):
        start = cursor.position
        key = _text(cursor, MAX_KEY_BYTES, "a key")
        if not key or key in values:
            raise cursor.damaged(f"the key {key[:80]!r} is empty or appears twice")
        (kind,) = cursor.unpack(_U32, f"the value of {key[:80]}")
        values[key] = _read_value(cursor, int(kind), key[:80])
        spans[key] = (start, cursor.position)
    return values, spans


def _read_value(cursor: Cursor, kind: int, key: str) -> Value:
    if kind == _STRING:
        return _text(cursor, MAX_TEXT_BYTES, f"the value of {key}")
    if kind == _ARRAY:
        return _read_array(cursor, key)
    layout = _SCALARS.get(kind)
    if layout is None:
        raise cursor.damaged(f"{key} has the unknown value type {kind}")
    return cursor.unpack(layout, f"the value of {key}")[0]


def _read_array(cursor: Cursor, key: str) -> Value:
    (kind,) = cursor.unpack(_U32, f"the array {key}")
    (count,) = (int(v) for v in cursor.unpack(_U64, f"the array {key}"))
    if kind == _STRING:
        cursor.skip_strings(count, f"the array {key}")
        return SkippedArray(count)
    layout = _SCALARS.get(int(kind))
    if layout is None:
        raise cursor.damaged(f"the array {key} has the unknown element type {kind}")
    if count > cursor.left // layout.size:
        raise cursor.damaged(f"the array {key} claims {count} elements, more than the file can hold")
    if count > MAX_ARRAY:
        cursor.skip(count * layout.size, f"the array {key}")
        return SkippedArray(count)
    return cursor.unpack(struct.Struct(f"<{count}{layout.format[-1]}"), f"the array {key}")


def _text(cursor: Cursor, limit: int, what: str) -> str:
    (length,) = (int(v) for v in cursor.unpack(_U64, what))
    if length > limit:
        raise cursor.damaged(f"{what} claims to be {length} bytes long")
    return cursor.bytes(length, what).decode("utf-8", errors="replace")


def _alignment(cursor: Cursor, values: Mapping[str, Value]) -> int:
    alignment = values.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
        raise cursor.damaged(f"the alignment {alignment!r} is not a power of two")
    return alignment


def _read_tensors(cursor: Cursor, count: int) -> tuple[Tensor, ...]:
    found: dict[str, Tensor] = {}
    for _ in range(count):
        tensor = _read_tensor(cursor)
        if found.setdefault(tensor.name, tensor) is not tensor:
            raise cursor.damaged(f"the tensor {tensor.name!r} is there twice")
    return tuple(found.values())


def _read_tensor(cursor: Cursor) -> Tensor:
    name = _text(cursor, MAX_NAME_BYTES, "a tensor name")
    if "\ufffd" in name:
        raise cursor.damaged(f"the tensor name {name!r} is not UTF-8")
    (dimensions,) = (int(v) for v in cursor.unpack(_U32, f"the tensor {name}"))
    if dimensions > MAX_DIMENSIONS:
        raise cursor.damaged(f"the tensor {name!r} has {dimensions} dimensions")
    shape = tuple(int(cursor.unpack(_U64, f"the tensor {name}")[0]) for _ in range(dimensions))
    (code,) = (int(v) for v in cursor.unpack(_U32, f"the tensor {name}"))
    (offset,) = (int(v) for v in cursor.unpack(_U64, f"the tensor {name}"))
    kind = TENSOR_TYPES.get(code)
    if kind is None:
        raise ModelFileInvalid(
            f"{cursor.name}: the tensor {name!r} has type {code}, which llama.cpp does not know.",
            hint="It is damaged or made for a newer llama.cpp: try another quantization, or update meshllm.",
        )
    elements = math.prod(shape)
    if elements > MAX_ELEMENTS or (shape and shape[0] % kind.block):
        raise cursor.damaged(f"the tensor {name!r} has the impossible shape {shape}")
    return Tensor(name, shape, kind, offset, elements, elements // kind.block * kind.size)


def _check_data(name: str, tensors: tuple[Tensor, ...], alignment: int, data_offset: int, size: int) -> None:
    """llama.cpp wants the tensors back to back, each padded to the alignment."""
    expected = 0
    for tensor in tensors:
        if tensor.offset != expected:
            raise ModelFileInvalid(
                f"{name} is damaged: {tensor.name!r} starts at {tensor.offset}, not at {expected}.",
                hint=DAMAGED_HINT,
            )
        expected += -(-tensor.nbytes // alignment) * alignment
    end = data_offset + max((t.offset + t.nbytes for t in tensors), default=0)
    if tensors and end > size:
        raise ModelFileInvalid(
            f"{name} is truncated: {end - size} of {end} bytes are missing.", hint=DAMAGED_HINT
        )
