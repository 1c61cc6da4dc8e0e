"""One TLS connection to a proven peer. It carries one channel at a time and serves again after it.

The listening side sends READY when a channel may begin. The side that dialled begins one with the byte of
its kind; both send frames, and FINISHED in place of a frame's length when they are done. Once the listening
side has read to the end it is READY again. While nothing goes on, the side that dialled sends KEEP.
"""

import asyncio
import time
from collections.abc import Callable
from enum import Enum
from typing import Literal, cast

from meshllm_core.errors import LinkClosed, WireError
from meshllm_core.ids import NodeId, short
from meshllm_core.transport.link import ChannelKind
from meshllm_core.wire import limits
from meshllm_core.wire.frames import HEADER

KEEP = b"\x00"
READY = b"\x01"
FINISHED = HEADER.pack(0xFFFF_FFFF)

HIGH = 1024 * 1024
"""Bytes that wait in one direction before the side that sends has to wait."""
LOW = 256 * 1024
PIECE = 256 * 1024
"""Bytes that are encrypted at once: the event loop turns in between."""
KEEP_SECONDS = 20.0
IDLE_SECONDS = 60.0
"""So long the listening side keeps a connection on which nothing comes."""
STALE_SECONDS = 45.0
"""After so long without a KEEP, by the clock on the wall, this machine was asleep."""


class _End(Enum):
    END = 0


class TlsConnection(asyncio.Protocol):
    """Bytes to frames and back, with a bound on either."""

    def __init__(
        self,
        kind: ChannelKind,
        *,
        dialled: bool,
        on_ready: "Callable[[TlsConnection], None]",
        on_channel: "Callable[[NodeId, TlsChannel], None]",
        on_lost: "Callable[[TlsConnection], None]",
        counted: Callable[[str, str], None],
    ) -> None:
        """`on_ready` is called on the side that dialled, `on_channel` on the one that listens."""
        self.kind = kind
        self.dialled = dialled
        self.peer = NodeId(b"")
        self.closed = ""
        """Why it is closed, in words; empty while it is not."""
        self.ready = False
        self.lost = asyncio.Event()
        """Set when its socket is closed."""
        self._on_ready, self._on_channel, self._on_lost = on_ready, on_channel, on_lost
        self._counted = counted
        self._transport: asyncio.Transport | None = None
        self._channel: TlsChannel | None = None
        self._buffer = bytearray()
        self._wanted = 0
        self._paused = False
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._kept_at = 0.0

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is done; who it was with is for the endpoint to check."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH, low=LOW)
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """More bytes; reading stops while nobody takes them."""
        self._buffer += data
        if self._channel is None:
            self._between_channels()
            return
        if len(self._buffer) >= max(HIGH, self._wanted) and not self._paused and self._transport:
            self._paused = True
            self._transport.pause_reading()
        if not self._poured(self._channel):
            self._readable.set()

    def _poured(self, channel: "TlsChannel") -> bool:
        """Gives whole frames to who asked for them by `pass_on`. False when its task must look itself."""
        if channel.deliver is None:
            return False
        while self._whole(channel.limit):
            frame = self.take(channel.limit)
            assert isinstance(frame, bytes)
            channel.deliver(frame)
        return not self._buffer

    def _whole(self, limit: int) -> bool:
        buffer = self._buffer
        if len(buffer) < HEADER.size or buffer.startswith(FINISHED):
            return False
        (length,) = HEADER.unpack_from(buffer)
        return bool(length <= limit and len(buffer) >= HEADER.size + length)

    def pause_writing(self) -> None:
        """The peer does not take what was sent."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It does again."""
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        """What was received before is still delivered."""
        self._end(str(error) if error else "the other side closed it")
        self.lost.set()
        self._on_lost(self)

    # What the endpoint calls.

    def prove(self, peer: NodeId) -> None:
        """The peer showed its certificate. The listening side says so."""
        self.peer = peer
        if not self.dialled:
            self._serve_again()

    async def until_ready(self) -> None:
        """For the side that dialled: the peer accepts. Raises LinkClosed."""
        while not self.ready:
            if self.closed:
                raise LinkClosed(f"The node did not accept the connection: {self.closed}.")
            self._readable.clear()
            await self._readable.wait()

    def open(self) -> "TlsChannel":
        """Begins a channel on a connection that is ready; the peer hears of it with the first bytes."""
        self.ready = False
        self._set_timer(0, None)
        self._channel = TlsChannel(self, self.kind, announced=False)
        return self._channel

    @property
    def fresh(self) -> bool:
        """Whether a connection that waits can be expected to work."""
        return self.ready and not self.closed and abs(time.time() - self._kept_at) < STALE_SECONDS

    def abort(self, why: str = "this side gave it up") -> None:
        """Closes it at once; what was not sent is lost."""
        self._end(why)
        if self._transport is not None:
            self._transport.abort()

    # What the channel calls.

    def write(self, data: bytes) -> None:
        """Raises LinkClosed."""
        if self.closed or self._transport is None:
            raise self.error()
        self._transport.write(data)

    async def drain(self) -> None:
        """Waits while too much is not taken. Raises LinkClosed."""
        while not self._writable.is_set():
            await self._writable.wait()
        if self.closed:
            raise self.error()

    @property
    def has_room(self) -> bool:
        """Whether what is sent now need not wait."""
        return self._writable.is_set()

    def take(self, limit: int) -> bytes | _End | None:
        """The next frame, if all of it is there. Raises WireError for one above `limit`."""
        buffer = self._buffer
        if len(buffer) < HEADER.size:
            return None
        if buffer.startswith(FINISHED):
            del buffer[: HEADER.size]
            return _End.END
        (length,) = HEADER.unpack_from(buffer)
        if length > limit:
            self._counted("too large", short(self.peer))
            self.abort("a frame was too large")
            raise WireError(
                f"Node {short(self.peer)} announced a frame of {length} bytes; the limit is {limit}."
            )
        end = HEADER.size + length
        if len(buffer) < end:
            self._wanted = end
            self._resume()
            return None
        frame = bytes(memoryview(buffer)[HEADER.size : end])
        del buffer[:end]
        self._wanted = 0
        if len(buffer) < LOW:
            self._resume()
        return frame

    async def more(self) -> None:
        """Waits for bytes. Raises LinkClosed when there will be none."""
        if self.closed:
            raise self.error()
        self._readable.clear()
        await self._readable.wait()

    def release(self) -> None:
        """Both sides have finished the channel."""
        self._channel = None
        self._resume()
        if self.dialled:
            self._set_timer(IDLE_SECONDS, self._close)
            self._between_channels()
        elif not self.closed:
            self._serve_again()

    def give_back(self) -> bool:
        """Takes back a channel of which the peer heard nothing. False when the connection is of no use."""
        if self.closed or self._buffer:
            return False
        self._channel = None
        self._wait_for_use()
        return True

    def error(self) -> LinkClosed:
        """What whoever uses it is told."""
        return LinkClosed(f"The TLS connection to node {short(self.peer)} is closed: {self.closed}.")

    # Between channels.

    def _between_channels(self) -> None:
        while self._buffer and self._channel is None and not self.closed:
            byte = bytes(self._buffer[:1])
            del self._buffer[:1]
            if self.dialled and byte == READY and not self.ready:
                self._wait_for_use()
            elif not self.dialled and self.peer and byte == KEEP:
                self._set_timer(IDLE_SECONDS, self.abort)
            elif not self.dialled and self.peer and byte[0] == self.kind:
                self._set_timer(0, None)
                self._channel = TlsChannel(self, self.kind, announced=True)
                self._readable.set()
                self._on_channel(self.peer, self._channel)
            else:
                self._counted("malformed", short(self.peer))
                self.abort("it sent what has no meaning there")

    def _serve_again(self) -> None:
        if self._transport is not None:
            self._transport.write(READY)
        self._set_timer(IDLE_SECONDS, self.abort)
        self._between_channels()

    def _wait_for_use(self) -> None:
        self.ready = True
        self._readable.set()
        self._keep(silent=True)
        self._on_ready(self)

    def _keep(self, *, silent: bool = False) -> None:
        if self._transport is not None and not silent:
            self._transport.write(KEEP)
        self._kept_at = time.time()
        self._set_timer(KEEP_SECONDS, self._keep)

    def _close(self) -> None:
        """The peer never became ready again."""
        if self._transport is not None:
            self._transport.close()

    def _set_timer(self, seconds: float, then: Callable[[], None] | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, then) if then else None

    def _resume(self) -> None:
        if self._paused and self._transport is not None and not self.closed:
            self._paused = False
            self._transport.resume_reading()

    def _end(self, why: str) -> None:
        self.closed = self.closed or why
        self._set_timer(0, None)
        self._readable.set()
        self._writable.set()


class TlsChannel:
    """Implements `transport.link.Channel`."""

    path: Literal["quic", "tls", "memory"] = "tls"

    def __init__(self, connection: TlsConnection, kind: ChannelKind, *, announced: bool) -> None:
        self.kind = kind
        self.limit = limits.CALL_FRAME
        self._connection: TlsConnection | None = connection
        self._prefix = b"" if announced else bytes([kind])
        self._finished = False
        self._ended = False
        self._sending = asyncio.Lock()
        self._unyielded = 0
        self.deliver: Callable[[bytes], None] | None = None

    async def send(self, body: bytes) -> None:
        """See `Channel.send`."""
        async with self._sending:
            connection = self._open_connection()
            if self._finished:
                raise LinkClosed("This side of the channel was finished before.")
            sent = 0
            try:
                connection.write(self._take_prefix() + HEADER.pack(len(body)) + body[:PIECE])
                await self._drained(connection, sent := min(len(body), PIECE))
                while sent < len(body):
                    connection.write(body[sent : sent + PIECE])
                    sent += PIECE
                    await self._drained(connection, PIECE)
            finally:
                if sent < len(body):
                    # The peer would take what comes next for the rest of this frame.
                    connection.abort()

    def send_at_once(self, body: bytes) -> bool:
        """See `Channel.send_at_once`."""
        connection = self._open_connection()
        if self._sending.locked() or self._finished or not connection.has_room or len(body) > PIECE:
            return False
        connection.write(self._take_prefix() + HEADER.pack(len(body)) + body)
        return True

    async def receive(self) -> bytes | None:
        """See `Channel.receive`."""
        while not self._ended:
            connection = self._open_connection()
            if self._prefix:
                connection.write(self._take_prefix())
            frame = connection.take(self.limit)
            if isinstance(frame, bytes):
                return frame
            if frame is None:
                await connection.more()
            else:
                self._ended = True
                self._release_if_done()
        return None

    async def pass_on(self, deliver: Callable[[bytes], None]) -> None:
        """See `Channel.pass_on`. A frame that came whole waits for no task's turn: a token waits for it."""
        self.deliver = deliver
        try:
            while (frame := await self.receive()) is not None:
                deliver(frame)
        finally:
            self.deliver = None

    async def finish(self) -> None:
        """See `Channel.finish`."""
        async with self._sending:
            if not self._finished:
                self._open_connection().write(self._take_prefix() + FINISHED)
                self._finished = True
                self._release_if_done()

    def abort(self) -> None:
        """See `Channel.abort`. After both sides have finished it does nothing."""
        connection, self._connection = self._connection, None
        if connection is None or (self._prefix and connection.give_back()):
            return
        connection.abort()

    async def _drained(self, connection: TlsConnection, count: int) -> None:
        await connection.drain()
        self._unyielded += count
        if self._unyielded >= PIECE:
            # A peer that takes everything at once must not keep this loop from everything else.
            self._unyielded = 0
            await asyncio.sleep(0)

    def _take_prefix(self) -> bytes:
        prefix, self._prefix = self._prefix, b""
        return prefix

    def _release_if_done(self) -> None:
        if self._finished and self._ended and self._connection is not None:
            connection, self._connection = self._connection, None
            connection.release()

    def _open_connection(self) -> TlsConnection:
        if self._connection is None:
            raise LinkClosed("The channel was given up by this side.")
        return self._connection
