"""Revocations: a member, with everybody it let in, or an invite is no longer valid.

A revocation carries the chain that gives its signer the right: it can be checked by anyone, in any
order, even after that chain has ended. It reaches as far as its signer's word did: the root's to every
membership of the target, a member's to those that hang on that member. It covers what was issued up to
its moment, so that a machine can be invited again later.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.signed import seal, unseal
from meshllm_core.ids import MeshId, NodeId, short
from meshllm_core.membership.certificates import CLOCK_TOLERANCE, Id, Membership, Moment, read_chain
from meshllm_core.membership.records import Record, RecordKind, record_key
from meshllm_core.wire import limits

PURPOSE = "revocation"

Chain = Annotated[tuple[bytes, ...], msgspec.Meta(max_length=limits.CHAIN_LENGTH)]


class Revocation(msgspec.Struct, frozen=True, array_like=True):
    """What is signed."""

    mesh: Id
    what: Literal["member", "invite"]
    target: Id
    """A node, or the id of an invite."""
    at: Moment
    chain: Chain
    """Of the member, or of the member that made the invite."""


@dataclass(frozen=True)
class Revoked:
    """A revocation that holds."""

    signer: NodeId
    what: Literal["member", "invite"]
    target: bytes
    maker: bytes
    """Who made the invite, the root key where no chain is given; empty for a member."""
    at: int
    """Milliseconds since the epoch."""


def sign_revocation(
    key: SigningKey, mesh: MeshId, what: Literal["member", "invite"], target: bytes, chain: Chain, at: int
) -> bytes:
    """The signed bytes. `chain` is the member's or the invite maker's."""
    return seal(key, PURPOSE, Revocation(mesh, what, target, at, chain))


def read_revocation(mesh: MeshId, raw: bytes, wall: float) -> Record:
    """Checks the signer's right. The record's body is a Revoked.

    Raises ProofInvalid with reason size, format, signature, other_mesh, not_permitted, clock, or what is
    wrong with the chain.
    """
    signer, body = unseal(raw, PURPOSE, Revocation, limit=limits.RECORD)
    if body.mesh != mesh:
        raise ProofInvalid(f"A revocation for the mesh {short(body.mesh)}.", reason="other_mesh")
    # The revoked certificate may come from a clock that is a day ahead of a signer that is so itself.
    if body.at / 1000 > wall + 2 * CLOCK_TOLERANCE:
        raise ProofInvalid(
            f"A revocation from {(body.at / 1000 - wall) / 3600:.0f} hours in the future.", reason="clock"
        )
    root = NodeId(mesh)
    maker = bytes(root) if body.what == "invite" else b""
    if signer != root or body.chain:
        proof = read_chain(mesh, body.chain)
        above = {certificate.subject for certificate in proof.links[1:]}
        if body.what == "invite":
            maker = proof.node
            above.add(proof.node)
        elif proof.node != body.target:
            raise ProofInvalid(
                "A revocation that proves its right with another member.", reason="not_permitted"
            )
        if signer != root and signer not in above:
            raise ProofInvalid(
                f"{short(signer)} revoked {short(body.target)}, which it did not let in.",
                reason="not_permitted",
            )
    revoked = Revoked(signer, body.what, body.target, maker, body.at)
    return Record(
        kind=RecordKind.REVOCATION,
        key=record_key(RecordKind.REVOCATION, body.target, maker, signer),
        version=body.at,
        subject=body.target,
        signer=signer,
        raw=raw,
        body=revoked,
    )


class Revocations:
    """All that are known, by what they are about."""

    def __init__(self, mesh: MeshId) -> None:
        self._mesh = mesh
        self._known: dict[bytes, dict[tuple[NodeId, bytes], tuple[Revoked, Record]]] = {}
        self._count = 0
        self.latest = 0
        """When the last of them was, in milliseconds since the epoch."""

    def __len__(self) -> int:
        return self._count

    def add(self, record: Record, revoked: Revoked) -> bool:
        """False when a later one of the same signer is known."""
        of_target = self._known.setdefault(revoked.target, {})
        known = of_target.get((revoked.signer, revoked.maker))
        if known is not None and known[0].at >= revoked.at:
            return False
        self._count += known is None
        of_target[(revoked.signer, revoked.maker)] = revoked, record
        self.latest = max(self.latest, revoked.at)
        return True

    def records(self) -> Iterator[Record]:
        """To be kept on disk."""
        for of_target in self._known.values():
            for _, record in of_target.values():
                yield record

    def of_member(self, membership: Membership) -> Revoked | None:
        """The revocation that ends a membership: of the member, or of anybody its chain hangs on."""
        for index, certificate in enumerate(membership.links):
            above = {link.subject for link in membership.links[index + 1 :]} | {bytes(self._mesh)}
            for revoked in self._about(certificate.subject, "member"):
                if revoked.at >= certificate.issued_at and revoked.signer in above:
                    return revoked
        return None

    def of_node(self, node: NodeId) -> int:
        """When the node was last revoked by anybody, in milliseconds since the epoch; 0: never."""
        return max((revoked.at for revoked in self._about(node, "member")), default=0)

    def of_invite(self, invite: bytes, maker: NodeId) -> int:
        """When an invite was last revoked, in milliseconds since the epoch; 0: never.

        It ends what was made up to that moment: a mesh that was closed can be opened again.
        """
        about = self._about(invite, "invite")
        return max((revoked.at for revoked in about if revoked.maker == maker), default=0)

    def _about(self, target: bytes, what: str) -> Iterator[Revoked]:
        return (known for known, _ in self._known.get(target, {}).values() if known.what == what)
