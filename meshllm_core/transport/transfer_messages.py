"""What two nodes say about a file: ask, offer or refuse, start; then its bytes, then their hash."""

from typing import Annotated

import msgspec

from meshllm_core.errors import WireError

FRAME_BYTES = 256 * 1024
"""Largest frame of a transfer."""
ID_CHARACTERS = 256

_Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", omit_defaults=True):
    """Base of all."""


class Ask(Message, frozen=True, kw_only=True, tag="ask"):
    """Have you got this? An id of the asked node's own naming, no path."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=ID_CHARACTERS)]


class Offer(Message, frozen=True, kw_only=True, tag="offer"):
    """Yes: so many bytes; the tag changes when the file does."""

    size: _Size
    tag: Annotated[bytes, msgspec.Meta(min_length=8, max_length=8)]


class Refused(Message, frozen=True, kw_only=True, tag="refused"):
    """No, and why."""

    text: Annotated[str, msgspec.Meta(max_length=300)]


class Start(Message, frozen=True, kw_only=True, tag="start"):
    """Send me these bytes."""

    offset: _Size
    length: _Size


class Sum(Message, frozen=True, kw_only=True, tag="sum"):
    """Those were all; their SHA-256."""

    sha256: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Ask | Offer | Refused | Start | Sum)

encode = _encoder.encode


def decode(frame: bytes) -> Message:
    """Raises WireError."""
    try:
        return _decoder.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"A message about a file that cannot be read: {error}.") from None
