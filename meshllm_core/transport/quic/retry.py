"""Asks a newcomer to prove its address before anything is kept of it (RFC 9000, 8.1.2).

Done only while many wait: it costs a round trip, and nobody can then push others out with made-up addresses.
"""

import hashlib
import hmac
import struct
from dataclasses import dataclass

from meshllm_core.transport.quic.path import Path

SECONDS = 10
"""So long a token counts."""
MAC_BYTES = 16
_HEAD = struct.Struct(">QB")


@dataclass(frozen=True)
class RetryTokens:
    """Tokens that only this process makes; nothing is kept of those that were given out."""

    key: bytes
    """32 random bytes."""

    def make(self, path: Path, original: bytes, given: bytes, now: float) -> bytes:
        """For somebody at `path` who chose the connection id `original` and is to use `given`."""
        body = _HEAD.pack(int(now), len(original)) + original
        return body + self._mac(body, path, given)

    def original(self, token: bytes, path: Path, given: bytes, now: float) -> bytes | None:
        """The connection id that was chosen at first; None for a token that was not made for this packet."""
        body, mac = token[:-MAC_BYTES], token[-MAC_BYTES:]
        if len(body) < _HEAD.size or not hmac.compare_digest(mac, self._mac(body, path, given)):
            return None
        made, length = _HEAD.unpack_from(body)
        if not 0 <= int(now) - made <= SECONDS:
            return None
        return body[_HEAD.size : _HEAD.size + length]

    def _mac(self, body: bytes, path: Path, given: bytes) -> bytes:
        message = repr((body, path, given)).encode()
        return hashlib.blake2s(message, key=self.key, digest_size=MAC_BYTES).digest()
