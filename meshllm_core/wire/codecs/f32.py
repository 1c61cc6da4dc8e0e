"""f32: the values as they are. The only codec that is exact by construction."""

import numpy as np

from meshllm_core.wire.codecs.base import Bytes, Dtype, FixedCodec, Rows, damaged, largest


class F32(FixedCodec):
    """Four bytes a value, little-endian."""

    dtype = Dtype.F32
    value_bytes = 4

    def _encode(self, rows: Rows, out: Bytes, start: int, count: int) -> bool:
        largest(rows, start)
        np.copyto(self._at(out, start, len(rows)), rows.reshape(-1).view(np.uint8))
        return True

    def _decode(self, data: Bytes, out: Rows, start: int, count: int) -> None:
        np.copyto(out.reshape(-1).view(np.uint8), self._at(data, start, len(out)))
        if not np.isfinite(out).all():
            raise damaged(self.dtype, "a value that is not finite")
