"""Drives one aioquic connection: packets in, packets out, timers, and whose turn it is to be told.

aioquic is given one made-up address for the whole connection. Where packets really go is decided here,
so a peer whose address changes keeps its connection, whichever side of it dialled. The clock is the
machine's own: uvloop's counts whole milliseconds, too coarse to pace packets by.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from aioquic.quic import events
from aioquic.quic.connection import QuicConnectionError
from aioquic.tls import Alert
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509 import InvalidVersion

from meshllm_core.transport.quic.ending import MALFORMED
from meshllm_core.transport.quic.path import Path, PathProof
from meshllm_core.transport.quic.private import MeshConnection

log = logging.getLogger(__name__)

VIRTUAL = ("192.0.2.1", 1)
"""The address that aioquic sees (from the range for documentation)."""
LATE_SECONDS = 0.0005
"""A timer that is due within so long is due."""
CLOSE_REPEATS = 3
"""So often a peer that goes on sending is told once more that the connection is closed."""
HOSTILE = (
    Alert,
    ArithmeticError,
    AssertionError,
    AttributeError,
    InvalidVersion,
    LookupError,
    QuicConnectionError,
    RuntimeError,
    TypeError,
    UnsupportedAlgorithm,
    ValueError,
)
"""What aioquic may raise on a packet that somebody made up; it ends that connection and nothing else."""


class Wire(Protocol):
    """The socket, and the tables that lead a packet to its connection."""

    def send(self, data: bytes, path: Path) -> None:
        """Sends a datagram; a full socket or no route counts as loss."""

    def learn(self, connection_id: bytes, driver: "Driver") -> None:
        """Packets with this connection id are for `driver`."""

    def unlearn(self, connection_id: bytes) -> None:
        """No longer."""

    def follow(self, tag: bytes, driver: "Driver") -> None:
        """Path packets with this tag are for `driver`."""

    def ending(self, driver: "Driver") -> None:
        """The connection is over, and still answers packets that come late."""

    def gone(self, driver: "Driver") -> None:
        """Nothing more of this connection will be used."""


class Owner(Protocol):
    """The link, told of what happens on its connection."""

    def connected(self) -> None:
        """The peer proved its key."""

    def moved(self) -> None:
        """The peer proved that it is at another address."""

    def data(self, stream_id: int, data: bytes, end: bool) -> None:
        """Bytes of a stream, in order."""

    def reset(self, stream_id: int) -> None:
        """The peer broke a stream off."""

    def stopped(self, stream_id: int) -> None:
        """The peer wants no more of a stream."""

    def flushed(self) -> None:
        """Something may have been acknowledged."""

    def ended(self, code: int, by_application: bool, reason: str) -> None:
        """The connection is over."""


class Driver:
    """One connection."""

    def __init__(self, quic: MeshConnection, wire: Wire, path: Path) -> None:
        self.quic = quic
        self.path = path
        self.proof: PathProof | None = None
        self.ended = False
        """Told to the owner; aioquic may still be in its closing period."""
        self.gone = False
        self._owner: Owner | None = None
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._closing: list[bytes] = []
        self._repeats = CLOSE_REPEATS
        wire.learn(quic.host_cid, self)

    def attach(self, owner: Owner) -> None:
        """Who is told."""
        self._owner = owner

    def connect(self) -> None:
        """Starts the handshake as the side that dials."""
        self.quic.connect(VIRTUAL, now=monotonic())
        self.transmit()

    def feed(self, data: bytes) -> None:
        """A datagram of the peer. Call `settle` after the last one of a batch."""
        if self.ended:
            if self._closing and self._repeats:
                self._repeats -= 1
                for datagram in self._closing:
                    self._wire.send(datagram, self.path)
            return
        self._guarded(lambda: self.quic.receive_datagram(data, VIRTUAL, now=monotonic()))

    def settle(self) -> None:
        """Tells the owner what the last datagrams brought, and answers them."""
        self._dispatch()
        self.transmit()

    def transmit_soon(self) -> None:
        """Sends what is queued, once all that runs now has queued its own."""
        if self._soon is None and not self.gone:
            self._soon = self._loop.call_soon(self.transmit)

    def transmit(self) -> None:
        """Sends what is queued."""
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if self.gone or self.quic.get_peer_address() is None:
            return
        self._guarded(self._transmit)

    def close(self, reason: str, *, code: int = 0, frame_type: int | None = None) -> None:
        """Ends the connection. What is queued is sent first; whether it arrives is not waited for."""
        if self.ended or self.gone:
            return
        self.transmit()
        if self.quic.get_peer_address() is None:
            self.abandon()
            return
        self.quic.close(error_code=code, frame_type=frame_type, reason_phrase=reason)
        self._guarded(self._send_close)
        self._dispatch()

    def abandon(self) -> None:
        """Forgets the connection without a word to the peer."""
        self.gone = self.ended = True
        for handle in (self._soon, self._timer):
            if handle is not None:
                handle.cancel()
        self._wire.gone(self)

    def set_secret(self, secret: bytes) -> None:
        """What the two ends prove new paths with."""
        self.proof = PathProof(secret, self.quic.configuration.is_client, os.urandom)
        self._wire.follow(self.proof.tag, self)

    def elsewhere(self, path: Path) -> None:
        """A packet came from another address: ask there whether the peer is at it."""
        if self.proof is not None and (ping := self.proof.ping(path, monotonic())) is not None:
            self._wire.send(ping, path)

    def control(self, packet: bytes, path: Path) -> bool:
        """A PING or PONG with this link's tag. Returns False for one that proves nothing."""
        if self.proof is None or self.ended:
            return False
        if (pong := self.proof.answer(packet)) is not None:
            self._wire.send(pong, path)
        elif self.proof.proven(packet, path):
            self.path = path
            if self._owner is not None:
                self._owner.moved()
        else:
            return False
        return True

    def _guarded(self, work: Callable[[], None]) -> None:
        if self.gone:
            return
        try:
            work()
        except HOSTILE as error:
            log.info("A connection of %s is given up: %r", self.path, error, exc_info=True)
            if self._owner is not None and not self.ended:
                self.ended = True
                self.quic.closed_here = True
                self._owner.ended(MALFORMED, False, "")
            self.abandon()

    def _send_close(self) -> None:
        self._closing = [data for data, _ in self.quic.datagrams_to_send(now=monotonic())]
        for data in self._closing:
            self._wire.send(data, self.path)
        self._arm()

    def _transmit(self) -> None:
        for data, _ in self.quic.datagrams_to_send(now=monotonic()):
            self._wire.send(data, self.path)
        self._arm()

    def _arm(self) -> None:
        """Keeps a timer that fires too early; most of them move on with every packet."""
        due = self.quic.get_timer()
        if due is None:
            return
        if self._timer is not None:
            if self._timer_at <= due + LATE_SECONDS:
                return
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._loop.call_later(max(0.0, due - monotonic()), self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._guarded(self._tick)
        if not self.gone:
            self.settle()

    def _tick(self) -> None:
        now = monotonic()
        due = self.quic.get_timer()
        if due is not None and due <= now + LATE_SECONDS:
            self.quic.handle_timer(now=max(now, due))

    def _dispatch(self) -> None:
        if self.gone:
            return
        owner = self._owner
        while (event := self.quic.next_event()) is not None:
            if isinstance(event, events.ConnectionIdIssued):
                self._wire.learn(event.connection_id, self)
            elif isinstance(event, events.ConnectionIdRetired):
                self._wire.unlearn(event.connection_id)
            elif isinstance(event, events.ConnectionTerminated):
                self._end(event)
                self.abandon()
                return
            elif owner is not None and not self.ended:
                _tell(owner, event)
        if self.quic.ending is not None:
            self._end(self.quic.ending)
        elif owner is not None:
            owner.flushed()

    def _end(self, event: events.ConnectionTerminated) -> None:
        if not self.ended:
            self.ended = True
            self._wire.ending(self)
            if self._owner is not None:
                self._owner.ended(event.error_code, event.frame_type is None, event.reason_phrase)


def _tell(owner: Owner, event: events.QuicEvent) -> None:
    if isinstance(event, events.StreamDataReceived):
        owner.data(event.stream_id, event.data, event.end_stream)
    elif isinstance(event, events.HandshakeCompleted):
        owner.connected()
    elif isinstance(event, events.StreamReset):
        owner.reset(event.stream_id)
    elif isinstance(event, events.StopSendingReceived):
        owner.stopped(event.stream_id)
