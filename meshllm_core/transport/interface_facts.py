"""What the system says of its network interfaces."""

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path

_SYSTEM = Path("/sys/class/net")
_FAMILIES = {socket.AF_INET, socket.AF_INET6}


@dataclass(frozen=True)
class Fact:
    """One interface."""

    name: str
    addresses: tuple[str, ...] = ()
    """With prefix length: "192.168.1.5/24"."""
    up: bool = True
    """Switched on, and with a carrier."""
    loopback: bool = False
    point_to_point: bool = False
    bridge: bool = False
    hardware: bool = True
    """Whether a device is behind it. True where the system does not say."""


def gather(system: Path = _SYSTEM) -> list[Fact]:
    """All interfaces of this machine, in no order. `system` is where Linux describes them."""
    # Takes 20 ms to import, and only nodes need it.
    import psutil

    stats = psutil.net_if_stats()
    found = []
    for name, entries in psutil.net_if_addrs().items():
        addresses = tuple(
            text
            for entry in entries
            if entry.family in _FAMILIES and (text := _with_prefix(entry.address, entry.netmask))
        )
        stat = stats.get(name)
        flags = set(stat.flags.split(",")) if stat else set()
        folder = system / name
        found.append(
            Fact(
                name=name,
                addresses=addresses,
                up=stat.isup if stat else True,
                loopback="loopback" in flags or _all_loopback(addresses),
                point_to_point="pointopoint" in flags or (folder / "tun_flags").exists(),
                bridge=(folder / "bridge").is_dir(),
                hardware=(folder / "device").exists() if folder.is_dir() else True,
            )
        )
    return found


def _with_prefix(address: str, netmask: str | None) -> str:
    """The address with its prefix length; nothing for one that Python cannot read."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
        bits = int(ipaddress.ip_address(netmask)).bit_count() if netmask else ip.max_prefixlen
    except ValueError:
        return ""
    return f"{ip}/{min(bits, ip.max_prefixlen)}"


def _all_loopback(addresses: tuple[str, ...]) -> bool:
    return bool(addresses) and all(ipaddress.ip_interface(text).is_loopback for text in addresses)
