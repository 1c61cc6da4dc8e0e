"""Golden probes: what a model's hidden states are at every boundary between layers, for one prompt.

A stage that has just loaded is fed the rows at its start and must reproduce those at its end, within the
rounding of its backend and of its KV cache: see `tolerance`. The file lies
beside a package's manifest, which does not name it: readers that do not know it do not see it. A safetensors
file:

    tokens      I32 [n]         the prompt, as the model's tokenizer numbers it
    boundary.b  F32 [n, width]  rows that enter layer b; for b = layers those that leave the last one, before
                                the output norm. boundary.0 is what layer 0 gets, scaled as the model scales
                                it. Boundaries may be left out; width is that of a row on the wire.
    __metadata__  format "meshllm-golden-probes", version "1", source_sha256 (the packaged model's, as in its
                  manifest), layers, made_with (library and backend, free text)
"""

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from meshllm_core.errors import ModelFileInvalid
from meshllm_core.models.keys import MAX_LAYERS, MAX_WIDTH
from meshllm_core.models.stage_source import SourceFile
from meshllm_core.models.units import printable

PROBES_NAME = "golden-probes.safetensors"
MAX_PROBES_BYTES = 1 << 30
MAX_TOKENS = 256
"""Longest probe prompt."""

_MAX_HEADER_BYTES = 1 << 20
_FORMAT, _VERSION = "meshllm-golden-probes", "1"
_HINT = "Make the package again, or remove the file: a package is whole without it."

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class GoldenProbes:
    """Probe rows to be written."""

    tokens: tuple[int, ...]
    boundaries: Mapping[int, Rows] = field(repr=False)
    """By layer: [tokens, width]."""
    made_with: str
    """Library and backend, for a person who compares."""


_TOLERANCES = {"f16": 0.1, "q8_0": 0.1, "q4_0": 0.35}
# Measured: another way of attention is off by 0.01 to 0.04, KV caches of q8_0 by 0.05, of q4_0 by 0.18; one
# matrix of zeros in one of 15 layers by 0.13 to 40.


def tolerance(kv_type: str) -> float:
    """How large `deviation` may be of a stage whose KV cache has this type; another backend is no excuse."""
    return _TOLERANCES[kv_type]


def deviation(made: Rows, end: Rows, begin: Rows | None) -> float:
    """How far `made` is from the probe's rows `end`, as a share of what the stage changes in a row; of the
    worst row. 0 is the same; a stage that did nothing has 1. `begin` None: the stage begins with tokens.

    All [tokens, width]. Infinite for rows of another shape or such that are not finite.
    """
    if made.shape != end.shape or (begin is not None and begin.shape != end.shape):
        return math.inf
    changed = end if begin is None else end - begin
    off = np.linalg.norm(made.astype(np.float64) - end, axis=1)
    worst = float((off / np.maximum(np.linalg.norm(changed.astype(np.float64), axis=1), 1e-30)).max())
    return worst if math.isfinite(worst) else math.inf


def excerpt(file: "ProbeFile", boundaries: Sequence[int]) -> bytes:
    """A probe file with the rows of these boundaries alone: what one stage needs. Raises ModelFileInvalid."""
    rows = {boundary: file.rows(boundary) for boundary in boundaries}
    probes = GoldenProbes(file.tokens(), rows, file.made_with)
    return encode_probes(probes, file.source_sha256, file.layers)


class _Entry(msgspec.Struct, frozen=True):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


class _Metadata(msgspec.Struct, frozen=True):
    format: str
    version: str
    source_sha256: str
    layers: str
    made_with: str = ""


def encode_probes(probes: GoldenProbes, source_sha256: str, layers: int) -> bytes:
    """The file's bytes. Raises ModelFileInvalid where the rows cannot be probes of such a model."""
    count = len(probes.tokens)
    if not 0 < count <= MAX_TOKENS or not probes.boundaries:
        raise _invalid("the probes", f"they hold {count} tokens and {len(probes.boundaries)} boundaries")
    arrays: dict[str, NDArray[np.generic]] = {"tokens": np.asarray(probes.tokens, "<i4")}
    for boundary, rows in sorted(probes.boundaries.items()):
        if not 0 <= boundary <= layers:
            raise _invalid("the probes", f"boundary {boundary} is not in a model of {layers} layers")
        if rows.ndim != 2 or rows.shape[0] != count or not np.isfinite(rows).all():
            raise _invalid("the probes", f"the rows of boundary {boundary} are not {count} finite rows")
        arrays[f"boundary.{boundary}"] = np.ascontiguousarray(rows, "<f4")
    metadata = _Metadata(_FORMAT, _VERSION, source_sha256, str(layers), probes.made_with[:200])
    header: dict[str, object] = {"__metadata__": metadata}
    offset = 0
    for name, array in arrays.items():
        kind = "I32" if name == "tokens" else "F32"
        header[name] = _Entry(kind, array.shape, (offset, offset + array.nbytes))
        offset += array.nbytes
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<Q", len(text)), text, *(array.tobytes() for array in arrays.values())])


class ProbeFile:
    """A probe file that is read row by row, as far as they are needed."""

    def __init__(self, file: SourceFile) -> None:
        """Reads and checks the header. Raises ModelFileInvalid."""
        self._file = file
        if not 8 < file.size <= MAX_PROBES_BYTES:
            raise _invalid(file.name, f"it is {file.size} bytes long")
        (length,) = struct.unpack("<Q", file.read(0, 8))
        if not 0 < length <= min(_MAX_HEADER_BYTES, file.size - 8):
            raise _invalid(file.name, f"its header claims {length} bytes")
        self._start = 8 + length
        try:
            raw = msgspec.json.decode(file.read(8, length), type=dict[str, msgspec.Raw])
            metadata = msgspec.json.decode(raw.pop("__metadata__", b"{}"), type=_Metadata)
            self._entries = {name: msgspec.json.decode(entry, type=_Entry) for name, entry in raw.items()}
        except (msgspec.DecodeError, RecursionError) as error:
            raise _invalid(file.name, printable(str(error))) from error
        if (metadata.format, metadata.version) != (_FORMAT, _VERSION) or not metadata.layers.isdecimal():
            raise _invalid(
                file.name, f"it is {printable(metadata.format, 60)!r} {printable(metadata.version, 20)}"
            )
        self.source_sha256 = metadata.source_sha256
        self.layers = min(int(metadata.layers[:4]), MAX_LAYERS)
        self.made_with = printable(metadata.made_with)
        for name, entry in self._entries.items():
            self._check(name, entry)
        if "tokens" not in self._entries:
            raise _invalid(file.name, "it holds no tokens")
        (self._count,) = self._entries["tokens"].shape

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The layers before which rows are known."""
        return tuple(sorted(int(name[9:]) for name in self._entries if name.startswith("boundary.")))

    def tokens(self) -> tuple[int, ...]:
        """The prompt."""
        return tuple(int(token) for token in np.frombuffer(self._read("tokens"), "<i4"))

    def rows(self, boundary: int) -> Rows:
        """[tokens, width] of one of `boundaries`. Raises ModelFileInvalid where they are not finite."""
        name = f"boundary.{boundary}"
        rows = np.frombuffer(self._read(name), "<f4").reshape(self._entries[name].shape).astype(np.float32)
        if rows.shape[0] != self._count or not np.isfinite(rows).all():
            raise _invalid(self._file.name, f"{name} does not hold {self._count} finite rows")
        return rows

    def _read(self, name: str) -> bytes:
        first, end = self._entries[name].data_offsets
        return self._file.read(self._start + first, end - first)

    def _check(self, name: str, entry: _Entry) -> None:
        boundary = name.removeprefix("boundary.")
        number = int(boundary) if name != boundary and boundary.isdecimal() and len(boundary) < 5 else -1
        tokens = name == "tokens"
        if not tokens and not 0 <= number <= self.layers:
            raise _invalid(self._file.name, f"it holds {printable(name, 60)!r}")
        limits = (MAX_TOKENS,) if tokens else (MAX_TOKENS, MAX_WIDTH)
        if entry.dtype != ("I32" if tokens else "F32") or len(entry.shape) != len(limits):
            raise _invalid(self._file.name, f"{name} is {printable(entry.dtype, 20)} {entry.shape[:4]}")
        first, end = entry.data_offsets
        sizes = zip(entry.shape, limits, strict=True)
        if not all(0 < size <= limit for size, limit in sizes) or end - first != 4 * math.prod(entry.shape):
            raise _invalid(self._file.name, f"{name} claims the shape {entry.shape} in {end - first} bytes")
        if not 0 <= first <= end <= self._file.size - self._start:
            raise _invalid(self._file.name, f"{name} claims bytes {first} to {end}, outside of the file")


def _invalid(name: str, what: str) -> ModelFileInvalid:
    return ModelFileInvalid(f"The golden probes in {Path(name).name} cannot be used: {what}.", hint=_HINT)
