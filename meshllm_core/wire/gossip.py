"""What members say to each other after admission: life signs, news by digest, records by request.

A digest is 16 bytes: the first 8 of a record's key, then its version, big-endian. Lists of digests
and of keys travel as one run of bytes, so that their length is known before any of it is looked at.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec

from meshllm_core.errors import WireError
from meshllm_core.wire import limits

DIGEST_KEY_BYTES = 8
DIGEST_BYTES = 16
DIGESTS = 4096
"""Digests or keys in one message."""
BUCKETS = 256
BUCKET_HASH_BYTES = 4
RECORDS_BYTES = 64 * 1024
"""Records are put together up to this size; one that is larger travels alone."""
RECORDS_PER_MESSAGE = 512

Id = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Nonce = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
Summary = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
"""A hash over all records without the sequence of announcements, and one with it, 8 bytes each."""
Incarnation = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
DigestRun = Annotated[bytes, msgspec.Meta(max_length=DIGESTS * DIGEST_BYTES)]
KeyRun = Annotated[bytes, msgspec.Meta(max_length=DIGESTS * DIGEST_KEY_BYTES)]

UNKNOWN, SILENT, HEARD = 0, 1, 2


class Ping(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Are you there? With what the sender holds in short, and news that can wait for a ping."""

    nonce: Nonce
    summary: Summary
    records: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    """How many it holds."""
    offers: DigestRun = b""


class Pong(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The answer to a ping."""

    nonce: Nonce
    summary: Summary
    records: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    offers: DigestRun = b""


class Offer(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """I hold these."""

    digests: DigestRun


class Want(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Send me these."""

    keys: KeyRun


class Item(msgspec.Struct, frozen=True, array_like=True):
    """A record as it travels."""

    kind: Annotated[int, msgspec.Meta(ge=1, le=7)]
    digest: Annotated[bytes, msgspec.Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
    """So that one that is known already is not verified again."""
    raw: Annotated[bytes, msgspec.Meta(max_length=limits.RECORD)]


class Records(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Records that were asked for, or a few that are urgent."""

    items: Annotated[tuple[Item, ...], msgspec.Meta(max_length=RECORDS_PER_MESSAGE)]


class Buckets(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """What I hold, as one hash for each first byte of a key: tell me where you differ."""

    hashes: Annotated[
        bytes,
        msgspec.Meta(min_length=BUCKETS * BUCKET_HASH_BYTES, max_length=BUCKETS * BUCKET_HASH_BYTES),
    ]


class Digests(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """All that I hold in these buckets."""

    buckets: Annotated[bytes, msgspec.Meta(max_length=BUCKETS)]
    """First bytes of keys."""
    digests: DigestRun
    last: bool


class Probe(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Do you hear this member?"""

    nonce: Nonce
    subject: Id


class Vouch(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """The answer to a probe."""

    nonce: Nonce
    subject: Id
    answer: Annotated[int, msgspec.Meta(ge=UNKNOWN, le=HEARD)]
    """UNKNOWN: no link to it. SILENT: it did not answer. HEARD."""
    ago: Annotated[int, msgspec.Meta(ge=0, le=60_000)]
    """Milliseconds since it was heard."""


class Departure(msgspec.Struct, frozen=True, array_like=True):
    """Body of a record in which a node says that it leaves."""

    mesh: Id
    incarnation: Incarnation


class Death(msgspec.Struct, frozen=True, array_like=True):
    """Body of a record in which a member says that a node no longer answers."""

    mesh: Id
    subject: Id
    incarnation: Incarnation
    """The one that was silent; a higher one contradicts."""
    at: float
    """By the signer's clock, seconds since the epoch; shown, never trusted."""


DEPARTURE_PURPOSE = "departure"
DEATH_PURPOSE = "death"

GossipMessage = Ping | Pong | Offer | Want | Records | Buckets | Digests | Probe | Vouch

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(GossipMessage)
_digest = struct.Struct(">8sQ")
_key = struct.Struct(">8s")


def encode(message: GossipMessage) -> bytes:
    """The message as bytes; at most `limits.CONTROL_FRAME` of them."""
    return _encoder.encode(message)


def decode(raw: bytes | bytearray | memoryview) -> GossipMessage:
    """The message in `raw`. Raises WireError."""
    if len(raw) > limits.CONTROL_FRAME:
        raise WireError(f"A gossip message of {len(raw)} bytes; the limit is {limits.CONTROL_FRAME}.")
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"A gossip message that cannot be read: {error}.") from None


def pack_digest(key: bytes, version: int) -> bytes:
    """16 bytes; of `key` the first 8 count."""
    return _digest.pack(key[:DIGEST_KEY_BYTES], version)


def digests(run: bytes) -> Iterator[tuple[bytes, int]]:
    """(key, version) of each. Raises WireError for a run that was cut."""
    if len(run) % DIGEST_BYTES:
        raise WireError(f"Digests of {len(run)} bytes were cut: each has {DIGEST_BYTES}.")
    return _digest.iter_unpack(run)


def keys(run: bytes) -> list[bytes]:
    """8 bytes each. Raises WireError for a run that was cut."""
    if len(run) % DIGEST_KEY_BYTES:
        raise WireError(f"Keys of {len(run)} bytes were cut: each has {DIGEST_KEY_BYTES}.")
    return [key for (key,) in _key.iter_unpack(run)]


def runs(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Joins digests or keys to runs of at most DIGESTS each."""
    waiting: list[bytes] = []
    for part in parts:
        waiting.append(part)
        if len(waiting) == DIGESTS:
            yield b"".join(waiting)
            waiting = []
    if waiting:
        yield b"".join(waiting)
