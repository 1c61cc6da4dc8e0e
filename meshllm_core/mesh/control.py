"""Frames of a control channel: one byte that says what follows, then the message."""

from typing import Literal

import msgspec

from meshllm_core.errors import LinkClosed, WireError
from meshllm_core.transport.link import Channel
from meshllm_core.wire import handshake as hs

HANDSHAKE, GOSSIP = b"\x01", b"\x02"

Part = Literal["handshake", "gossip"]


async def send(channel: Channel, message: hs.HandshakeMessage) -> None:
    """Sends a message of the handshake. Raises LinkClosed."""
    await channel.send(HANDSHAKE + hs.encoder.encode(message))


async def receive(channel: Channel) -> hs.HandshakeMessage:
    """The next message, which must be one of the handshake. Raises LinkClosed, WireError."""
    body = await channel.receive()
    if body is None:
        raise LinkClosed("The other node ended the conversation.")
    if body[:1] != HANDSHAKE:
        raise WireError("Gossip came before the handshake was through.")
    return decode(body)


def decode(body: bytes) -> hs.HandshakeMessage:
    """A message of the handshake with its first byte. Raises WireError."""
    try:
        return hs.decoder.decode(memoryview(body)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"A handshake message that cannot be read: {error}.") from None
