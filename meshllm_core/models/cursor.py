"""Reads little-endian values forward through a file, in blocks, and never past a limit."""

import struct
from typing import BinaryIO

from meshllm_core.errors import ModelFileInvalid

BLOCK = 1 << 20
"""Bytes read at a time."""

DAMAGED_HINT = "Download it again: the file is incomplete or was changed on the way."


class Cursor:
    """A position in a file of known size. Sizes that a file claims are compared with what is left of it."""

    def __init__(self, stream: BinaryIO, size: int, name: str) -> None:
        self.size = size
        self.name = name
        self._stream = stream
        self._buffer = b""
        self._start = 0
        self._at = 0

    @property
    def position(self) -> int:
        """Bytes from the beginning of the file."""
        return self._start + self._at

    @property
    def left(self) -> int:
        """Bytes between the position and the end of the file."""
        return self.size - self.position

    def damaged(self, what: str) -> ModelFileInvalid:
        """An error that names the file and the place."""
        return ModelFileInvalid(
            f"{self.name} is damaged: {what} (at byte {self.position}).", hint=DAMAGED_HINT
        )

    def _need(self, count: int, what: str) -> None:
        if count > self.left:
            raise ModelFileInvalid(
                f"{self.name} is truncated: the file ends inside {what}, "
                f"at least {count - self.left} bytes are missing.",
                hint=DAMAGED_HINT,
            )
        if self._at + count <= len(self._buffer):
            return
        rest = self._buffer[self._at :]
        self._start, self._at = self.position, 0
        self._buffer = rest + self._stream.read(max(BLOCK, count) - len(rest))
        if len(self._buffer) < count:
            raise self.damaged(f"the file became shorter while {what} was read")

    def unpack(self, layout: struct.Struct, what: str) -> tuple[int | float | bool, ...]:
        """Values of a fixed layout."""
        self._need(layout.size, what)
        values = layout.unpack_from(self._buffer, self._at)
        self._at += layout.size
        return values

    def bytes(self, count: int, what: str) -> bytes:
        """`count` bytes; callers have bounded `count`."""
        self._need(count, what)
        data = self._buffer[self._at : self._at + count]
        self._at += count
        return data

    def skip(self, count: int, what: str) -> None:
        """Moves past `count` bytes without reading them."""
        if count <= len(self._buffer) - self._at:
            self._at += count
            return
        if count > self.left:
            self._need(count, what)
        target = self.position + count
        self._stream.seek(target)
        self._buffer, self._start, self._at = b"", target, 0

    def skip_strings(self, count: int, what: str) -> None:
        """Moves past `count` length-prefixed strings: a vocabulary may hold hundreds of thousands."""
        if count > self.left // 8:
            raise self.damaged(f"{what} claims {count} strings, more than the file can hold")
        length_at = struct.Struct("<Q").unpack_from
        while count:
            buffer, at, end = self._buffer, self._at, len(self._buffer) - 8
            while count and at <= end:
                (length,) = length_at(buffer, at)
                if at + length > end:
                    break
                at += 8 + length
                count -= 1
            self._at = at
            if count:
                (length,) = self.unpack(struct.Struct("<Q"), what)
                self.skip(int(length), what)
                count -= 1
