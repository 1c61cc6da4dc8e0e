"""The node's one mesh port: UDP for QUIC and TCP for the side channel, with the same number."""

import contextlib
import errno
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from meshllm_core.errors import NodeError, PortTaken
from meshllm_core.identity.keys import SigningKey
from meshllm_core.mesh.options import DEFAULT_PORT, MeshOptions
from meshllm_core.transport.certificate import make_certificate
from meshllm_core.transport.link import OnLink, Transport
from meshllm_core.transport.quic import QuicTransport
from meshllm_core.transport.tls import TlsPlane

TRIES = 8
ANY, ANY_IPV4 = "::", "0.0.0.0"

Counted = Callable[[str, str], None]


@dataclass
class MeshSockets:
    """What listens; `transport` is what dials, too."""

    transport: Transport
    plane: TlsPlane | None
    host: str = ANY_IPV4
    """What is listened on: an address, or all of one family or of both."""

    def takes(self, address: str) -> bool:
        """Whether this node is reached at that address of its machine."""
        return self.host == ANY or (":" in self.host) == (":" in address)

    async def close(self) -> None:
        """Closes links and sockets."""
        await self.transport.close()
        if self.plane is not None:
            await self.plane.close()


async def open_sockets(
    key: SigningKey, options: MeshOptions, on_link: OnLink, *, counted: Counted, last: int = 0
) -> MeshSockets:
    """Listens, at the port of the last time where none was asked for and that one is free.

    Raises PortTaken for a port that was asked for, NodeError for an address that is not ours.
    """
    wanted = options.bind_port or DEFAULT_PORT
    likely = dict.fromkeys([last, wanted]) if last else [wanted]
    ports = [wanted] if options.bind_port else [*likely, *([0] * TRIES)]
    host = options.bind_ip[0] if len(options.bind_ip) == 1 else ANY if has_ipv6() else ANY_IPV4
    for port in ports:
        with contextlib.suppress(PortTaken):
            return await _open(key, host, port, on_link, counted)
    raise PortTaken(
        f"Port {wanted} (UDP or TCP) on {host} is in use.",
        hint="Choose another with --bind-port, or leave it out for any free one.",
    )


def has_ipv6() -> bool:
    """Whether one socket can take both families here: a system may have IPv6 switched off."""
    if not socket.has_dualstack_ipv6():
        return False
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        probe.bind((ANY, 0))
        return True
    return False


async def _open(key: SigningKey, host: str, port: int, on_link: OnLink, counted: Counted) -> MeshSockets:
    try:
        plane = await TlsPlane.start(key, make_certificate(key), host=host, port=port, counted=counted)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(f"TCP port {port} on {host} is in use.") from error
        raise NodeError(
            f"Cannot listen on {host} for the mesh: {os.strerror(error.errno) if error.errno else error}.",
            hint="Name an address of this machine with --bind-ip, or leave it out.",
        ) from error
    try:
        transport = await QuicTransport.start(
            key, host=host, port=plane.port, on_link=on_link, tls=plane, counted=counted
        )
    except NodeError:
        await plane.close()
        raise
    return MeshSockets(transport, plane, host)
