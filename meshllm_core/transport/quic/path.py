"""Which address a peer is at. It changes only when the peer proved, with a key, that packets reach it there.

A packet that merely comes from somewhere else moves nothing: anybody can send a copy of one. Each link
has a key that the two ends exchange inside the connection. PING and PONG are signed with it:

    type (1)  tag (8)  nonce (8)  mac (16)        mac = BLAKE2s(key, type, who sends it, tag, nonce)
"""

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

Path = tuple[str, int] | tuple[str, int, int, int]
"""Where packets are sent, as a socket takes it."""

CONTROL_BELOW = 0x40
"""QUIC never begins a packet with a smaller byte; what does is ours."""
PING, PONG, KNOCK = 0x06, 0x07, 0x08
TAG_BYTES = NONCE_BYTES = 8
KEY_BYTES = 32
SECRET_BYTES = TAG_BYTES + KEY_BYTES
PACKET_BYTES = 1 + TAG_BYTES + NONCE_BYTES + 16

PING_SECONDS = 0.2
"""At most one ping in this time per link: whoever knows a connection id could ask for more."""
PINGS = 4
"""Pings whose answer is awaited."""


def tag_of(packet: bytes) -> bytes | None:
    """Which link a PING or PONG is about; None when it is neither, or of another length."""
    if len(packet) != PACKET_BYTES or packet[0] not in (PING, PONG):
        return None
    return packet[1 : 1 + TAG_BYTES]


@dataclass
class PathProof:
    """One end's half of the proof. `secret` (40 bytes, tag and key) is the same at both ends."""

    secret: bytes
    is_client: bool
    """Goes into what is signed, so that an end's own packets, sent back to it, prove nothing."""
    entropy: Callable[[int], bytes]
    _asked: "OrderedDict[bytes, Path]" = field(default_factory=OrderedDict)
    _last: float = float("-inf")

    @property
    def tag(self) -> bytes:
        """Names the link in control packets."""
        return self.secret[:TAG_BYTES]

    def ping(self, path: Path, now: float) -> bytes | None:
        """A packet to send to `path`; None when one was sent a moment ago. `now` in seconds."""
        if now - self._last < PING_SECONDS:
            return None
        self._last = now
        nonce = self.entropy(NONCE_BYTES)
        self._asked[nonce] = path
        if len(self._asked) > PINGS:
            self._asked.popitem(last=False)
        return self._packet(PING, nonce, self.is_client)

    def answer(self, packet: bytes) -> bytes | None:
        """The PONG for a PING of the other end; None when it is not one."""
        nonce = self._opened(PING, packet)
        return self._packet(PONG, nonce, self.is_client) if nonce is not None else None

    def proven(self, packet: bytes, path: Path) -> bool:
        """Whether a packet from `path` answers a ping that was sent there."""
        nonce = self._opened(PONG, packet)
        return nonce is not None and self._asked.pop(nonce, None) == path

    def _packet(self, kind: int, nonce: bytes, by_client: bool) -> bytes:
        head = bytes([kind]) + self.tag + nonce
        mac = hashlib.blake2s(head, key=self.secret[TAG_BYTES:], person=b"client" if by_client else b"server")
        return head + mac.digest()[:16]

    def _opened(self, kind: int, packet: bytes) -> bytes | None:
        nonce = packet[1 + TAG_BYTES : 1 + TAG_BYTES + NONCE_BYTES]
        expected = self._packet(kind, nonce, not self.is_client)
        return nonce if hmac.compare_digest(packet, expected) else None
