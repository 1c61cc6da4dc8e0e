"""A link over one QUIC connection: its channels, its admission, its end."""

import asyncio
import os
from collections.abc import Callable, Sequence

from meshllm_core.errors import LinkClosed
from meshllm_core.ids import NodeId, short
from meshllm_core.transport.link import Channel, ChannelKind
from meshllm_core.transport.quic import path as paths
from meshllm_core.transport.quic.channel import QuicChannel, frame_limit
from meshllm_core.transport.quic.driver import Driver
from meshllm_core.transport.quic.ending import REASON, dial_error, refusal, words
from meshllm_core.transport.quic.names import address_of
from meshllm_core.transport.quic.side import SideChannels, SideRoute
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Address

UP = 1
"""The stream by which the listening side says that it took the connection: a zero byte, then the secret.

The side that dialled would otherwise believe in a connection that was refused half a round trip ago.
"""
UP_BYTES = 1 + paths.SECRET_BYTES
ABORTED = 1
"""The code of a stream that is given up; the peer makes nothing of it."""


class QuicLink:
    """See `transport.link.Link`."""

    def __init__(
        self,
        driver: Driver,
        *,
        dialled: bool,
        side: SideChannels | None,
        counted: Callable[[str, str], None],
        on_change: Callable[["QuicLink"], None],
    ) -> None:
        self.peer = driver.quic.expected or NodeId(b"")
        """Who is at the far end; proved before the link is up."""
        self.dialled = dialled
        self.address = address_of(driver.path)
        self.certificate = b""
        """The peer's (DER)."""
        self.admitted = False
        self.up = False
        """Both sides proved their keys, and each knows it of the other."""
        self.counted = counted
        self._driver = driver
        self._side = side
        self._route = SideRoute(None, NodeId(b""), b"")
        self._on_change = on_change
        self._channels: dict[int, QuicChannel] = {}
        self._refused: set[int] = set()
        """Streams of the peer that were given up and have not ended yet."""
        self._control = False
        self._welcome = bytearray()
        self._incoming: asyncio.Queue[Channel | None] = asyncio.Queue()
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """For the side that dials: done when the link is up; the error when it will never be."""
        driver.attach(self)

    # What users of the link call.

    @property
    def tls(self) -> bool | None:
        """Whether calls travel by TLS; None while that is being tried."""
        return self._route.works

    @property
    def round_trip(self) -> float:
        """Smoothed seconds as QUIC measures; 0 when not known."""
        return self._driver.quic.round_trip

    async def open(self, kind: ChannelKind) -> Channel:
        """See `transport.link.Link.open`. Raises LinkClosed, also when all channels are in use."""
        if kind is not ChannelKind.CONTROL and (channel := await self._route.open(kind)) is not None:
            return channel
        if self._over.done():
            raise LinkClosed(self._over.result())
        number = self._driver.quic.get_next_available_stream_id()
        if sum(key % 4 == number % 4 for key in self._channels) >= limits.CHANNELS:
            raise LinkClosed(f"The link to {short(self.peer)} has {limits.CHANNELS} channels in use already.")
        channel = self._make(number, kind)
        # At once: only a stream that something was written to has its number for itself.
        self.write(number, bytes([kind]))
        return channel

    async def accept(self) -> Channel:
        """The next channel that the peer opened. Raises LinkClosed when there will be none."""
        channel = await self._incoming.get()
        if channel is None:
            self._incoming.put_nowait(None)
            raise LinkClosed(self._over.result())
        return channel

    def offer_tls(self, addresses: Sequence[Address]) -> None:
        """Tries to reach the peer by TLS there, in the background."""
        if not self._over.done():
            self._route.offer(addresses)

    def admit(self) -> None:
        """The peer is a member: it may open channels, here and by TLS."""
        if self.admitted or self._over.done():
            return
        self.admitted = True
        self._driver.quic.widen()
        for channel in self._channels.values():
            channel.limit = max(channel.limit, frame_limit(channel.kind, admitted=True))
        if self._side is not None:
            self._side.allow(self.peer, self.certificate)
        self._on_change(self)
        self._driver.transmit_soon()

    def close(self, reason: str = "") -> None:
        """Ends the link; the peer is told `reason`."""
        # In bytes: a reason that does not fit into one packet could not be sent at all.
        self._driver.close(reason.encode(errors="replace")[:REASON].decode(errors="ignore"))

    async def wait_closed(self) -> str:
        """Returns why, once the link is closed."""
        return await asyncio.shield(self._over)

    @property
    def over(self) -> bool:
        """Whether the link is closed."""
        return self._over.done()

    @property
    def idle(self) -> bool:
        """Whether the peer never opened its control channel."""
        return not self._control

    def deliver(self, channel: Channel) -> None:
        """A TLS channel that the peer opened."""
        if self._over.done() or not self.admitted or self._incoming.qsize() >= limits.CHANNELS:
            self.counted("too many channels", f"a TLS channel of {short(self.peer)}")
            channel.abort()
        else:
            self._incoming.put_nowait(channel)

    # What channels call.

    def write(self, stream_id: int, data: bytes, *, end: bool = False) -> None:
        """Queues bytes; they leave together with all else that is queued in this turn of the loop."""
        self._driver.quic.send_stream_data(stream_id, data, end)
        self._driver.transmit_soon()

    def backlog(self, stream_id: int) -> int:
        """Bytes that the peer did not acknowledge."""
        return self._driver.quic.backlog(stream_id)

    def took(self, stream_id: int, count: int) -> None:
        """The reader took so much."""
        if stream_id in self._channels and self._driver.quic.take(stream_id, count):
            self._driver.transmit_soon()

    def drop(self, stream_id: int) -> None:
        """Gives a stream up."""
        if self._driver.ended:
            return
        if self._is_of_peer(stream_id):
            self._refused.add(stream_id)
        self._driver.quic.give_up(stream_id, ABORTED)
        self._driver.transmit_soon()

    def done(self, stream_id: int) -> None:
        """A channel is finished in both directions."""
        if self._channels.pop(stream_id, None) is not None:
            self._driver.quic.forget(stream_id)

    # What the driver tells.

    def connected(self) -> None:
        """The peer's key is proved. Only now does the listening side say a word."""
        self.peer, self.certificate = self._driver.quic.peer, self._driver.quic.certificate
        if self.dialled:
            return
        secret = os.urandom(paths.SECRET_BYTES)
        self._driver.set_secret(secret)
        self.write(UP, b"\0" + secret, end=True)
        self._rise()

    def moved(self) -> None:
        """The peer proved that it is at another address."""
        self.address = address_of(self._driver.path)

    def data(self, stream_id: int, data: bytes, end: bool) -> None:
        """Bytes of a stream, in order."""
        channel = self._channels.get(stream_id)
        if channel is None and stream_id == UP and self.dialled:
            self._welcomed(data, end)
        elif channel is None and self._is_of_peer(stream_id) and stream_id not in self._refused:
            channel = self._taken(stream_id, data)
            data = data[1:]
        if channel is not None:
            channel.feed(data, end)
        elif end:
            self._refused.discard(stream_id)

    def reset(self, stream_id: int) -> None:
        """The peer broke a stream off."""
        self._refused.discard(stream_id)
        if (channel := self._channels.get(stream_id)) is not None:
            channel.reset(f"Node {short(self.peer)} gave the channel up.")

    def stopped(self, stream_id: int) -> None:
        """The peer reads no more of a stream."""
        if (channel := self._channels.get(stream_id)) is not None:
            channel.stopped(f"Node {short(self.peer)} reads no more of the channel.")

    def flushed(self) -> None:
        """Lets those go on that wait for acknowledgements."""
        for channel in tuple(self._channels.values()):
            channel.flushed()

    def ended(self, code: int, by_application: bool, reason: str) -> None:
        """The connection is over: everybody who waits hears it."""
        quic = self._driver.quic
        why = words(code, by_application, reason)
        if kind := refusal(quic, code, by_application):
            self.counted(kind, f"{self.address}: {why}")
        self._over.set_result(why)
        if not self.ready.done():
            self.ready.set_exception(dial_error(quic, self.address, code, why))
            # Nobody waits for it on the side that listens.
            self.ready.exception()
        for channel in tuple(self._channels.values()):
            channel.fail(why)
        self._channels.clear()
        self._incoming.put_nowait(None)
        self._route.close()
        self._on_change(self)

    # Its own.

    def _is_of_peer(self, stream_id: int) -> bool:
        return (stream_id % 2 == 1) == self.dialled

    def _make(self, stream_id: int, kind: ChannelKind) -> QuicChannel:
        channel = QuicChannel(self, stream_id, kind, frame_limit(kind, admitted=self.admitted))
        self._channels[stream_id] = channel
        self._driver.quic.follow(stream_id)
        return channel

    def _taken(self, stream_id: int, data: bytes) -> QuicChannel | None:
        """A new stream of the peer, as a channel; None when it is refused."""
        refusal = self._objection(stream_id, data[:1])
        if refusal:
            self.counted(refusal, f"a channel of {short(self.peer)} at {self.address}")
            self.drop(stream_id)
            return None
        channel = self._make(stream_id, ChannelKind(data[0]))
        self._control = self._control or channel.kind is ChannelKind.CONTROL
        self.took(stream_id, 1)
        self._incoming.put_nowait(channel)
        return channel

    def _objection(self, stream_id: int, kind: bytes) -> str:
        if not kind or kind[0] not in tuple(ChannelKind):
            return "malformed"
        if kind[0] == ChannelKind.CONTROL:
            return "second control channel" if self._control or self.dialled else ""
        if not self.admitted:
            return "not admitted"
        mine = sum(self._is_of_peer(key) for key in self._channels)
        return "too many channels" if mine >= limits.CHANNELS else ""

    def _welcomed(self, data: bytes, end: bool) -> None:
        if self.up:
            return
        self._welcome += data
        if len(self._welcome) < UP_BYTES and not end:
            return
        if len(self._welcome) != UP_BYTES or self._welcome[0]:
            self.counted("malformed", f"{self.address}: no welcome")
            self._driver.close("no welcome")
            return
        self._driver.set_secret(bytes(self._welcome[1:]))
        self.write(UP, b"", end=True)
        self._rise()

    def _rise(self) -> None:
        self.up = True
        self._route = SideRoute(self._side, self.peer, self.certificate)
        if not self.ready.done():
            self.ready.set_result(None)
        self._on_change(self)
