"""The records that gossip itself knows how to judge: announcements, departures, deaths."""

from collections.abc import Callable

from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.signed import seal, unseal
from meshllm_core.ids import MeshId, NodeId, short
from meshllm_core.membership.records import Record, RecordKind, node_version, record_key
from meshllm_core.membership.store import SEQUENCES
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import PURPOSE as ANNOUNCEMENT_PURPOSE
from meshllm_core.wire.announcement import Announcement
from meshllm_core.wire.gossip import DEATH_PURPOSE, DEPARTURE_PURPOSE, Death, Departure

UNKNOWN_MEMBER = "unknown_member"
"""Reason of a ProofInvalid: not valid now, and perhaps later, when a membership has come."""

TOMBSTONE_BYTES = 512


def announcement_record(key: SigningKey, body: Announcement) -> Record:
    """What this node says of itself, signed."""
    return _announcement(key.public, body, seal(key, ANNOUNCEMENT_PURPOSE, body))


def departure_record(key: SigningKey, mesh: MeshId, incarnation: int) -> Record:
    """This node leaves; for `Gossip.leave`."""
    body = Departure(mesh, incarnation)
    return _departure(key.public, body, seal(key, DEPARTURE_PURPOSE, body))


def death_record(key: SigningKey, mesh: MeshId, subject: NodeId, incarnation: int, at: float) -> Record:
    """That incarnation of `subject` does not answer; `at` in seconds since the epoch."""
    body = Death(mesh, subject, incarnation, at)
    return _death(key.public, body, seal(key, DEATH_PURPOSE, body))


def check_gossip_record(
    kind: RecordKind, raw: bytes, is_member: Callable[[NodeId], bool], *, mesh: MeshId
) -> Record:
    """The record in `raw`, which must be an ANNOUNCEMENT, a DEPARTURE or a DEATH of `mesh`.

    Raises ProofInvalid with reason `size`, `format`, `signature`, `other_mesh` or UNKNOWN_MEMBER.
    """
    match kind:
        case RecordKind.ANNOUNCEMENT:
            signer, said = unseal(raw, ANNOUNCEMENT_PURPOSE, Announcement, limit=limits.ANNOUNCEMENT)
            if said.sequence >= SEQUENCES:
                raise ProofInvalid("An announcement whose sequence is at its end.", reason="format")
            record, its_mesh = _announcement(signer, said, raw), said.mesh
        case RecordKind.DEPARTURE:
            signer, left = unseal(raw, DEPARTURE_PURPOSE, Departure, limit=TOMBSTONE_BYTES)
            record, its_mesh = _departure(signer, left, raw), left.mesh
        case RecordKind.DEATH:
            signer, died = unseal(raw, DEATH_PURPOSE, Death, limit=TOMBSTONE_BYTES)
            record, its_mesh = _death(signer, died, raw), died.mesh
        case _:
            raise ProofInvalid(f"A {kind.name} is not for gossip to judge.", reason="format")
    if its_mesh != mesh:
        raise ProofInvalid(f"An {kind.name} for the mesh {short(its_mesh)}.", reason="other_mesh")
    for node in dict.fromkeys((signer, NodeId(record.subject))):
        if not is_member(node):
            raise ProofInvalid(f"Node {short(node)} is not known as a member.", reason=UNKNOWN_MEMBER)
    return record


def _announcement(signer: NodeId, body: Announcement, raw: bytes) -> Record:
    version = node_version(body.incarnation, body.sequence)
    return _record(RecordKind.ANNOUNCEMENT, signer, signer, version, body, raw)


def _departure(signer: NodeId, body: Departure, raw: bytes) -> Record:
    return _record(RecordKind.DEPARTURE, signer, signer, body.incarnation, body, raw)


def _death(signer: NodeId, body: Death, raw: bytes) -> Record:
    return _record(RecordKind.DEATH, signer, body.subject, body.incarnation, body, raw)


def _record(
    kind: RecordKind, signer: NodeId, subject: bytes, version: int, body: object, raw: bytes
) -> Record:
    return Record(kind, record_key(kind, subject), version, subject, signer, raw, body)
