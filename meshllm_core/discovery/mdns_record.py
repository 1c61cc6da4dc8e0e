"""What a node says of itself on the local network, and what is believed of it: nothing but where to knock.

Who is really there is proved when it is dialled. Name, models and invites never stand in a record.
"""

import hashlib
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meshllm_core.errors import WireError
from meshllm_core.ids import ID_BYTES, MeshId, NodeId, short
from meshllm_core.wire import limits

SERVICE = "_meshllm._udp.local."
SCHEMA = "1"
VALUE_LIMIT = 220
"""Bytes of a value."""
TAG_BYTES = 8
KEPT = 256
"""Records of others that are kept; the one heard of longest ago goes."""

_HEX = re.compile(r"[0-9a-f]+")
_VERSION = re.compile(rf"[A-Za-z0-9.+_-]{{1,{limits.VERSION}}}")


@dataclass(frozen=True)
class Found:
    """A node that says that it is on this network."""

    node: NodeId
    mesh_tag: bytes
    """`mesh_tag` of the mesh that it says it is in; empty: in none."""
    addresses: tuple[str, ...]
    """IP addresses, at least one."""
    port: int
    """UDP and TCP."""
    version: str


def mesh_tag(mesh: MeshId | None) -> bytes:
    """Eight bytes by which members recognize their mesh, and nobody else learns its id; empty for none."""
    return b"" if mesh is None else hashlib.blake2s(mesh, digest_size=TAG_BYTES, person=b"mdns tag").digest()


def instance_name(node: NodeId) -> str:
    """The record's full name."""
    return f"{short(node)}.{SERVICE}"


def server_name(node: NodeId) -> str:
    """The host name in the record: not the machine's own."""
    return f"meshllm-{short(node)}.local."


def properties(node: NodeId, mesh: MeshId | None, version: str) -> dict[str, str]:
    """The TXT record. Its values are far below VALUE_LIMIT."""
    found = {"schema": SCHEMA, "id": node.hex(), "v": version[: limits.VERSION]}
    return found if mesh is None else {**found, "mesh": mesh_tag(mesh).hex()}


def parse(texts: Mapping[bytes, bytes | None], addresses: Sequence[str], port: int | None) -> Found:
    """What a foreign record says. Raises WireError if it is malformed, of another schema, or of no use."""
    if any(len(value or b"") > VALUE_LIMIT for value in texts.values()):
        raise WireError(f"A value of more than {VALUE_LIMIT} bytes in an mDNS record.")
    schema = texts.get(b"schema")
    if schema != SCHEMA.encode():
        raise WireError(f"An mDNS record of schema {schema!r}, not {SCHEMA}.")
    node = _bytes(texts, b"id", ID_BYTES)
    if node is None:
        raise WireError("An mDNS record without a node id.")
    version = (texts.get(b"v") or b"").decode("ascii", "replace")
    if version and not _VERSION.fullmatch(version):
        raise WireError("An mDNS record whose version is none.")
    usable = tuple(dict.fromkeys(filter(_dialable, addresses[: 4 * limits.ADDRESSES])))[: limits.ADDRESSES]
    if not usable or port is None or not 0 < port < 65_536:
        raise WireError("An mDNS record without an address and port to dial.")
    return Found(NodeId(node), _bytes(texts, b"mesh", TAG_BYTES) or b"", usable, port, version)


class Neighbours:
    """The records that are heard, by their names; at most KEPT of them."""

    def __init__(self, own: NodeId) -> None:
        self._own = own
        self._records: dict[str, Found] = {}

    def __len__(self) -> int:
        return len(self._records)

    def heard(self, name: str, found: Found) -> tuple[bool, NodeId | None]:
        """Takes a record in: whether it says something new, and which node is given up for it."""
        if found.node == self._own:
            return False, None
        key = name.lower()
        before = self._records.pop(key, None)
        self._records[key] = found
        given_up = self._drop(next(iter(self._records))) if len(self._records) > KEPT else None
        if given_up is None and before is not None and not self._known(before.node):
            given_up = before.node
        return found != before, given_up

    def gone(self, name: str) -> NodeId | None:
        """Forgets a record: the node that no other record speaks of, or None."""
        return self._drop(name.lower())

    def _drop(self, key: str) -> NodeId | None:
        found = self._records.pop(key, None)
        return found.node if found is not None and not self._known(found.node) else None

    def _known(self, node: NodeId) -> bool:
        return any(found.node == node for found in self._records.values())


def _bytes(texts: Mapping[bytes, bytes | None], key: bytes, size: int) -> bytes | None:
    """A value in hexadecimal; None if there is none. Raises WireError for anything else."""
    text = (texts.get(key) or b"").decode("ascii", "replace")
    if not text:
        return None
    if len(text) != 2 * size or not _HEX.fullmatch(text):
        raise WireError(f"An mDNS record whose {key.decode()} is not {size} bytes in hexadecimal.")
    return bytes.fromhex(text)


def _dialable(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return not (address.is_unspecified or address.is_multicast)
