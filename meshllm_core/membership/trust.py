"""Whether a node's owner makes it welcome: policies, the trusted and the revoked, and the verdict."""

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from meshllm_core.errors import ProofInvalid
from meshllm_core.ids import NodeId, short
from meshllm_core.membership.certificates import CLOCK_TOLERANCE
from meshllm_core.membership.owner import OwnerCertificate, read_owner
from meshllm_core.wire import limits

TrustPolicy = Literal["off", "prefer-owned", "require-owned", "allowlist"]
"""off: owners do not matter. prefer-owned: nodes of trusted owners come first. require-owned: a node needs
an owner, any. allowlist: a node needs an owner that is trusted here. All keep out who is revoked."""

Status = Literal[
    "verified",
    "unsigned",
    "expired",
    "invalid_signature",
    "mismatched_node",
    "revoked_owner",
    "revoked_node",
    "untrusted_owner",
]
ENTRIES = 1024


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An owner or a node."""

    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    label: Annotated[str, msgspec.Meta(max_length=limits.NAME)] = ""
    """A name for it, given here."""


Entries = Annotated[tuple[Entry, ...], msgspec.Meta(max_length=ENTRIES)]


class TrustStore(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a person trusts, as it is in the file."""

    version: Literal[1] = 1
    trusted: Entries = ()
    """Owners."""
    revoked: Entries = ()
    """Owners and nodes; their ids are keys and cannot be mistaken for each other."""

    def trusts(self, owner: bytes) -> bool:
        """Whether that owner is trusted."""
        return any(entry.id == owner.hex() for entry in self.trusted)

    def revokes(self, identity: bytes) -> bool:
        """Whether that owner or node is revoked."""
        return any(entry.id == identity.hex() for entry in self.revoked)


@dataclass(frozen=True)
class OwnerStatus:
    """The verdict on one node."""

    status: Status
    admits: bool
    """Whether the policy lets it be a peer."""
    preferred: bool
    """Whether it comes before others that serve the same."""
    owner: bytes
    """Empty where no certificate holds."""
    label: str
    """As the owner calls the node; not cleaned."""
    words: str
    """For a column: `verified 3fa9c1b2d4`."""
    sentence: str
    """For a refusal."""


def judge(
    policy: TrustPolicy, store: TrustStore, certificate: bytes, node: NodeId, wall: float
) -> OwnerStatus:
    """The verdict on `node`, which showed `certificate` (empty: none). `wall` in seconds since the epoch."""
    body: OwnerCertificate | None = None
    broken = False
    if certificate:
        try:
            body = read_owner(certificate)
        except ProofInvalid:
            broken = True
    status = _status(store, body, broken, node, wall)
    owner = body.owner if body else b""
    admits = {
        "off": True,
        "prefer-owned": True,
        "require-owned": status in ("verified", "untrusted_owner"),
        "allowlist": status == "verified",
    }[policy] and status not in ("revoked_owner", "revoked_node")
    words = _WORDS[status]
    return OwnerStatus(
        status=status,
        admits=admits,
        preferred=policy != "off" and status == "verified",
        owner=owner,
        label=body.label if body else "",
        words=f"{words} {short(owner)}" if owner else words,
        sentence=_sentence(status, policy, owner, node),
    )


def _status(
    store: TrustStore, body: OwnerCertificate | None, broken: bool, node: NodeId, wall: float
) -> Status:
    if store.revokes(node):
        return "revoked_node"
    if broken:
        return "invalid_signature"
    if body is None:
        return "unsigned"
    if body.node != node:
        return "mismatched_node"
    if store.revokes(body.owner):
        return "revoked_owner"
    if not body.issued_at / 1000 - CLOCK_TOLERANCE <= wall <= body.expires_at / 1000 + CLOCK_TOLERANCE:
        return "expired"
    return "verified" if store.trusts(body.owner) else "untrusted_owner"


_WORDS: dict[Status, str] = {
    "verified": "verified",
    "unsigned": "no owner",
    "expired": "expired",
    "invalid_signature": "invalid certificate",
    "mismatched_node": "another node's certificate",
    "revoked_owner": "revoked owner",
    "revoked_node": "revoked node",
    "untrusted_owner": "not trusted",
}


def _sentence(status: Status, policy: TrustPolicy, owner: bytes, node: NodeId) -> str:
    who, whose = f"Node {short(node)}", short(owner)
    match status:
        case "verified":
            return f"{who} belongs to {whose}, who is trusted here."
        case "unsigned":
            return f"{who} shows no owner's certificate, and the trust policy here is {policy}."
        case "expired":
            return (
                f"The owner's certificate of {who.lower()} is not valid at this time: its owner can renew it."
            )
        case "invalid_signature":
            return f"{who} shows an owner's certificate that does not hold."
        case "mismatched_node":
            return f"{who} shows an owner's certificate that was made for another node."
        case "revoked_owner":
            return f"{who} belongs to {whose}, whom this machine has revoked."
        case "revoked_node":
            return f"{who} is revoked on this machine."
        case "untrusted_owner":
            return f"{who} belongs to {whose}, who is not among the trusted owners here."
