"""f16: IEEE half precision, rounded to nearest even.

numpy converts halves one by one in software (6 ns a value there and back). The same rounding is done here
with whole arrays of 32-bit integers and one addition in single precision, in a quarter of the time.
"""

import numpy as np

from meshllm_core.wire.codecs.base import Bytes, Dtype, FixedCodec, Rows, damaged, largest

_TOO_LARGE = 65_520.0
"""From here on a value rounds to infinity."""
_EXPONENT = 0x7F80_0000
_MAGNITUDE = 0x7FFF_FFFF
_SMALLEST_NORMAL = 0x3880_0000
"""2**-14: below it all halves are multiples of 2**-24."""
_ULPS = 13 << 23
_BASE = 0x0800
"""Takes the exponent of the addend off again: -(bits of 0.5 >> 13), modulo 2**16."""
_SCALE = np.float32(2.0**112)
"""A half's exponent bits, put where a single's stand, are too small by 112."""


class F16(FixedCodec):
    """Two bytes a value; values of 65,520 and above are out of range."""

    dtype = Dtype.F16
    value_bytes = 2

    def __init__(self, width: int) -> None:
        """See `Codec`."""
        super().__init__(width)
        self._addend = np.empty((self.step, width), np.uint32)
        self._sum = np.empty((self.step, width), np.uint32)
        self._sign = np.empty((self.step, width), np.uint16)

    def _encode(self, rows: Rows, out: Bytes, start: int, count: int) -> bool:
        if largest(rows, start) >= _TOO_LARGE:
            return False
        n = len(rows)
        bits, halves = rows.view(np.uint32), self._at(out, start, n).view(np.uint16).reshape(n, -1)
        addend, total, sign = self._addend[:n], self._sum[:n], self._sign[:n]
        # Adding 2**(exponent + 13) leaves ten bits after the leading one: the addition rounds to a half.
        np.bitwise_and(bits, _EXPONENT, out=addend)
        np.maximum(addend, _SMALLEST_NORMAL, out=addend)
        np.add(addend, _ULPS, out=addend)
        np.bitwise_and(bits, _MAGNITUDE, out=total)
        np.add(total.view(np.float32), addend.view(np.float32), out=total.view(np.float32))
        np.subtract(total, addend, out=total)
        np.right_shift(addend, 13, out=addend)
        np.add(total, addend, out=total)
        np.copyto(halves, total, casting="unsafe")
        np.bitwise_and(rows.view(np.uint16)[:, 1::2], 0x8000, out=sign)
        np.bitwise_or(sign, _BASE, out=sign)
        np.add(halves, sign, out=halves)
        return True

    def _decode(self, data: Bytes, out: Rows, start: int, count: int) -> None:
        n = len(out)
        halves = self._at(data, start, n).view(np.uint16).reshape(n, -1)
        exponents = self._sign[:n]
        np.bitwise_and(halves, 0x7C00, out=exponents)
        if exponents.max() == 0x7C00:
            raise damaged(self.dtype, "a value that is not finite")
        bits = out.view(np.int32)
        np.copyto(bits, halves.view(np.int16))
        np.left_shift(bits, 13, out=bits)
        # The sign was extended into the four upper bits; it belongs into the first alone.
        np.bitwise_and(bits, -0x7000_0001, out=bits)
        np.multiply(out, _SCALE, out=out)
