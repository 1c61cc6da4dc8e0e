"""What all codecs share: sizes, checks, and a walk over the rows in pieces that stay in the CPU's cache."""

from abc import ABC, abstractmethod
from enum import IntEnum
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from meshllm_core.errors import EngineError, WireError
from meshllm_core.wire import limits

Rows = NDArray[np.float32]
"""Hidden state: (rows, width), C-contiguous."""
Bytes = NDArray[np.uint8]

PIECE = 1 << 17
"""Values worked on at a time. Smaller pieces stay nearer to the core, and lose more by calls (measured)."""


class Dtype(IntEnum):
    """How the values of a row are written. The number is the one in a frame's header."""

    F32 = 0
    F16 = 1
    Q8 = 2
    BF16 = 3
    Q8X = 4

    @property
    def label(self) -> str:
        """The name people and records use."""
        return self.name.lower()


class Codec(ABC):
    """Rows of one width to bytes and back. Owns scratch memory: one thread at a time."""

    dtype: ClassVar[Dtype]

    def __init__(self, width: int) -> None:
        """`width` is values per row. Raises WireError when it is none that a model has."""
        if not 1 <= width <= limits.STAGE_WIDTH:
            raise WireError(f"Rows of {width} values; 1 to {limits.STAGE_WIDTH} can be sent.", param="width")
        self.width = width
        self.step = max(1, PIECE // width)

    @classmethod
    @abstractmethod
    def size_of(cls, rows: int, width: int) -> int:
        """Bytes that so many rows of `width` values take."""

    def size(self, rows: int) -> int:
        """Bytes that so many rows take."""
        return self.size_of(rows, self.width)

    def encode(self, rows: Rows, out: Bytes) -> bool:
        """Writes `rows`, (n, width) float32, into `out` of `size(n)` bytes.

        False when a finite value is beyond what this codec can say; `out` is then of no use. Raises
        EngineError when a value is not finite: only the engine of this machine can have made it.
        """
        count = self._check(rows, out)
        for start in range(0, count, self.step):
            end = min(start + self.step, count)
            if not self._encode(rows[start:end], out, start, count):
                return False
        return True

    def decode(self, data: Bytes, out: Rows) -> None:
        """Reads bytes into `out`, (n, width) float32; `data` has `size(n)` bytes.

        Raises WireError when the bytes say anything that is not a finite number.
        """
        count = self._check(out, data)
        for start in range(0, count, self.step):
            self._decode(data, out[start : start + self.step], start, count)

    @abstractmethod
    def _encode(self, rows: Rows, out: Bytes, start: int, count: int) -> bool:
        """Writes rows start.. of `count`; at most `step` of them."""

    @abstractmethod
    def _decode(self, data: Bytes, out: Rows, start: int, count: int) -> None:
        """Reads rows start.. of `count`; at most `step` of them."""

    def _check(self, rows: Rows, data: Bytes) -> int:
        if rows.ndim != 2 or rows.shape[1] != self.width or rows.dtype != np.float32:
            raise WireError(
                f"Rows of shape {rows.shape} and type {rows.dtype}, not (n, {self.width}) and float32.",
                param="width",
            )
        if not rows.flags.c_contiguous or not data.flags.c_contiguous:
            raise WireError("Rows whose values do not lie one after another.", param="rows")
        if data.shape != (self.size(len(rows)),):
            raise WireError(
                f"{data.size} bytes of rows, where {len(rows)} rows of {self.width} values as "
                f"{self.dtype.label} take {self.size(len(rows))}.",
                param="length",
            )
        return len(rows)


class FixedCodec(Codec):
    """A codec that writes each value by itself, in `value_bytes`."""

    value_bytes: ClassVar[int]

    @classmethod
    def size_of(cls, rows: int, width: int) -> int:
        """See `Codec.size_of`."""
        return rows * width * cls.value_bytes

    def _at(self, data: Bytes, start: int, rows: int) -> Bytes:
        """The bytes of rows start..start+rows."""
        row = self.width * self.value_bytes
        return data[start * row : (start + rows) * row]


def largest(rows: Rows, start: int) -> float:
    """The largest magnitude; `start` is the number of the first row, for the error.

    Raises EngineError when a value is not finite: maximum and minimum hand a NaN on.
    """
    low, high = float(rows.min()), float(rows.max())
    size = max(high, -low)
    if not (high - high == 0 and low - low == 0):
        raise not_finite(rows, start)
    return size


def not_finite(rows: Rows, start: int) -> EngineError:
    """The error for rows that the engine computed wrong."""
    row = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
    return EngineError(
        f"The engine computed a value that is not finite (row {start + row} of a frame).",
        hint="The model's file or this machine's driver is faulty: run `meshllm doctor`, or use another.",
    )


def damaged(dtype: Dtype, what: str) -> WireError:
    """The error for bytes that no encoder writes."""
    return WireError(f"A stage frame's {dtype.label} rows hold {what}.", param="rows")
