"""The checks of `meshllm doctor` that are about other machines: key, networks, multicast."""

import asyncio

from meshllm_core.cli.doctor_checks import Check, check_configuration
from meshllm_core.errors import MeshError
from meshllm_core.ids import short
from meshllm_core.paths import Paths


def mesh_checks(paths: Paths) -> list[Check]:
    """All of them, in the order in which a join would meet the problems."""
    from meshllm_core.transport.interfaces import usable

    settings, _ = check_configuration(paths)
    used, left_out = usable(settings.bind_ip)
    addresses = [interface.address for interface in used]
    checks = [check_key(paths), check_networks(addresses, [entry.sentence for entry in left_out])]
    if settings.mesh_discovery_mode == "mdns" and addresses:
        checks.append(check_multicast(addresses))
    return checks


def check_key(paths: Paths) -> Check:
    """Can the node's key be read, and is it this machine's own?"""
    from meshllm_core.identity.storage import known_identity

    try:
        known = known_identity(paths)
    except MeshError as error:
        return Check(name="node key", status="fail", detail=error.message, hint=error.hint)
    if known is None:
        return Check(name="node key", status="pass", detail="none yet; the first start makes it")
    if known.copied:
        return Check(
            name="node key",
            status="warn",
            detail=f"{short(known.node)} was made on another machine",
            hint="If that machine runs too: `meshllm id --new` here. If it moved: `meshllm id --keep`.",
        )
    return Check(name="node key", status="pass", detail=f"{short(known.node)}, kept in {known.storage}")


def check_networks(addresses: list[str], left_out: list[str]) -> Check:
    """Is there an address at which other machines could reach this one?"""
    if addresses:
        return Check(name="networks", status="pass", detail=f"others are told {', '.join(addresses)}")
    hint = "Connect a network, or name an address with --bind-ip (bind_ip), to join other machines."
    return Check(name="networks", status="warn", detail="; ".join(left_out) or "none", hint=hint)


def check_multicast(addresses: list[str]) -> Check:
    """Does a packet to all on the local network come back?"""
    from meshllm_core.transport.multicast import probe_multicast

    if asyncio.run(probe_multicast(addresses)) is False:
        return Check(
            name="multicast",
            status="warn",
            detail="packets to all on the local network are held back on this machine",
            hint="Open UDP port 5353 in its firewall, or join by invite: that works without it.",
        )
    return Check(name="multicast", status="pass", detail="machines on the local network can be found")
