"""Owner certificates: somebody's word that a node is theirs, for a few days."""

import base64
import binascii
from typing import Annotated

import msgspec

from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.signed import seal, unseal
from meshllm_core.ids import NodeId, short
from meshllm_core.membership.certificates import DAY, Id, Moment, moment
from meshllm_core.wire import limits

PURPOSE = "owner"
OWNER_LIFE = 7 * DAY
RENEW_WITHIN = 1.5 * DAY
"""Seconds before its end in which a node that holds the owner's key renews its certificate."""
PREFIX = "MESHLLM-OWNER:"


class OwnerCertificate(msgspec.Struct, frozen=True, array_like=True):
    """What the owner's key signs."""

    owner: Id
    """The owner: the public half of its key."""
    node: Id
    issued_at: Moment
    expires_at: Moment
    label: Annotated[str, msgspec.Meta(max_length=limits.NAME)] = ""
    """The owner's name for the node."""


def sign_node(
    owner: SigningKey, node: NodeId, *, wall: float, life: float = OWNER_LIFE, label: str = ""
) -> bytes:
    """A certificate for `node`, valid for `life` seconds from `wall`."""
    body = OwnerCertificate(
        owner=owner.public,
        node=node,
        issued_at=moment(wall),
        expires_at=moment(wall + life),
        label=label[: limits.NAME],
    )
    return seal(owner, PURPOSE, body)


def read_owner(raw: bytes) -> OwnerCertificate:
    """What a certificate says, whenever it is valid. Raises ProofInvalid for one that does not hold."""
    signer, body = unseal(raw, PURPOSE, OwnerCertificate, limit=limits.CERTIFICATE)
    if signer != body.owner:
        raise ProofInvalid(f"An owner's certificate of {short(body.owner)} that another signed.")
    return body


def to_text(raw: bytes) -> str:
    """A certificate that can be pasted: one line, upper and lower case matter."""
    return PREFIX + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def from_text(text: str) -> bytes:
    """The reverse; spaces and line ends do not matter. Raises ProofInvalid with reason format or size."""
    bare = "".join(text.split()).strip("'\"")
    if not bare.startswith(PREFIX):
        raise ProofInvalid(f"An owner's certificate begins with {PREFIX}", reason="format")
    bare = bare.removeprefix(PREFIX)
    if len(bare) > 2 * limits.CERTIFICATE:
        raise ProofInvalid("That is too long for an owner's certificate.", reason="size")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ProofInvalid("The owner's certificate is mistyped or cut off.", reason="format") from None
