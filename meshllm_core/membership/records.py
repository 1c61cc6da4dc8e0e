"""Signed records: what members replicate to each other. The store keeps the latest version of each key."""

import hashlib
from dataclasses import dataclass
from enum import IntEnum

from meshllm_core.ids import NodeId

KEY_BYTES = 16


class RecordKind(IntEnum):
    """In the order in which they are sent: what proves something comes before what needs the proof."""

    MEMBERSHIP = 1
    """A member's certificate chain. Subject: the member."""
    REVOCATION = 2
    """A member or an invite is no longer valid."""
    INVITE = 3
    """The hash of an invite's secret, its expiry, role and use count."""
    INVITE_USE = 4
    """An invite was used, by whom."""
    ANNOUNCEMENT = 5
    """What a node says of itself."""
    DEPARTURE = 6
    """A node says that it leaves."""
    DEATH = 7
    """A member says that a node's incarnation no longer answers."""


@dataclass(frozen=True)
class Record:
    """A record whose signature and authority were checked."""

    kind: RecordKind
    key: bytes
    """16 bytes; see `record_key`."""
    version: int
    """Larger replaces smaller. Of two with the same version the one that came first stays."""
    subject: bytes
    """The node (or invite) that it is about."""
    signer: NodeId
    raw: bytes
    """As signed; this is what travels and what is stored."""
    body: object
    """The decoded struct."""


def record_key(kind: RecordKind, *parts: bytes) -> bytes:
    """The key of a record: one per kind and what it is about."""
    digest = hashlib.blake2s(bytes([kind]), digest_size=KEY_BYTES)
    for part in parts:
        digest.update(len(part).to_bytes(2, "big") + part)
    return digest.digest()


def node_version(incarnation: int, sequence: int) -> int:
    """Orders what a node says of itself: a later start wins, then the later announcement."""
    return (incarnation << 22) | sequence
