"""What the person set about the mesh, as the mesh needs it."""

from dataclasses import dataclass
from typing import Literal

from meshllm_core.wire.announcement import Role

DEFAULT_PORT = 9338
"""UDP and TCP; taken when nothing else is asked for and it is free."""


@dataclass(frozen=True)
class MeshOptions:
    """Checked by the configuration."""

    name: str
    """Of this node, for other people."""
    version: str
    role: Role = "host"
    mesh_name: str = ""
    """Of a mesh that this node founds."""
    discovery: Literal["mdns", "nostr", "off"] = "mdns"
    bind_ip: tuple[str, ...] = ()
    bind_port: int = 0
    """0: DEFAULT_PORT, or any."""
    region: str = ""
    max_clients: int = 8
    relays: tuple[str, ...] = ()
    trust_policy: Literal["off", "prefer-owned", "require-owned", "allowlist"] = "off"
