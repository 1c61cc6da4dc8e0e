"""The seam between nodes: a link to one peer, with channels on it. QUIC implements it, and memory for tests.

Who is at the far end was proved before a link exists. A channel carries whole frames in order, both
ways; `send` waits while too much of it is not yet taken, so nothing grows without bound.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from typing import Literal, Protocol

from meshllm_core.ids import NodeId
from meshllm_core.wire.announcement import Address


class ChannelKind(IntEnum):
    """First byte of a channel."""

    CONTROL = 1
    """Handshake, then gossip: one per link, opened by the side that dialled."""
    CALL = 2
    """One inference call."""
    TRANSFER = 3
    """A file."""


class Channel(Protocol):
    """Frames in order, both ways."""

    kind: ChannelKind
    path: Literal["quic", "tls", "memory"]
    limit: int
    """Largest frame that is taken from the other side, in bytes; set it before the first `receive`."""

    async def send(self, body: bytes) -> None:
        """Waits while more than the high watermark is not taken. Raises LinkClosed."""

    def send_at_once(self, body: bytes) -> bool:
        """Sends a frame if nothing waits before it and there is room; else does nothing and says False.

        Raises LinkClosed.
        """

    async def receive(self) -> bytes | None:
        """The next frame; None when the other side finished. Raises LinkClosed, WireError."""

    async def pass_on(self, deliver: Callable[[bytes], None]) -> None:
        """Gives every frame to `deliver` as it comes, until the other side finished. Raises as `receive`."""

    async def finish(self) -> None:
        """No more frames from this side; receiving goes on. Raises LinkClosed."""

    def abort(self) -> None:
        """Gives the channel up in both directions, at once. Safe to call at any time."""


class Link(Protocol):
    """A live connection to one peer."""

    peer: NodeId
    dialled: bool
    """True when this side dialled."""
    address: Address
    """Where the packets of the peer come from now."""
    certificate: bytes
    """The peer's self-signed X.509 certificate (DER) as proved in the handshake; pins its TLS channel."""

    async def open(self, kind: ChannelKind) -> Channel:
        """A new channel: a pinned TLS connection for CALL and TRANSFER where the peer takes TCP, else QUIC.

        Raises LinkClosed.
        """

    async def accept(self) -> Channel:
        """The next channel that the peer opens. Raises LinkClosed when there will be none."""

    def offer_tls(self, addresses: Sequence[Address]) -> None:
        """The peer, now admitted, may be reached at these addresses by TCP; tried and kept warm."""

    def admit(self) -> None:
        """The peer is a member now: it may open channels and be reached by TLS.

        Until then a link takes one CONTROL channel and refuses any other.
        """

    @property
    def tls(self) -> bool | None:
        """Whether calls travel by TLS; None while that is being tried."""

    @property
    def round_trip(self) -> float:
        """Smoothed seconds as the transport measures; 0 when not known."""

    def close(self, reason: str = "") -> None:
        """Ends the link; the peer is told."""

    async def wait_closed(self) -> str:
        """Returns why, once the link is closed."""


OnLink = Callable[[Link], Awaitable[None]]
"""Called in a task of its own for every connection that came in."""


class Transport(Protocol):
    """Dials and listens."""

    port: int
    """UDP and TCP."""

    async def dial(self, peer: NodeId, address: Address, *, timeout: float) -> Link:
        """A link to `peer`, and to nobody else. Raises PeerUnreachable; ProofInvalid for another key."""

    async def close(self) -> None:
        """Closes all links and the sockets."""

    async def knock(self, address: Address, nonce: bytes) -> None:
        """Sends one packet with an 8-byte nonce from a port that the receiver never heard of."""

    on_knock: Callable[[bytes], None]
    """Called with the nonce of a knock that arrived."""


class Clock(Protocol):
    """Time as an argument: the machine's, or a test's."""

    def monotonic(self) -> float:
        """Seconds, never going back; stands still while nothing runs is not promised."""

    def time(self) -> float:
        """Seconds since the epoch."""
