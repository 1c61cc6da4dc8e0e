"""Signed values: a msgpack body, who signed it, and for which purpose.

The purpose is part of what is signed, so that a signature made for one kind of record never
counts for another.
"""

from typing import TypeVar

import msgspec

from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey, verify
from meshllm_core.ids import ID_BYTES, NodeId

T = TypeVar("T", bound=msgspec.Struct)

PREFIX = b"meshllm/1 "


class Signed(msgspec.Struct, frozen=True, array_like=True):
    """The envelope."""

    signer: bytes
    body: bytes
    signature: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Signed)


def seal(key: SigningKey, purpose: str, body: msgspec.Struct) -> bytes:
    """`body`, signed for `purpose`, as bytes."""
    encoded = _encoder.encode(body)
    return _encoder.encode(Signed(key.public, encoded, key.sign(_message(purpose, encoded))))


def unseal(raw: bytes, purpose: str, kind: type[T], *, limit: int) -> tuple[NodeId, T]:
    """Who signed it, and the body. At most `limit` bytes are looked at.

    Raises ProofInvalid with reason `size`, `format` or `signature`.
    """
    if len(raw) > limit:
        raise ProofInvalid(f"A {purpose} of {len(raw)} bytes; the limit is {limit}.", reason="size")
    try:
        envelope = _decoder.decode(raw)
        body = msgspec.msgpack.decode(envelope.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProofInvalid(f"A {purpose} that cannot be read: {error}.", reason="format") from None
    if _encoder.encode(envelope) != raw:
        # Whoever passes a record on could else make many out of one, all with the same signature.
        raise ProofInvalid(f"A {purpose} that is not written in the one way it can be.", reason="format")
    if len(envelope.signer) != ID_BYTES or not verify(
        envelope.signer, envelope.signature, _message(purpose, envelope.body)
    ):
        raise ProofInvalid(f"A {purpose} whose signature does not hold.", reason="signature")
    return NodeId(envelope.signer), body


def _message(purpose: str, body: bytes) -> bytes:
    return PREFIX + purpose.encode() + b"\0" + body
