"""The invite, and its bytes.

They are: version, flags, node id (32 bytes), secret (16), start of the mesh id (8), expiry (4),
addresses (6 bytes each for IPv4, 18 for IPv6), checksum (2). The flags say which role the invite is for
and of which kind each address is, so the first two bytes tell how long the whole must be.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2s
from typing import Literal, NamedTuple

from meshllm_core.errors import TokenInvalid
from meshllm_core.ids import ID_BYTES, MeshId, NodeId, short

VERSION = 1
SECRET_BYTES = 16
MESH_BYTES = 8
"""Of the mesh id: enough to tell meshes apart. Which mesh it is, is proved when joining."""
CHECKSUM_BYTES = 2
FIXED_BYTES = 2 + ID_BYTES + SECRET_BYTES + MESH_BYTES + 4 + CHECKSUM_BYTES
ADDRESSES = 3
ADDRESS_BYTES = 37
"""So many bytes of addresses still give a QR code of version 6."""

_CLIENT = 1
_SIZES = {1: 6, 2: 18}
"""Bytes of an address by its kind in the flags: two bits for each, 0 is none."""


class Endpoint(NamedTuple):
    """Where a node may be reached: an IP address (text) and the port, the same for UDP and TCP."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, repr=False)
class Invite:
    """What a token says: whom to ask, and with which secret. Raises TokenInvalid for what is none."""

    node: NodeId
    """The member to ask; it proves that it is this one."""
    secret: bytes
    """16 bytes. Whoever has them may join."""
    mesh: bytes
    """First 8 bytes of the mesh id."""
    expires_at: int = 0
    """Seconds since the epoch; 0: never."""
    addresses: tuple[Endpoint, ...] = ()
    """At most 3, and no more than `fitting` lets through. Without any the node is looked for nearby."""
    role: Literal["host", "client"] = "host"

    def __post_init__(self) -> None:
        sizes = (len(self.node), len(self.secret), len(self.mesh))
        if sizes != (ID_BYTES, SECRET_BYTES, MESH_BYTES) or not 0 <= self.expires_at < 1 << 32:
            raise TokenInvalid("The parts of this invite are not of the right size.", hint=_ASK_AGAIN)
        if fitting(self.addresses) != self.addresses:
            raise TokenInvalid("This invite holds an address that nobody can dial.", hint=_ASK_AGAIN)

    def __repr__(self) -> str:
        """Never the secret: invites end up in logs by way of repr."""
        places = ", ".join(map(str, self.addresses))
        return f"Invite(node={short(self.node)}, role={self.role}, addresses=[{places}])"

    def leads_to(self, mesh: MeshId) -> bool:
        """Whether it is for this mesh."""
        return mesh[:MESH_BYTES] == self.mesh

    def expired(self, now: float) -> bool:
        """Whether it has run out by `now`, in seconds since the epoch."""
        return 0 < self.expires_at <= now


_ASK_AGAIN = "Ask for a new one: `meshllm invite` on a machine of the mesh."


def fitting(addresses: Iterable[tuple[str, int]]) -> tuple[Endpoint, ...]:
    """Those that a token can carry, in their order: up to 3 that one can dial, within 37 bytes."""
    chosen: list[Endpoint] = []
    room = ADDRESS_BYTES
    for host, port in addresses:
        packed = _packed(host, port)
        if packed is not None and len(packed) <= room and len(chosen) < ADDRESSES:
            chosen.append(Endpoint(str(ipaddress.ip_address(host)), port))
            room -= len(packed)
    return tuple(chosen)


def pack(invite: Invite) -> bytes:
    """The bytes of an invite."""
    packed = [p for p in (_packed(*address) for address in invite.addresses) if p is not None]
    flags = _CLIENT if invite.role == "client" else 0
    for place, address in enumerate(packed):
        flags |= (1 if len(address) == _SIZES[1] else 2) << 1 + 2 * place
    body = bytes([VERSION, flags]) + invite.node + invite.secret + invite.mesh
    body += invite.expires_at.to_bytes(4, "big") + b"".join(packed)
    return body + _checksum(body)


def _checksum(body: bytes) -> bytes:
    return blake2s(body, digest_size=CHECKSUM_BYTES, person=b"invite").digest()


def total_bytes(flags: int) -> int | None:
    """How long a token of this version with these flags is, in bytes; None for flags that it cannot have."""
    kinds = [flags >> 1 + 2 * place & 3 for place in range(ADDRESSES)]
    if flags >> 1 + 2 * ADDRESSES or any(kind not in (0, *_SIZES) for kind in kinds):
        return None
    return FIXED_BYTES + sum(_SIZES.get(kind, 0) for kind in kinds)


def unpack(body: bytes) -> Invite | None:
    """The invite in `body`, of the length that `total_bytes` gives; None if its checksum does not hold.

    Raises TokenInvalid for a whole one that makes no sense.
    """
    if _checksum(body[:-CHECKSUM_BYTES]) != body[-CHECKSUM_BYTES:]:
        return None
    flags, rest = body[1], memoryview(body)[2:]
    fields = []
    for size in (ID_BYTES, SECRET_BYTES, MESH_BYTES, 4):
        fields.append(bytes(rest[:size]))
        rest = rest[size:]
    node, secret, mesh, expires = fields
    addresses = []
    for place in range(ADDRESSES):
        size = _SIZES.get(flags >> 1 + 2 * place & 3, 0)
        if size:
            host = ipaddress.ip_address(bytes(rest[: size - 2]))
            addresses.append(Endpoint(str(host), int.from_bytes(rest[size - 2 : size], "big")))
        rest = rest[size:]
    role: Literal["host", "client"] = "client" if flags & _CLIENT else "host"
    return Invite(NodeId(node), secret, mesh, int.from_bytes(expires, "big"), tuple(addresses), role)


def _packed(host: str, port: int) -> bytes | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    scoped = isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None
    if address.is_unspecified or address.is_multicast or scoped or not 0 < port < 65_536:
        return None
    return address.packed + port.to_bytes(2, "big")
