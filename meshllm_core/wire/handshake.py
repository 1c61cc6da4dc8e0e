"""The first messages on a link: who are you, are you one of us, and may I join."""

from typing import Annotated, Literal

import msgspec

from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Address, Name, Role, Short

Certificate = Annotated[bytes, msgspec.Meta(max_length=limits.CERTIFICATE)]
Chain = Annotated[tuple[Certificate, ...], msgspec.Meta(max_length=limits.CHAIN_LENGTH)]
Addresses = Annotated[tuple[Address, ...], msgspec.Meta(max_length=limits.ADDRESSES)]
Id = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Token = Annotated[bytes, msgspec.Meta(min_length=8, max_length=8)]


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", omit_defaults=True):
    """Base of the messages on a control channel before admission."""


class Hello(Message, frozen=True, kw_only=True, tag="hello"):
    """First frame of both sides. The key behind it was proved by TLS already."""

    protocol: Annotated[int, msgspec.Meta(ge=0, le=65_535)]
    oldest: Annotated[int, msgspec.Meta(ge=0, le=65_535)]
    """Oldest protocol that this side still speaks."""
    version: Short
    instance: Token
    name: Name
    role: Role
    time: float
    """By the sender's clock, seconds since the epoch."""
    mesh: Annotated[bytes, msgspec.Meta(max_length=32)] = b""
    """Empty for a node that is in no mesh yet."""
    chain: Chain = ()
    addresses: Addresses = ()
    owner: Certificate = b""
    """The owner's certificate for this node, or nothing; members only."""
    observed: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """Where this side sees the other, as host:port."""


class Join(Message, frozen=True, kw_only=True, tag="join"):
    """May I join? Sent on a link whose far end proved to be the node that the invite names."""

    secret: Annotated[bytes, msgspec.Meta(max_length=64)]
    """From the token; empty asks for the open admission of a public mesh."""
    role: Role


class Joined(Message, frozen=True, kw_only=True, tag="joined"):
    """Yes: your certificate with its chain."""

    mesh: Id
    mesh_name: Name
    chain: Chain
    name: Name = ""
    """Of the node that admits: it told a stranger nothing of itself."""
    addresses: Addresses = ()


RefusalCode = Literal[
    "version",
    "other_mesh",
    "not_member",
    "expired",
    "used_up",
    "revoked",
    "unknown_invite",
    "clock",
    "duplicate_identity",
    "policy",
    "full",
    "role",
    "wrong_identity",
    "malformed",
    "waiting",
    "declined",
    "blocked",
]


class Refusal(Message, frozen=True, kw_only=True, tag="refused"):
    """No, and why; the link is closed after it."""

    code: RefusalCode
    text: Annotated[str, msgspec.Meta(max_length=300)] = ""
    proof: Annotated[bytes, msgspec.Meta(max_length=limits.STRANGER_FRAME // 2)] = b""
    """The signed revocation, for a node that was revoked while it was away."""


class Probe(Message, frozen=True, kw_only=True, tag="probe"):
    """Are you there? Allowed before admission."""

    nonce: Token


class ProbeAnswer(Message, frozen=True, kw_only=True, tag="probe_answer"):
    """Yes."""

    nonce: Token


class DialBack(Message, frozen=True, kw_only=True, tag="dial_back"):
    """Please try to reach me unasked: a packet with this nonce, and a TCP connection, to these addresses."""

    nonce: Token
    addresses: Addresses


class DialedBack(Message, frozen=True, kw_only=True, tag="dialed_back"):
    """What became of it: the addresses at which TCP answered. The packet speaks for itself."""

    nonce: Token
    tcp: Addresses


HandshakeMessage = Hello | Join | Joined | Refusal | Probe | ProbeAnswer | DialBack | DialedBack

encoder = msgspec.msgpack.Encoder()
decoder = msgspec.msgpack.Decoder(HandshakeMessage)
