"""A channel: one bidirectional QUIC stream. Its first byte is the kind, then frames follow."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Literal, Protocol

from meshllm_core.errors import LinkClosed, WireError
from meshllm_core.transport.link import ChannelKind
from meshllm_core.transport.quic import windows
from meshllm_core.wire import limits
from meshllm_core.wire.frames import FrameReader, frame


class Streams(Protocol):
    """What a channel needs of its link."""

    def write(self, stream_id: int, data: bytes, *, end: bool = False) -> None:
        """Queues bytes for the peer."""

    def backlog(self, stream_id: int) -> int:
        """Bytes that the peer did not acknowledge."""

    def took(self, stream_id: int, count: int) -> None:
        """So many bytes were read: the peer may send as many more."""

    def drop(self, stream_id: int) -> None:
        """Gives a stream up in both directions."""

    def done(self, stream_id: int) -> None:
        """A stream is finished in both directions."""

    def counted(self, kind: str, detail: str) -> None:
        """Counts a refusal."""


def frame_limit(kind: ChannelKind, *, admitted: bool) -> int:
    """The largest frame that is taken unless the channel's owner says otherwise."""
    if not admitted:
        return limits.STRANGER_FRAME
    return limits.CONTROL_FRAME if kind is ChannelKind.CONTROL else limits.CALL_FRAME


class QuicChannel:
    """See `transport.link.Channel`. One task may send and one may receive at the same time."""

    path: Literal["quic", "tls", "memory"] = "quic"

    def __init__(self, streams: Streams, stream_id: int, kind: ChannelKind, limit: int) -> None:
        self.kind = kind
        self.limit = limit
        self.stream_id = stream_id
        self._streams = streams
        self._reader = FrameReader(limit)
        self._frames: deque[bytes] = deque()
        self._unread = bytearray()
        """Of no more than the stream's window; in one piece, because a peer may send byte by byte."""
        self._ended = False
        """The peer sends no more."""
        self._lost = ""
        """Why receiving is over, other than by the end."""
        self._closed = ""
        """Why sending is over."""
        self._turn = asyncio.Lock()
        self._reading: asyncio.Future[None] | None = None
        self._writing: asyncio.Future[None] | None = None

    async def send(self, body: bytes) -> None:
        """Waits while more than the high watermark is not acknowledged. Raises LinkClosed.

        A send that is cancelled in the middle of a frame gives the channel up: nothing could follow.
        """
        data = frame(body)
        async with self._turn:
            for start in range(0, len(data), windows.PIECE):
                try:
                    await self._room()
                except asyncio.CancelledError:
                    if start:
                        self.abort()
                    raise
                self._streams.write(self.stream_id, data[start : start + windows.PIECE])

    def send_at_once(self, body: bytes) -> bool:
        """See `Channel.send_at_once`."""
        if self._closed:
            raise LinkClosed(self._closed)
        data = frame(body)
        waits = self._turn.locked() or self._streams.backlog(self.stream_id) > windows.SEND_HIGH
        if waits or len(data) > windows.PIECE:
            return False
        self._streams.write(self.stream_id, data)
        return True

    async def receive(self) -> bytes | None:
        """The next frame; None when the other side finished. Raises LinkClosed, WireError."""
        while not self._frames:
            if self._unread:
                self._read()
            elif self._lost:
                raise LinkClosed(self._lost)
            elif self._ended:
                self._end()
                return None
            else:
                self._reading = asyncio.get_running_loop().create_future()
                await self._reading
        return self._frames.popleft()

    async def pass_on(self, deliver: Callable[[bytes], None]) -> None:
        """See `Channel.pass_on`."""
        while (frame := await self.receive()) is not None:
            deliver(frame)

    async def finish(self) -> None:
        """No more frames from this side. Raises LinkClosed when that is so already."""
        async with self._turn:
            if self._closed:
                raise LinkClosed(self._closed)
            self._closed = "This side finished the channel."
            self._streams.write(self.stream_id, b"", end=True)
        self._release()

    def abort(self) -> None:
        """Gives the channel up, and what was received and not read with it."""
        self._unread.clear()
        self._frames.clear()
        if not (self._closed and (self._ended or self._lost)):
            self._streams.drop(self.stream_id)
        self.fail("The channel was given up.")

    # What the link calls.

    def feed(self, data: bytes, end: bool) -> None:
        """Bytes of the stream."""
        if data and not self._lost:
            self._unread += data
        self._ended = self._ended or end
        _wake(self._reading)

    def fail(self, why: str) -> None:
        """The stream is over in both directions; what came before may still be read."""
        self._closed = self._closed or why
        if not self._ended:
            self._lost = self._lost or why
        _wake(self._reading)
        _wake(self._writing)
        self._release()

    def stopped(self, why: str) -> None:
        """The peer wants nothing more of this side."""
        self._closed = self._closed or why
        _wake(self._writing)
        self._release()

    def reset(self, why: str) -> None:
        """The peer broke off what it was sending."""
        if not self._ended:
            self._lost = self._lost or why
        _wake(self._reading)
        self._release()

    def flushed(self) -> None:
        """The peer may have acknowledged something."""
        if self._writing is not None and self._streams.backlog(self.stream_id) <= windows.SEND_LOW:
            _wake(self._writing)

    # Its own.

    async def _room(self) -> None:
        if not self._closed and self._streams.backlog(self.stream_id) > windows.SEND_HIGH:
            self._writing = asyncio.get_running_loop().create_future()
            try:
                await self._writing
            finally:
                self._writing = None
        if self._closed:
            raise LinkClosed(self._closed)

    def _read(self) -> None:
        data = bytes(self._unread)
        self._unread.clear()
        self._streams.took(self.stream_id, len(data))
        self._reader.limit = self.limit
        try:
            self._frames.extend(self._reader.feed(data))
        except WireError as error:
            self._streams.counted("too large", error.message)
            self.abort()
            raise

    def _end(self) -> None:
        if self._reader.pending:
            self._streams.counted("malformed", "a channel ended in the middle of a frame")
            self.abort()
            raise WireError("The channel ended in the middle of a frame.")
        self._release()

    def _release(self) -> None:
        if self._closed and (self._lost or (self._ended and not self._unread)):
            self._streams.done(self.stream_id)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
