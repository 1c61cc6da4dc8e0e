"""Invites: what members replicate of them, how often each was used, and in which state it is.

Members hold the SHA-256 of an invite's secret, never the secret. Uses are a set that only grows, one
record per invite and machine: two members that admit the last use in the same moment both stand, and a
machine that asks twice counts once. The open admission of a public mesh is an invite with an empty
secret: a policy that members agree on, with a limit of its own, and nothing that could leak.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.signed import seal, unseal
from meshllm_core.ids import MeshId, NodeId, short
from meshllm_core.membership.certificates import CLOCK_TOLERANCE, DAY, Id, Moment
from meshllm_core.membership.records import Record, RecordKind, record_key
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Role

PURPOSE = "invite"
USE_PURPOSE = "invite-use"
INVITE_BYTES = 512
USES_KEPT = 2 * limits.MEMBERS
KEPT_AFTER_END = 30 * DAY
"""Seconds for which an invite that ran out is remembered: so long its holder is told so."""

OPEN_LIFE = 7 * DAY
"""A membership by open admission; while the machine is there it is renewed."""

InviteState = Literal["open", "used_up", "expired", "revoked"]


def invite_id(secret: bytes) -> bytes:
    """What members know of a secret: 32 bytes."""
    return hashlib.sha256(b"meshllm/1 invite-secret\0" + secret).digest()


OPEN = invite_id(b"")
"""The invite without a secret: open admission."""


class Invite(msgspec.Struct, frozen=True, array_like=True):
    """What is signed by the member that made it."""

    mesh: Id
    id: Id
    role: Role
    """host: admits hosts and clients. client: clients only."""
    may_invite: bool
    uses: Annotated[int, msgspec.Meta(ge=0, le=65_535)]
    """0: any number. For open admission: members admitted by it at the same time."""
    created_at: Moment
    expires_at: Moment
    """0: never."""


class InviteUse(msgspec.Struct, frozen=True, array_like=True):
    """What is signed by the member that admitted."""

    mesh: Id
    invite: Id
    joiner: Id
    at: Moment


@dataclass(frozen=True)
class InviteView:
    """An invite for a person."""

    id: bytes
    role: Role
    may_invite: bool
    uses: int
    """0: any number."""
    used: int
    used_by: tuple[NodeId, ...]
    created_at: float
    expires_at: float
    """Seconds since the epoch; 0: never."""
    created_by: NodeId
    state: InviteState


def sign_invite(key: SigningKey, invite: Invite) -> Record:
    """An invite as a record."""
    return _invite_record(key.public, invite, seal(key, PURPOSE, invite))


def read_invite(mesh: MeshId, raw: bytes, wall: float) -> tuple[Record, Invite]:
    """Raises ProofInvalid with reason size, format, signature, other_mesh, clock or expired.

    Whether its signer may invite is not looked at.
    """
    signer, invite = unseal(raw, PURPOSE, Invite, limit=INVITE_BYTES)
    if invite.mesh != mesh:
        raise ProofInvalid(f"An invite to the mesh {short(invite.mesh)}.", reason="other_mesh")
    _check_future("An invite", invite.created_at, wall)
    if forgotten(invite, wall):
        raise ProofInvalid("An invite that ended long ago.", reason="expired")
    return _invite_record(signer, invite, raw), invite


def sign_use(key: SigningKey, use: InviteUse) -> Record:
    """A use as a record."""
    return _use_record(key.public, use, seal(key, USE_PURPOSE, use))


def read_use(mesh: MeshId, raw: bytes, wall: float) -> Record:
    """Raises ProofInvalid as read_invite does."""
    signer, use = unseal(raw, USE_PURPOSE, InviteUse, limit=INVITE_BYTES)
    if use.mesh != mesh:
        raise ProofInvalid(f"The use of an invite to the mesh {short(use.mesh)}.", reason="other_mesh")
    _check_future("The use of an invite", use.at, wall)
    if stale(use, wall):
        raise ProofInvalid("The use of open admission, long ago.", reason="expired")
    return _use_record(signer, use, raw)


def ended(invite: Invite, wall: float) -> bool:
    """Whether its time is over: to the second, by the clock of the member that is asked."""
    return invite.expires_at != 0 and wall >= invite.expires_at / 1000


def forgotten(invite: Invite, wall: float) -> bool:
    """Whether it ended so long ago that nobody keeps it.

    That a mesh was closed is kept for ever: an older word of its being open would else come back with a
    machine that was away.
    """
    return invite.id != OPEN and invite.expires_at != 0 and wall > invite.expires_at / 1000 + KEPT_AFTER_END


def stale(use: InviteUse, wall: float) -> bool:
    """Whether the membership that open admission gave has ended without being renewed."""
    return use.invite == OPEN and wall > use.at / 1000 + OPEN_LIFE + 2 * CLOCK_TOLERANCE


class InviteBook:
    """The invites of a mesh and who used them."""

    def __init__(self) -> None:
        self._invites: dict[tuple[bytes, NodeId], tuple[Invite, Record]] = {}
        self._uses: dict[bytes, dict[NodeId, Record]] = {}
        self._use_count = 0

    def add(self, record: Record, invite: Invite) -> bool:
        """False when a later version of the same maker is known."""
        place = (invite.id, record.signer)
        known = self._invites.get(place)
        if known is not None and known[1].version >= record.version:
            return False
        self._invites[place] = invite, record
        return True

    def add_use(self, record: Record, use: InviteUse) -> bool:
        """False when a later record of that use is known, or as many are kept as can be."""
        users = self._uses.setdefault(use.invite, {})
        known = users.get(NodeId(use.joiner))
        if (known.version >= record.version) if known else (self._use_count >= USES_KEPT):
            return False
        users[NodeId(use.joiner)] = record
        self._use_count += known is None
        return True

    def full_for(self, record: Record, invite: Invite, wall: float) -> bool:
        """Whether one more invite is more than is kept; those whose time is over do not count."""
        if (invite.id, record.signer) in self._invites or ended(invite, wall):
            return len(self._invites) >= 2 * limits.INVITES
        return sum(not ended(known, wall) for known, _ in self._invites.values()) >= limits.INVITES

    def of(self, identity: bytes) -> list[tuple[Invite, Record]]:
        """Every maker's version of an invite, oldest first."""
        found = [known for place, known in self._invites.items() if place[0] == identity]
        return sorted(found, key=lambda known: known[0].created_at)

    def all(self) -> list[tuple[Invite, Record]]:
        """Oldest first."""
        return sorted(self._invites.values(), key=lambda known: (known[0].created_at, known[0].id))

    def users(self, identity: bytes) -> tuple[NodeId, ...]:
        """Who used an invite, in no order."""
        return tuple(self._uses.get(identity, ()))

    def records(self) -> Iterator[Record]:
        """To be kept on disk: invites, then uses."""
        for _, record in self._invites.values():
            yield record
        for users in self._uses.values():
            yield from users.values()

    def prune(self, wall: float) -> list[bytes]:
        """Drops what ended long ago; returns the keys of those records."""
        gone = [place for place, (invite, _) in self._invites.items() if forgotten(invite, wall)]
        keys = [self._invites.pop(place)[1].key for place in gone]
        known = {identity for identity, _ in self._invites}
        for identity, users in list(self._uses.items()):
            for joiner, record in list(users.items()):
                # A use can arrive before its invite: those of the last days wait for it.
                alone = identity not in known and record.version / 1000 < wall - KEPT_AFTER_END
                if alone or (isinstance(record.body, InviteUse) and stale(record.body, wall)):
                    keys.append(users.pop(joiner).key)
                    self._use_count -= 1
            if not users:
                del self._uses[identity]
        return keys


def _invite_record(signer: NodeId, invite: Invite, raw: bytes) -> Record:
    return Record(
        kind=RecordKind.INVITE,
        key=record_key(RecordKind.INVITE, invite.id, signer),
        version=invite.created_at,
        subject=invite.id,
        signer=signer,
        raw=raw,
        body=invite,
    )


def _use_record(signer: NodeId, use: InviteUse, raw: bytes) -> Record:
    return Record(
        kind=RecordKind.INVITE_USE,
        key=record_key(RecordKind.INVITE_USE, use.invite, use.joiner),
        version=use.at,
        subject=use.invite,
        signer=signer,
        raw=raw,
        body=use,
    )


def _check_future(what: str, at: int, wall: float) -> None:
    ahead = at / 1000 - wall
    if ahead > CLOCK_TOLERANCE:
        raise ProofInvalid(
            f"{what} was made {ahead / 3600:.0f} hours from now: one of the two clocks is wrong.",
            reason="clock",
            hint="Set the clock (on most systems: switch network time on) and try again.",
        )
