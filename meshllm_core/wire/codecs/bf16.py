"""bf16: the upper half of a single, rounded to nearest even. Coarser than f16, with the range of f32."""

import numpy as np

from meshllm_core.wire.codecs.base import Bytes, Dtype, FixedCodec, Rows, damaged, largest

_LARGEST = float(np.uint32(0x7F7F_7FFF).view(np.float32))
"""The last value that does not round to infinity."""


class Bf16(FixedCodec):
    """Two bytes a value."""

    dtype = Dtype.BF16
    value_bytes = 2

    def __init__(self, width: int) -> None:
        """See `Codec`."""
        super().__init__(width)
        self._bits = np.empty((self.step, width), np.uint32)
        self._exponents = np.empty((self.step, width), np.uint16)

    def _encode(self, rows: Rows, out: Bytes, start: int, count: int) -> bool:
        if largest(rows, start) > _LARGEST:
            return False
        n = len(rows)
        bits, rounded = rows.view(np.uint32), self._bits[:n]
        np.right_shift(bits, 16, out=rounded)
        np.bitwise_and(rounded, 1, out=rounded)
        np.add(rounded, 0x7FFF, out=rounded)
        np.add(rounded, bits, out=rounded)
        upper = rounded.view(np.uint16)[:, 1::2]
        np.copyto(self._at(out, start, n).view(np.uint16).reshape(n, -1), upper)
        return True

    def _decode(self, data: Bytes, out: Rows, start: int, count: int) -> None:
        n = len(out)
        upper = self._at(data, start, n).view(np.uint16).reshape(n, -1)
        exponents = self._exponents[:n]
        np.bitwise_and(upper, 0x7F80, out=exponents)
        if exponents.max() == 0x7F80:
            raise damaged(self.dtype, "a value that is not finite")
        bits = out.view(np.uint32)
        np.copyto(bits, upper)
        np.left_shift(bits, 16, out=bits)
