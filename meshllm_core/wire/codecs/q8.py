"""q8: one scale per row and a signed byte per value; byte for byte the row codec of Mesh LLM.

Layout: the scales of all rows (f32), then all rows (int8). One scale serves the whole row, so a few large
channels push the rest towards zero: many artifacts do not stand it. It is here for those that were certified.
"""

import numpy as np
from numpy.typing import NDArray

from meshllm_core.wire.codecs.base import Bytes, Codec, Dtype, Rows, damaged, not_finite

_STEPS = 127
_HALF = np.float32(0.49999997)
"""The single just below a half: added before the cut, it rounds halves away from zero and nothing else."""
_SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)
LARGEST_SCALE = float(np.finfo(np.float32).max) / 128
"""With a larger one, a byte of -128 would be decoded to infinity."""


class Q8(Codec):
    """`width` + 4 bytes a row."""

    dtype = Dtype.Q8

    def __init__(self, width: int) -> None:
        """See `Codec`."""
        super().__init__(width)
        self._size = np.empty((self.step, width), np.float32)
        self._negative = np.empty((self.step, width), np.bool_)

    @classmethod
    def size_of(cls, rows: int, width: int) -> int:
        """See `Codec.size_of`."""
        return rows * (width + 4)

    def _parts(
        self, data: Bytes, start: int, rows: int, count: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
        """Scales (rows, 1) and values (rows, width) of a piece."""
        scales = data[: count * 4].view(np.float32)[start : start + rows]
        values = data[count * 4 :].view(np.int8).reshape(count, self.width)[start : start + rows]
        return scales.reshape(-1, 1), values

    def _encode(self, rows: Rows, out: Bytes, start: int, count: int) -> bool:
        n = len(rows)
        scales, values = self._parts(out, start, n, count)
        size, negative = self._size[:n], self._negative[:n]
        np.abs(rows, out=size)
        np.max(size, axis=1, out=scales[:, 0])
        if not np.isfinite(scales).all():
            raise not_finite(rows, start)
        smallest_row = float(scales.min())
        np.divide(scales, np.float32(_STEPS), out=scales, where=scales > 0)
        if float(scales.max()) > LARGEST_SCALE:
            return False
        if smallest_row < _STEPS * _SMALLEST_NORMAL:
            _divide_tiny(size, scales)
        else:
            np.divide(size, scales, out=size)
        np.add(size, _HALF, out=size)
        # The cut towards zero, and the sign: (v ^ -1) + 1 = -v.
        np.copyto(values, size, casting="unsafe")
        np.less(rows, 0, out=negative)
        np.negative(negative.view(np.int8), out=negative.view(np.int8))
        np.bitwise_xor(values, negative.view(np.int8), out=values)
        np.subtract(values, negative.view(np.int8), out=values)
        return True

    def _decode(self, data: Bytes, out: Rows, start: int, count: int) -> None:
        scales, values = self._parts(data, start, len(out), count)
        # A NaN fails both comparisons.
        if not (float(scales.min()) >= 0 and float(scales.max()) <= LARGEST_SCALE):
            raise damaged(self.dtype, "a scale that is negative, too large or not finite")
        np.copyto(out, values)
        np.multiply(out, scales, out=out)


def _divide_tiny(size: Rows, scales: NDArray[np.float32]) -> None:
    """`size` / `scales`, in place, where a scale may be zero or below the normal range.

    Rows of zeros have the scale 1. A scale that has lost its bits gives quotients above 127, which end at
    127; one that has become 0 gives 127 for every value but zero.
    """
    scales[(scales == 0) & ~size.any(axis=1, keepdims=True)] = 1
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        np.divide(size, scales, out=size)
    np.minimum(size, np.float32(_STEPS), out=size)
    np.nan_to_num(size, copy=False, nan=0.0)
