"""A public mesh as strangers find it on a Nostr relay: built, signed by a member, verified.

The content is JSON that a person can read, with the member's Ed25519 signature inside: the Nostr key
that publishes it proves nothing about the mesh. There is exactly one way to write a listing, and the
signature is over those bytes, so whatever was changed on the way is noticed.

A listing holds no secret. That strangers are let in is the policy of the mesh, not a token that leaked.
"""

import ipaddress
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from meshllm_core.discovery.text import clean_text
from meshllm_core.errors import DiscoveryError, ProofInvalid
from meshllm_core.identity.keys import SIGNATURE_BYTES, SigningKey
from meshllm_core.identity.keys import verify as holds
from meshllm_core.identity.signed import PREFIX
from meshllm_core.ids import MeshId, NodeId
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Address

KIND = 31990
"""Of the Nostr event: addressable, so that a relay keeps the newest of each author and `d` tag."""
TOPIC = "meshllm"
"""The hashtag by which listings are looked for."""
LIFETIME = 120
"""Seconds after which a listing is gone unless it is published again."""
CONTENT = 16 * 1024
"""Bytes of a listing's content."""
AHEAD = 60
"""Seconds by which a publisher's clock may be ahead of the reader's."""

_TAGS = 32
"""Tags of an event that are looked at."""
_TAG_LENGTH = 256
_PURPOSE = PREFIX + b"public listing\0"

HexId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
HexSignature = Annotated[str, msgspec.Meta(pattern=rf"^[0-9a-f]{{{2 * SIGNATURE_BYTES}}}\Z")]
Text = Annotated[str, msgspec.Meta(max_length=limits.NAME)]
ModelName = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.MODEL_NAME)]
AddressText = Annotated[str, msgspec.Meta(max_length=64)]
Count = Annotated[int, msgspec.Meta(ge=0, le=limits.MEMBERS)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 60)]
Seconds = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
Protocol = Annotated[int, msgspec.Meta(ge=0, le=65_535)]


class Listing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a mesh says of itself. After `verify` every text is safe to show."""

    schema: Literal[1] = 1
    mesh: HexId
    node: HexId
    """The member that signed this and lets strangers in: the one to dial."""
    addresses: Annotated[tuple[AddressText, ...], msgspec.Meta(min_length=1, max_length=limits.ADDRESSES)]
    """Of that member, as host:port."""
    name: Text
    region: Annotated[str, msgspec.Meta(max_length=limits.REGION)]
    members: Count
    """Those that compute."""
    clients: Count
    """Those that only ask."""
    max_clients: Count
    """Clients that are let in at most; 0: no limit."""
    models: Annotated[tuple[ModelName, ...], msgspec.Meta(max_length=limits.MODELS)]
    """What is ready to answer, by the names that requests use."""
    vram_free: Bytes
    vram_total: Bytes
    version: Annotated[str, msgspec.Meta(max_length=limits.VERSION)]
    protocol: Protocol
    oldest: Protocol
    """Oldest protocol that the member still speaks."""
    admission: Literal["open"] = "open"
    issued_at: Seconds = 0
    """By the member's clock, seconds since the epoch."""
    expires_at: Seconds = 0

    @property
    def mesh_id(self) -> MeshId:
        """Claimed by the member; that it belongs to this mesh is proved by its chain when it is dialled."""
        return MeshId(bytes.fromhex(self.mesh))

    @property
    def node_id(self) -> NodeId:
        """Proved by the signature."""
        return NodeId(bytes.fromhex(self.node))

    @property
    def free_slots(self) -> int | None:
        """Clients that would still be let in; None: no limit."""
        return max(0, self.max_clients - self.clients) if self.max_clients else None

    def dial_addresses(self) -> tuple[Address, ...]:
        """`addresses`, parsed."""
        return tuple(address for text in self.addresses if (address := parse_address(text)) is not None)


class _Content(Listing, frozen=True, kw_only=True, forbid_unknown_fields=True):
    signature: HexSignature


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Content)
_FIELDS = Listing.__struct_fields__


def identifier(mesh: bytes | str) -> str:
    """The `d` tag of a mesh. No colon in it: relays cut coordinates there, and then delete nothing."""
    return f"{TOPIC}-{mesh if isinstance(mesh, str) else mesh.hex()}"


def parse_address(text: str) -> Address | None:
    """An IP address with a port in its one usual form; None for anything else, or one that nobody has."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdecimal() or len(port) > 5:
        return None
    try:
        ip = ipaddress.ip_address(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
    except ValueError:
        return None
    if ip.is_multicast or ip.is_unspecified or str(ip) == "255.255.255.255" or "%" in host:
        return None
    address = Address(str(ip), int(port))
    return address if 0 < address.port < 65_536 and str(address) == text else None


def build(key: SigningKey, listing: Listing) -> str:
    """The content of the event. What is too long or not fit to show is cut or left out.

    Raises DiscoveryError when there is no address at which others could reach the node.
    """
    addresses = tuple(text for text in listing.addresses if parse_address(text) is not None)
    if not addresses:
        raise DiscoveryError(
            "The mesh cannot be listed: this node has no address that others could dial.",
            hint="Look at the addresses in `meshllm status`, or give one with --bind-ip.",
        )
    models = tuple(dict.fromkeys(name for name in listing.models if _is_plain(name)))
    body = msgspec.structs.replace(
        listing,
        node=key.public.hex(),
        addresses=addresses[: limits.ADDRESSES],
        name=clean_text(listing.name, limits.NAME),
        region=clean_text(listing.region, limits.REGION),
        version=clean_text(listing.version, limits.VERSION),
        models=models[: limits.MODELS],
    )
    while len(content := _signed(key, body)) > CONTENT:
        body = msgspec.structs.replace(body, models=body.models[:-1])
    return content.decode()


def verify(content: str, tags: Sequence[Sequence[str]], wall: float) -> Listing:
    """The listing in an event. `wall`: now, in seconds since the epoch.

    Raises ProofInvalid with reason `size`, `format`, `signature`, `address`, `tag`, `lifetime`, `future`
    or `expired`.
    """
    raw = _bounded(content)
    try:
        found = _decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _wrong(f"cannot be read: {clean_text(str(error), 120)}", "format") from None
    if _encoder.encode(found) != raw:
        raise _wrong("is not written in the one way that is signed", "format")
    listing = Listing(**{name: getattr(found, name) for name in _FIELDS})
    if not holds(listing.node_id, bytes.fromhex(found.signature), _message(listing)):
        raise _wrong("was not signed by the node that it names", "signature")
    if any(parse_address(text) is None for text in listing.addresses):
        raise _wrong("holds an address that is none", "address")
    _check_tags(listing, tags)
    _check_times(listing, wall)
    return msgspec.structs.replace(
        listing,
        name=clean_text(listing.name, limits.NAME),
        region=clean_text(listing.region, limits.REGION),
        version=clean_text(listing.version, limits.VERSION),
        # A name that would look different when shown could not be asked for as it looks.
        models=tuple(dict.fromkeys(name for name in listing.models if _is_plain(name))),
    )


def _signed(key: SigningKey, body: Listing) -> bytes:
    values = {name: getattr(body, name) for name in _FIELDS}
    return _encoder.encode(_Content(**values, signature=key.sign(_message(body)).hex()))


def _message(body: Listing) -> bytes:
    return _PURPOSE + _encoder.encode(body)


def _bounded(content: str) -> bytes:
    if len(content) > CONTENT:
        raise _wrong(f"has {len(content)} characters; the limit is {CONTENT} bytes", "size")
    try:
        raw = content.encode()
    except UnicodeEncodeError:
        raise _wrong("is not text", "format") from None
    if len(raw) > CONTENT:
        raise _wrong(f"has {len(raw)} bytes; the limit is {CONTENT}", "size")
    return raw


def _check_tags(listing: Listing, tags: Sequence[Sequence[str]]) -> None:
    if len(tags) > _TAGS or any(len(value) > _TAG_LENGTH for tag in tags for value in tag):
        raise _wrong("comes with more tags than are looked at", "size")
    wanted = {"d": identifier(listing.mesh), "expiration": str(listing.expires_at)}
    for name, value in wanted.items():
        if [tuple(tag[1:2]) for tag in tags if tag and tag[0] == name] != [(value,)]:
            raise _wrong(f"has a tag {name!r} that says something else than its content", "tag")


def _check_times(listing: Listing, wall: float) -> None:
    if not 0 < listing.expires_at - listing.issued_at <= LIFETIME:
        raise _wrong(f"would last longer than {LIFETIME} s", "lifetime")
    if listing.issued_at > wall + AHEAD:
        ahead = round(listing.issued_at - wall)
        raise _wrong(f"was made {ahead} s in the future by this machine's clock", "future")
    if listing.expires_at <= wall:
        raise _wrong(f"ended {round(wall - listing.expires_at)} s ago by this machine's clock", "expired")


def _is_plain(name: str) -> bool:
    return 0 < len(name) <= limits.MODEL_NAME and clean_text(name, limits.MODEL_NAME) == name


def _wrong(what: str, reason: str) -> ProofInvalid:
    return ProofInvalid(f"A public listing {what}.", reason=reason)
