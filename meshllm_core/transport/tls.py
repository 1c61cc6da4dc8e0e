"""The TLS side channel: TCP beside QUIC, for what is large or urgent, pinned to keys that QUIC has proved.

The first byte of a connection, before TLS, says on which event loop it belongs: the node's own for calls,
that of a thread for files. It is no secret and proves nothing; the handshake does.
"""

import asyncio
import contextlib
import functools
import socket
import ssl
from collections.abc import Callable, Sequence

from meshllm_core.errors import LinkClosed, PeerUnreachable
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import NodeId
from meshllm_core.transport import tcp
from meshllm_core.transport.link import Channel, ChannelKind
from meshllm_core.transport.quic.names import address_of
from meshllm_core.transport.tls_bulk import BulkChannel, BulkLoop
from meshllm_core.transport.tls_connection import TlsChannel
from meshllm_core.transport.tls_context import Trust
from meshllm_core.transport.tls_endpoint import TlsEndpoint
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Address

WARM = 2
"""Unused connections that are kept to a peer that was called before."""
BACKLOG = 128
PAUSE_SECONDS = 0.5
"""Before connections are accepted again when the system has no file descriptors left."""

_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no certificate",
    "CERTIFICATE_VERIFY_FAILED": "wrong key",
    "CALLBACK_FAILED": "unknown name",
}


class TlsPlane:
    """Implements `transport.quic.SideChannels`."""

    on_channel: Callable[[NodeId, Channel], None]
    """Called on the node's loop with every channel that an allowed peer opens."""
    port: int

    def __init__(
        self, trust: Trust, listener: socket.socket, bulk: BulkLoop, counted: Callable[[str, str], None]
    ) -> None:
        """For `start`."""
        self.on_channel = _refuse
        self.port = listener.getsockname()[1]
        self._loop = asyncio.get_running_loop()
        self._trust = trust
        self._listener = listener
        self._bulk = bulk
        self._counted = counted
        self._calls = TlsEndpoint(
            trust,
            ChannelKind.CALL,
            warm=WARM,
            on_channel=lambda peer, channel: self.on_channel(peer, channel),
            counted=counted,
        )
        self._files = TlsEndpoint(
            trust, ChannelKind.TRANSFER, warm=0, on_channel=self._file_channel, counted=self._count_from_bulk
        )
        self._half_open: dict[asyncio.Task[None], str] = {}
        self._accepting = asyncio.create_task(self._accept(), name="tls accept")

    @staticmethod
    async def start(
        key: SigningKey,
        certificate: bytes,
        *,
        host: str,
        port: int,
        counted: Callable[[str, str], None],
    ) -> "TlsPlane":
        """Listens on `host`, "::" for both families, and `port`, 0 for any.

        `certificate` is the node's (DER). `counted` is called on the node's loop with the kind and the
        detail of everything that is refused.
        Raises OSError when it cannot listen there.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        both = host == "::" and socket.has_dualstack_ipv6()
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=both)
        listener.setblocking(False)
        return TlsPlane(Trust(key, certificate), listener, await BulkLoop.start(), counted)

    def allow(self, peer: NodeId, certificate: bytes) -> None:
        """The peer may open channels, showing this certificate (DER). Raises ProofInvalid for another's."""
        if self._trust.allow(peer, certificate):
            self._forget(peer)

    def forbid(self, peer: NodeId) -> None:
        """The peer may open none any more; its connections are closed, both ways."""
        self._trust.forbid(peer)
        self._forget(peer)

    async def connect(
        self, peer: NodeId, certificate: bytes, addresses: Sequence[Address], kind: ChannelKind
    ) -> Channel:
        """A CALL or TRANSFER channel to the peer, over a connection that is ready or at the first address
        that answers.

        The peer hears of the channel with the first frame. Raises PeerUnreachable.
        """
        if kind == ChannelKind.TRANSFER:
            try:
                inner = await self._bulk.run(self._files.connect(peer, certificate, addresses))
            except LinkClosed as error:
                raise PeerUnreachable(error.message) from None
            return BulkChannel(self._bulk, inner)
        return await self._calls.connect(peer, certificate, addresses)

    async def close(self) -> None:
        """Closes the listener and all connections."""
        tasks = [self._accepting, *self._half_open]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()
        await self._calls.close()
        with contextlib.suppress(LinkClosed):
            await self._bulk.run(self._files.close())
        await self._bulk.close()

    def _forget(self, peer: NodeId) -> None:
        self._calls.forget(peer)
        self._bulk.call(lambda: self._files.forget(peer))

    def _file_channel(self, peer: NodeId, channel: TlsChannel) -> None:
        """On the other loop."""
        outer = BulkChannel(self._bulk, channel)
        self._loop.call_soon_threadsafe(lambda: self.on_channel(peer, outer))

    def _count_from_bulk(self, kind: str, detail: str) -> None:
        self._loop.call_soon_threadsafe(self._counted, kind, detail)

    async def _accept(self) -> None:
        while True:
            try:
                accepted, source = await self._loop.sock_accept(self._listener)
            except OSError as error:
                self._counted("not accepted", error.strerror or str(error))
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if len(self._half_open) >= limits.HANDSHAKES:
                oldest, whose = next(iter(self._half_open.items()))
                self._counted("too many half open", whose)
                oldest.cancel()
                del self._half_open[oldest]
            where = str(address_of(source))
            task = asyncio.create_task(self._begin(accepted, where), name=f"tls from {where}")
            self._half_open[task] = where
            task.add_done_callback(functools.partial(self._begun, accepted))

    def _begun(self, accepted: socket.socket, task: "asyncio.Task[None]") -> None:
        self._half_open.pop(task, None)
        if task.cancelled():
            # Perhaps before its first step.
            accepted.close()

    async def _begin(self, accepted: socket.socket, source: str) -> None:
        """The handshake, on the loop that the first byte names; refusals are counted."""
        try:
            accepted.setblocking(False)
            tcp.prepare(accepted)
            async with asyncio.timeout(limits.HANDSHAKE_SECONDS):
                first = await self._loop.sock_recv(accepted, 1)
                if first == bytes([ChannelKind.CALL]):
                    await self._calls.secure(accepted, source)
                elif first == bytes([ChannelKind.TRANSFER]):
                    await self._bulk.run(self._files.secure(accepted, source))
                else:
                    if first:
                        # Nothing at all is how others try whether this port can be reached.
                        self._counted("malformed", source)
                    accepted.close()
        except TimeoutError:
            self._counted("half open", source)
            accepted.close()
        except ssl.SSLError as error:
            self._counted(_REASONS.get(error.reason or "", "malformed"), source)
            accepted.close()
        except (OSError, LinkClosed):
            accepted.close()


def _refuse(peer: NodeId, channel: Channel) -> None:
    """Until somebody listens."""
    del peer
    channel.abort()
