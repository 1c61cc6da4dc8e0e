"""Which of a machine's addresses others are told. A bridge that every machine has is the address of none."""

import ipaddress
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from meshllm_core.transport.interface_facts import Fact, gather

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_ANY = {"0.0.0.0", "::", "*"}
_TAILNETS = (ipaddress.ip_network("100.64.0.0/10"), ipaddress.ip_network("fd7a:115c:a1e0::/48"))

# Names are all there is on systems that do not say what an interface is made of.
_NAMES = [
    (r"docker|br-[0-9a-f]|cni|flannel|cali|podman|lxc|lxd|incusbr|hassio", "a bridge of containers"),
    (r"veth|tap|macvtap|vnet\d", "one end of a virtual cable"),
    (r"virbr|vmnet|vboxnet|vmenet|vethernet|virtualbox|vmware|ifb\d", "a network of virtual machines"),
    (r"tailscale|zt|wg|tun|utun|ppp|ipsec|nordlynx|proton|openvpn|wireguard|zerotier", "a VPN"),
    (r"awdl|llw|anpi|ap\d|gif|stf|p2p|loopback pseudo|teredo|isatap|sit\d", "made by the system for itself"),
    (r"br\d|vmbr|bridge", "a bridge"),
]
_NAMED = [(re.compile(pattern, re.IGNORECASE), words) for pattern, words in _NAMES]


@dataclass(frozen=True)
class Interface:
    """One address that others can be told."""

    name: str
    address: str
    network: IpNetwork


@dataclass(frozen=True)
class LeftOut:
    """One that they are not told; `address` is empty for an interface without one."""

    name: str
    address: str
    sentence: str
    """Why, for a person, with what to do to use it anyway."""


def usable(
    ask: Sequence[str] = (), *, facts: Sequence[Fact] | None = None
) -> tuple[list[Interface], list[LeftOut]]:
    """The addresses to tell others, best first, and those that are not told.

    `ask` holds addresses or interface names as `--bind-ip` gives them: then only these are used, whatever
    kind they are of. `facts` stands in for this machine's interfaces. Nothing is raised: an interface that
    is away now may be back at the next look. With nothing usable there is at least one `LeftOut`.
    """
    machine = gather() if facts is None else facts
    wanted = {entry.strip() for entry in ask if entry.strip() and entry.strip() not in _ANY}
    used: list[Interface] = []
    left: list[LeftOut] = []
    for fact in sorted(machine, key=_rank):
        for address, network in _addresses(fact):
            reason = _reason(fact, address, wanted)
            if reason:
                left.append(LeftOut(fact.name, str(address), f"{address} on {fact.name}: {reason}"))
            else:
                used.append(Interface(fact.name, str(address), network))
        if not fact.addresses and (silent := _without_address(fact)):
            left.append(LeftOut(fact.name, "", silent))
    left += _missing(wanted, machine)
    if not used and not left:
        left.append(LeftOut("", "", "This machine has no network interface: connect it to a network."))
    used.sort(key=lambda interface: interface.network.version)
    return used, left


def _addresses(fact: Fact) -> Iterator[tuple[IpAddress, IpNetwork]]:
    """Addresses that mean something without the name of an interface: not fe80::, of which each has one."""
    for text in fact.addresses:
        interface = ipaddress.ip_interface(text)
        if not (interface.version == 6 and interface.is_link_local):
            yield interface.ip, interface.network


def _reason(fact: Fact, address: IpAddress, wanted: set[str]) -> str:
    """Why it is not used; nothing when it is."""
    if not fact.up:
        return "the interface is down"
    if wanted & {str(address), fact.name}:
        return ""
    if wanted:
        return "--bind-ip names others"
    kind = _kind(fact) or _range(address)
    return f"{kind}; use --bind-ip {address} to use it anyway" if kind else ""


def _kind(fact: Fact) -> str:
    if fact.loopback:
        return "only this machine itself reaches it"
    for pattern, words in _NAMED:
        if pattern.match(fact.name):
            return words
    if fact.point_to_point:
        return "a VPN or another point-to-point link"
    return "a bridge" if fact.bridge else ""


def _range(address: IpAddress) -> str:
    if address.is_link_local:
        return "an address that the machine gave itself because no router answered"
    if any(address in network for network in _TAILNETS):
        return "an address of a VPN (tailnet) or of a provider's own network"
    if address.is_multicast or address.is_unspecified or address.is_loopback:
        return "not an address that others could use"
    return ""


def _without_address(fact: Fact) -> str:
    """What is worth a word of an interface without any address: a cable that is not plugged in."""
    if fact.loopback or fact.bridge or fact.point_to_point or not fact.hardware:
        return ""
    if not fact.up:
        return f"{fact.name}: down (switched off, or no cable)"
    return f"{fact.name}: up, but it has no address yet; does a router answer there?"


def _missing(wanted: set[str], machine: Sequence[Fact]) -> Iterator[LeftOut]:
    """Those that were asked for and are not on this machine."""
    names = {fact.name for fact in machine}
    own = [
        str(address) for fact in machine if fact.up and not fact.loopback for address, _ in _addresses(fact)
    ]
    for entry in sorted(wanted - names - {_plain(text) for fact in machine for text in fact.addresses}):
        yield LeftOut(
            entry,
            "",
            f"--bind-ip {entry}: no interface of this machine is called so or has it;"
            f" it has {', '.join(own) or 'no address'}",
        )


def _plain(text: str) -> str:
    return str(ipaddress.ip_interface(text).ip)


def _rank(fact: Fact) -> tuple[bool, list[tuple[bool, int, str]]]:
    """Real hardware first, then by name, numbers as numbers."""
    parts = re.findall(r"\d+|\D+", fact.name)
    return not fact.hardware, [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]
