"""Membership certificates: who may be in a mesh, as what, until when, and on whose word.

A chain is read newest first: the member's own certificate, signed by the subject of the next one, and
so on up to the one that the mesh's root key signed. Nobody gives away more than it has: role, right to
invite and expiry of a certificate lie within its issuer's.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.signed import seal, unseal
from meshllm_core.ids import MeshId, NodeId, short
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Role

PURPOSE = "membership"
DAY = 86_400.0
CLOCK_TOLERANCE = DAY
"""Seconds by which the clocks of two members may differ."""
MEMBER_LIFE = 365 * DAY
FOUNDER_LIFE = 10 * 365 * DAY
"""Nobody outlives the founder's certificate, and only the root key renews that."""
SERIAL_BYTES = 8
CHAIN_BYTES = limits.CHAIN_LENGTH * (limits.CERTIFICATE + 3) + 3
"""A chain as one record."""

Id = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Moment = Annotated[int, msgspec.Meta(ge=0, le=1 << 48)]
"""Milliseconds since the epoch: whole numbers have no NaN and compare the same everywhere."""
Entropy = Callable[[int], bytes]
"""So many random bytes."""


def moment(wall: float) -> int:
    """Seconds since the epoch as a Moment."""
    return max(0, int(wall * 1000))


class Certificate(msgspec.Struct, frozen=True, array_like=True):
    """One link of a chain; who issued it is the signer of its envelope."""

    mesh: Id
    subject: Id
    role: Role
    may_invite: bool
    issued_at: Moment
    expires_at: Moment
    serial: Annotated[bytes, msgspec.Meta(min_length=SERIAL_BYTES, max_length=SERIAL_BYTES)]


@dataclass(frozen=True)
class Membership:
    """A member, as a chain that holds says it."""

    node: NodeId
    role: Role
    may_invite: bool
    issued_at: float
    """Seconds since the epoch."""
    expires_at: float
    admitted_by: NodeId
    """Issuer of its certificate; the mesh's root key for the founder."""
    chain: tuple[bytes, ...]
    links: tuple[Certificate, ...]
    """The chain, decoded; newest first."""

    @property
    def rank(self) -> tuple[bool, bool, int, float]:
        """Of two memberships of one node the larger counts."""
        return self.role == "host", self.may_invite, -len(self.chain), self.expires_at

    def expired(self, wall: float) -> bool:
        """Whether it ended, by any clock that is right within the tolerance."""
        return wall > self.expires_at + CLOCK_TOLERANCE


def issue(key: SigningKey, certificate: Certificate) -> bytes:
    """`certificate`, signed by its issuer."""
    return seal(key, PURPOSE, certificate)


def root_membership(mesh: MeshId) -> Membership:
    """What the root key itself may: everything, always."""
    root = NodeId(mesh)
    return Membership(root, "host", True, 0.0, float(1 << 38), root, (), ())


def found(root: SigningKey, founder: NodeId, *, wall: float, entropy: Entropy) -> tuple[bytes, ...]:
    """The chain of a mesh's first member. The mesh's id is the public half of `root`."""
    certificate = Certificate(
        mesh=root.public,
        subject=founder,
        role="host",
        may_invite=True,
        issued_at=moment(wall),
        expires_at=moment(wall + FOUNDER_LIFE),
        serial=entropy(SERIAL_BYTES),
    )
    return (issue(root, certificate),)


def read_chain(mesh: MeshId, chain: Sequence[bytes]) -> Membership:
    """What a chain says, whenever that was: signatures, links and rights hold; dates are not looked at.

    Raises ProofInvalid with reason size, format, signature, chain, other_mesh or not_permitted.
    """
    if not 0 < len(chain) <= limits.CHAIN_LENGTH:
        raise ProofInvalid(
            f"A chain of {len(chain)} certificates; 1 to {limits.CHAIN_LENGTH} are possible.", reason="chain"
        )
    read = [_read(raw) for raw in chain]
    links = tuple(certificate for _, certificate in read)
    for certificate in links:
        if certificate.mesh != mesh:
            raise ProofInvalid(
                f"The certificate is of the mesh {short(certificate.mesh)}, not of {short(mesh)}.",
                reason="other_mesh",
                hint="A node is in one mesh at a time: leave the other with `meshllm leave` first.",
            )
    subjects = {certificate.subject for certificate in links}
    if len(subjects) < len(links) or mesh in subjects:
        raise ProofInvalid("A chain that comes back to itself.", reason="chain")
    issuers = [*(certificate.subject for certificate in links[1:]), bytes(mesh)]
    for (signer, certificate), issuer in zip(read, issuers, strict=True):
        if signer != issuer:
            raise ProofInvalid(
                f"The certificate of {short(certificate.subject)} is signed by {short(signer)}, which is "
                f"not the next in the chain, {short(issuer)}.",
                reason="chain",
            )
    for child, parent in itertools.pairwise(links):
        _check_rights(child, parent)
    if any(certificate.issued_at >= certificate.expires_at for certificate in links):
        raise ProofInvalid("A certificate that ends before it begins.", reason="chain")
    own = links[0]
    return Membership(
        node=NodeId(own.subject),
        role=own.role,
        may_invite=own.may_invite,
        issued_at=own.issued_at / 1000,
        expires_at=own.expires_at / 1000,
        admitted_by=NodeId(issuers[0]),
        chain=tuple(chain),
        links=links,
    )


def check_dates(membership: Membership, wall: float) -> None:
    """Raises ProofInvalid with reason clock or expired, for any certificate of the chain."""
    for certificate in membership.links:
        who = short(certificate.subject)
        ahead = certificate.issued_at / 1000 - wall
        if ahead > CLOCK_TOLERANCE:
            raise ProofInvalid(
                f"The certificate of {who} begins {ahead / 3600:.0f} hours from now: the clock of this "
                "machine or of the one that issued it is wrong.",
                reason="clock",
                hint="Set the clock (on most systems: switch network time on) and try again.",
            )
        past = wall - certificate.expires_at / 1000
        if past > CLOCK_TOLERANCE:
            raise ProofInvalid(
                f"The certificate of {who} ended {past / 3600:.0f} hours ago.",
                reason="expired",
                hint="Ask for a new invite: `meshllm invite`. Or is this machine's clock wrong?",
            )


def encode_chain(chain: Sequence[bytes]) -> bytes:
    """A chain as the bytes of a record."""
    return msgspec.msgpack.encode(tuple(chain))


def decode_chain(raw: bytes) -> tuple[bytes, ...]:
    """The certificates of a record. Raises ProofInvalid with reason size or format."""
    if len(raw) > CHAIN_BYTES:
        raise ProofInvalid(f"A chain of {len(raw)} bytes; the limit is {CHAIN_BYTES}.", reason="size")
    try:
        chain = msgspec.msgpack.decode(raw, type=tuple[bytes, ...])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProofInvalid(f"A chain that cannot be read: {error}.", reason="format") from None
    if encode_chain(chain) != raw:
        raise ProofInvalid("A chain that is not written in the one way it can be.", reason="format")
    return chain


@functools.lru_cache(maxsize=1024)
def _read(raw: bytes) -> tuple[NodeId, Certificate]:
    # Members of one inviter share the upper part of their chains: most signatures are met again.
    return unseal(raw, PURPOSE, Certificate, limit=limits.CERTIFICATE)


def _check_rights(child: Certificate, parent: Certificate) -> None:
    who, by = short(child.subject), short(parent.subject)
    if not parent.may_invite:
        raise ProofInvalid(f"{by} admitted {who} and may not invite.", reason="not_permitted")
    if parent.role == "client" and child.role == "host":
        raise ProofInvalid(f"{by}, a client, made {who} a host.", reason="not_permitted")
    if child.expires_at > parent.expires_at:
        raise ProofInvalid(
            f"The certificate of {who} outlives that of its issuer {by}.", reason="not_permitted"
        )
    if child.issued_at < parent.issued_at:
        raise ProofInvalid(f"The certificate of {who} is older than that of its issuer {by}.", reason="chain")
