"""Addresses as people and records write them, and as the socket takes them."""

import ipaddress
import socket

from meshllm_core.errors import PeerUnreachable
from meshllm_core.transport.quic.path import Path
from meshllm_core.wire.announcement import Address

_MAPPED = "::ffff:"


def path_to(address: Address, family: socket.AddressFamily) -> Path:
    """What a socket of `family` sends to. No name is looked up. Raises PeerUnreachable."""
    host, _, zone = address.host.partition("%")
    try:
        parsed = ipaddress.ip_address(host)
    except ValueError:
        raise PeerUnreachable(f"{address.host!r} is not an IP address.") from None
    if family == socket.AF_INET6:
        text = str(parsed) if parsed.version == 6 else _MAPPED + str(parsed)
        return (text, address.port, 0, int(zone) if zone.isdecimal() else 0)
    if parsed.version == 6:
        raise PeerUnreachable(
            f"{address} is an IPv6 address, and this node listens on IPv4 only.",
            hint="Start it with --bind-ip :: to use both.",
        )
    return (str(parsed), address.port)


def plain(path: Path) -> Path:
    """As the socket reported it, without the flow label, so that two of the same place are equal."""
    return (path[0], path[1], 0, path[3]) if len(path) == 4 else path


def address_of(path: Path) -> Address:
    """The address of a path; an IPv4 peer of a socket for both has its IPv4 address."""
    host = path[0].removeprefix(_MAPPED) if "." in path[0] else path[0]
    zone = f"%{path[3]}" if len(path) == 4 and path[3] else ""
    return Address(host + zone, path[1])
