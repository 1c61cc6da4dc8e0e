"""q8x: a signed byte per value, one scale per 32 values, and the four largest values of each row exact.

Hidden rows have a few channels that are thousands of times larger than the rest. Carried apart, they no
longer set anybody's scale. `width` + about `width`/16 + 24 bytes a row, 55 % of f16.

Layout, for n rows of w values in b = ceil(w / 32) blocks and e = min(4, w): exact values f32 (n, e); scales
bf16 (n, b); the channels of the exact values u16 (n, e); bytes int8 (n, w), 0 for the exact ones. Channel c
belongs to block c mod b: which channels share a scale does not matter, and so a block's largest value is
found with whole vectors. Scales are rounded up, so that no value exceeds 127 of them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meshllm_core.wire.codecs.base import Bytes, Codec, Dtype, Rows, damaged, not_finite

BLOCK = 32
EXACT = 4
_LANES = np.arange(BLOCK)
_STEPS = np.float32(1 / 127)
_ROUND = np.float32(12_582_912.0)
"""1.5 * 2**23: added to a small number, it leaves the nearest integer in the lowest byte of the single."""
_SMALLEST_SCALE = np.float32(2.0**-100)
"""Blocks of still smaller values become zeros: no reciprocal overflows, and nothing is lost that counts."""
_LARGEST_SCALE_BITS = 0x7BFF
"""bf16 just below 2**121: 128 times as much is finite."""
_LARGEST_SCALE = float(np.uint32(_LARGEST_SCALE_BITS << 16).view(np.float32))


class _Parts(NamedTuple):
    """The arrays of some rows, as they lie in a frame."""

    exact: NDArray[np.float32]
    scales: NDArray[np.uint16]
    channels: NDArray[np.uint16]
    values: NDArray[np.int8]


class Q8x(Codec):
    """See the module."""

    dtype = Dtype.Q8X

    def __init__(self, width: int) -> None:
        """See `Codec`."""
        super().__init__(width)
        self.blocks = -(-width // BLOCK)
        self.exact = min(EXACT, width)
        self._padded = np.zeros((self.step, self.blocks * BLOCK), np.float32)
        self._work = np.empty((self.step, BLOCK, self.blocks), np.float32)
        self._tops = np.empty((self.step, self.blocks), np.float32)
        self._index = np.arange(self.step).reshape(-1, 1)

    @classmethod
    def size_of(cls, rows: int, width: int) -> int:
        """See `Codec.size_of`."""
        return rows * (min(EXACT, width) * 6 + -(-width // BLOCK) * 2 + width)

    def _parts(self, data: Bytes, start: int, rows: int, count: int) -> _Parts:
        end = start + rows
        scales = count * self.exact * 4
        channels = scales + count * self.blocks * 2
        values = channels + count * self.exact * 2
        return _Parts(
            data[:scales].view(np.float32).reshape(count, -1)[start:end],
            data[scales:channels].view(np.uint16).reshape(count, -1)[start:end],
            data[channels:values].view(np.uint16).reshape(count, -1)[start:end],
            data[values:].view(np.int8).reshape(count, -1)[start:end],
        )

    def _encode(self, rows: Rows, out: Bytes, start: int, count: int) -> bool:
        n = len(rows)
        parts = self._parts(out, start, n, count)
        blocked, work, tops, index = self._blocked(rows), self._work[:n], self._tops[:n], self._index[:n]
        np.abs(blocked, out=work)
        np.max(work, axis=1, out=tops)
        if not np.isfinite(tops).all():
            raise not_finite(rows, start)
        channels = self._take_exact(work, tops, index)
        np.copyto(parts.channels, channels, casting="unsafe")
        np.copyto(parts.exact, rows[index, channels])
        np.multiply(tops, _STEPS, out=tops)
        np.maximum(tops, _SMALLEST_SCALE, out=tops)
        if float(tops.max()) > _LARGEST_SCALE:
            return False
        bits = tops.view(np.uint32)
        np.add(bits, 0xFFFF, out=bits)
        np.bitwise_and(bits, 0xFFFF_0000, out=bits)
        np.copyto(parts.scales, tops.view(np.uint16)[:, 1::2])
        np.reciprocal(tops, out=tops)
        # The exact values may leave the range here; what they give is overwritten below.
        with np.errstate(over="ignore"):
            np.multiply(blocked, tops[:, None, :], out=work)
        np.add(work, _ROUND, out=work)
        lowest = work.reshape(n, -1).view(np.int8)[:, ::4]
        np.copyto(parts.values, lowest[:, : self.width])
        parts.values[index, channels] = 0
        return True

    def _blocked(self, rows: Rows) -> NDArray[np.float32]:
        """The rows as (n, 32, blocks), filled up with zeros where the width is no multiple of 32."""
        if self.width == self.blocks * BLOCK:
            return rows.reshape(len(rows), BLOCK, self.blocks)
        padded = self._padded[: len(rows)]
        np.copyto(padded[:, : self.width], rows)
        return padded.reshape(len(rows), BLOCK, self.blocks)

    def _take_exact(
        self, sizes: NDArray[np.float32], tops: NDArray[np.float32], index: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """The channels of the largest values, (n, exact). `tops` becomes the blocks' maxima without them.

        The e largest values lie in the e blocks whose maxima are largest: only those are looked at.
        """
        n, near = len(sizes), min(self.exact, self.blocks)
        blocks = _largest_of(tops, near)
        candidates = sizes[index[:, :, None], _LANES[:, None], blocks[:, None, :]].reshape(n, -1)
        if self.width < self.blocks * BLOCK:
            # Padding is zero: it must not be chosen before a real zero.
            real = (_LANES[:, None] * self.blocks + blocks[:, None, :]).reshape(n, -1)
            candidates[real >= self.width] = -1
        chosen = _largest_of(candidates, self.exact)
        candidates[index, chosen] = 0
        tops[index, blocks] = candidates.reshape(n, BLOCK, near).max(axis=1)
        return chosen // near * self.blocks + blocks[index, chosen % near]

    def _decode(self, data: Bytes, out: Rows, start: int, count: int) -> None:
        n = len(out)
        parts = self._parts(data, start, n, count)
        # As an unsigned number, a negative or infinite scale is larger than the largest one.
        if parts.scales.max() > _LARGEST_SCALE_BITS:
            raise damaged(self.dtype, "a scale that is negative, too large or not finite")
        if parts.channels.max() >= self.width:
            raise damaged(self.dtype, f"a channel beyond the last, {self.width - 1}")
        if not np.isfinite(parts.exact).all():
            raise damaged(self.dtype, "a value that is not finite")
        scales = self._tops[:n]
        np.copyto(scales.view(np.uint32), parts.scales)
        np.left_shift(scales.view(np.uint32), 16, out=scales.view(np.uint32))
        if self.width == self.blocks * BLOCK:
            target = out.reshape(n, BLOCK, self.blocks)
            np.copyto(out, parts.values)
            np.multiply(target, scales[:, None, :], out=target)
        else:
            np.copyto(out, parts.values)
            out *= np.tile(scales, BLOCK)[:, : self.width]
        out[self._index[:n], parts.channels] = parts.exact


def _largest_of(values: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """The places of the `count` largest of each row, in no order."""
    if count == values.shape[1]:
        return np.broadcast_to(np.arange(count), (len(values), count))
    return np.argpartition(values, -count, axis=1)[:, -count:]
