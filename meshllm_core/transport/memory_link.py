"""A link and its channels inside one process; see `memory`."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from meshllm_core.errors import LinkClosed, WireError
from meshllm_core.ids import NodeId
from meshllm_core.transport.link import Channel, ChannelKind
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Address

SEND_HIGH = 1 << 20
"""`send` waits while more than so many bytes are not taken by the other side …"""
SEND_LOW = 256 << 10
"""… until it has come down to this."""
TICK = 1e-6
"""Seconds between two frames of a channel: timers for the same moment have no order."""


class Air(Protocol):
    """What is between two nodes."""

    def passes(self, sender: NodeId, receiver: NodeId) -> bool:
        """Whether anything gets through now."""

    def lateness(self) -> float:
        """Seconds that the next frame takes."""

    @property
    def round_trip(self) -> float:
        """Seconds, about."""


def frame_limit(kind: ChannelKind, *, admitted: bool) -> int:
    """The largest frame that is taken unless the channel's owner says otherwise."""
    if not admitted:
        return limits.STRANGER_FRAME
    return limits.CONTROL_FRAME if kind is ChannelKind.CONTROL else limits.CALL_FRAME


class MemoryChannel:
    """See `transport.link.Channel`."""

    path: Literal["quic", "tls", "memory"] = "memory"

    def __init__(self, link: "MemoryLink", kind: ChannelKind) -> None:
        self.kind = kind
        self.limit = frame_limit(kind, admitted=link.admitted)
        self.other: MemoryChannel | None = None
        """The far end, once it was told of the channel."""
        self.lost = ""
        """Why receiving is over."""
        self.closed = ""
        """Why sending is over."""
        self._link = link
        self._frames: deque[bytes | None] = deque()
        self._untaken = 0
        self._last = 0.0
        self._changed = asyncio.Event()

    def begun(self, when: float) -> None:
        """The other side hears of the channel then; nothing on it may come earlier."""
        self._last = when

    async def send(self, body: bytes) -> None:
        """Waits while more than SEND_HIGH bytes are not taken. Raises LinkClosed."""
        if self._untaken > SEND_HIGH:
            while self._untaken > SEND_LOW and not self.closed:
                self._changed.clear()
                await self._changed.wait()
        if self.closed:
            raise LinkClosed(self.closed)
        self._send(body)

    def send_at_once(self, body: bytes) -> bool:
        """See `Channel.send_at_once`."""
        if self.closed:
            raise LinkClosed(self.closed)
        if self._untaken > SEND_HIGH:
            return False
        self._send(body)
        return True

    def _send(self, body: bytes) -> None:
        self._untaken += len(body)
        self._post(lambda other: other.arrived(bytes(body)))

    async def receive(self) -> bytes | None:
        """The next frame; None when the other side finished. Raises LinkClosed, WireError."""
        while not self._frames:
            if self.lost:
                raise LinkClosed(self.lost)
            self._changed.clear()
            await self._changed.wait()
        body = self._frames[0]
        if body is None:
            return None
        self._frames.popleft()
        if self.other is not None:
            self.other.taken(len(body))
        if len(body) > self.limit:
            self.abort()
            raise WireError(f"A frame of {len(body)} bytes was announced; the limit is {self.limit}.")
        return body

    async def pass_on(self, deliver: Callable[[bytes], None]) -> None:
        """See `Channel.pass_on`."""
        while (frame := await self.receive()) is not None:
            deliver(frame)

    async def finish(self) -> None:
        """No more frames from this side. Raises LinkClosed when that is so already."""
        if self.closed:
            raise LinkClosed(self.closed)
        self.closed = "This side finished the channel."
        self._post(lambda other: other.arrived(None))

    def abort(self) -> None:
        """Gives the channel up, and what was received and not read with it."""
        self._frames.clear()
        if not (self.closed and self.lost):
            self._post(lambda other: other.fail("The other side gave the channel up."))
        self.fail("The channel was given up.")

    def arrived(self, body: bytes | None) -> None:
        """A frame came, or the end."""
        if not self.lost:
            self._frames.append(body)
            self._changed.set()

    def taken(self, count: int) -> None:
        """The other side read so many bytes."""
        self._untaken -= count
        self._changed.set()

    def fail(self, why: str) -> None:
        """The channel is over; what came before may still be read."""
        self.closed = self.closed or why
        if not (self._frames and self._frames[-1] is None):
            self.lost = self.lost or why
        self._changed.set()

    def _post(self, deliver: Callable[["MemoryChannel"], None]) -> None:
        def arrive() -> None:
            if self.other is not None:
                deliver(self.other)

        self._last = self._link.post(arrive, not_before=self._last)


class MemoryLink:
    """See `transport.link.Link`. One of the two ends."""

    certificate = b""

    def __init__(self, air: Air, me: NodeId, peer: NodeId, address: Address, *, dialled: bool) -> None:
        """`address` is the peer's."""
        self.peer = peer
        self.dialled = dialled
        self.address = address
        self.admitted = False
        self.other: MemoryLink | None = None
        self.silent_since: float | None = None
        """Since when nothing can come from the peer."""
        self._air = air
        self._me = me
        self._why: str | None = None
        self._channels: list[MemoryChannel] = []
        self._offered: asyncio.Queue[MemoryChannel | None] = asyncio.Queue(limits.CHANNELS + 1)
        self._over = asyncio.Event()
        self._told = 0.0
        self._held: deque[Callable[[], None]] = deque()
        """What arrives when the way is free again."""

    @property
    def tls(self) -> bool | None:
        """Never."""
        return False

    @property
    def round_trip(self) -> float:
        """Seconds."""
        return self._air.round_trip

    async def open(self, kind: ChannelKind) -> Channel:
        """A new channel. Raises LinkClosed."""
        if self._why is not None:
            raise LinkClosed(self._why)
        channel = MemoryChannel(self, kind)
        self._keep(channel)
        channel.begun(self._tell(lambda other: other.opened(channel)))
        return channel

    async def accept(self) -> Channel:
        """The next channel that the peer opens. Raises LinkClosed when there will be none."""
        channel = None if self._why is not None and self._offered.empty() else await self._offered.get()
        if channel is None:
            raise LinkClosed(self._why or "The link is closed.")
        return channel

    def offer_tls(self, addresses: Sequence[Address]) -> None:
        """There is no TCP in memory."""

    def admit(self) -> None:
        """The peer is a member now: it may open any channel."""
        self.admitted = True

    def close(self, reason: str = "") -> None:
        """Ends the link; the peer is told."""
        if self._why is None:
            self._tell(lambda other: other.end(reason or "The other node closed the link."))
            self.end(reason or "This node closed the link.")

    async def wait_closed(self) -> str:
        """Returns why, once the link is closed."""
        await self._over.wait()
        return self._why or ""

    @property
    def is_open(self) -> bool:
        """Whether this end believes in the link."""
        return self._why is None

    def opened(self, theirs: MemoryChannel) -> None:
        """The peer opened a channel: before admission only one, for control."""
        self._channels = [channel for channel in self._channels if not (channel.closed and channel.lost)]
        allowed = limits.CHANNELS if self.admitted else 1 if theirs.kind is ChannelKind.CONTROL else 0
        if (
            self._why is not None
            or len(self._channels) >= allowed
            or self._offered.qsize() >= limits.CHANNELS
        ):
            theirs.fail("The other side refused the channel.")
            return
        mine = MemoryChannel(self, theirs.kind)
        mine.other, theirs.other = theirs, mine
        self._keep(mine)
        self._offered.put_nowait(mine)

    def end(self, why: str) -> None:
        """The link is over at this end."""
        if self._why is not None:
            return
        self._why = why
        for channel in self._channels:
            channel.fail(why)
        self._channels.clear()
        self._offered.put_nowait(None)
        self._over.set()

    def post(self, arrive: Callable[[], None], not_before: float = 0.0) -> float:
        """Lets something happen at the far end, after a time of the loop; returns when."""
        loop = asyncio.get_running_loop()
        when = max(not_before + TICK, loop.time() + self._air.lateness())
        loop.call_at(when, self._arrive, arrive)
        return when

    def release(self) -> None:
        """The way may be free again: what was held arrives."""
        while self._held and self._air.passes(self._me, self.peer):
            self._held.popleft()()

    def _arrive(self, arrive: Callable[[], None]) -> None:
        if self._held or not self._air.passes(self._me, self.peer):
            self._held.append(arrive)
        elif self.other is not None and self.other.is_open:
            arrive()

    def _tell(self, action: Callable[["MemoryLink"], None]) -> float:
        def arrive() -> None:
            if self.other is not None:
                action(self.other)

        self._told = self.post(arrive, not_before=self._told)
        return self._told

    def _keep(self, channel: MemoryChannel) -> None:
        self._channels.append(channel)
