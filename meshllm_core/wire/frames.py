"""Frames on a byte stream: a 4-byte length, big-endian, and that many bytes."""

import struct

from meshllm_core.errors import WireError

HEADER = struct.Struct(">I")


def frame(body: bytes) -> bytes:
    """`body` with its length in front."""
    return HEADER.pack(len(body)) + body


class FrameReader:
    """Bytes in, whole frames out. `limit` may be raised once the other side is known."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are complete now. Raises WireError when one is longer than `limit`.

        A frame that is too long is refused by its header alone, before any of it is kept.
        """
        self._buffer += data
        frames: list[bytes] = []
        start = 0
        while len(self._buffer) - start >= HEADER.size:
            (length,) = HEADER.unpack_from(self._buffer, start)
            if length > self.limit:
                self._buffer.clear()
                raise WireError(f"A frame of {length} bytes was announced; the limit is {self.limit}.")
            end = start + HEADER.size + length
            if len(self._buffer) < end:
                break
            frames.append(bytes(memoryview(self._buffer)[start + HEADER.size : end]))
            start = end
        del self._buffer[:start]
        return frames

    @property
    def pending(self) -> int:
        """Bytes of a frame that is not complete; not 0 at the end of a stream means that it was cut."""
        return len(self._buffer)
