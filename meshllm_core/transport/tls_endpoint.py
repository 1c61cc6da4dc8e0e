"""The connections of one kind on one event loop: handshakes both ways, and a few kept ready."""

import asyncio
import contextlib
import ipaddress
import os
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from meshllm_core.errors import LinkClosed, PeerUnreachable
from meshllm_core.ids import NodeId, short
from meshllm_core.transport import tcp
from meshllm_core.transport.link import ChannelKind
from meshllm_core.transport.tls_connection import TlsChannel, TlsConnection
from meshllm_core.transport.tls_context import Trust
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Address

CONNECT_SECONDS = 5.0
"""For all addresses of a peer together."""
STAGGER_SECONDS = 0.25
"""After so long without an answer the next address is tried as well."""
SHUTDOWN_SECONDS = 2.0
_HANDSHAKE_SECONDS = limits.HANDSHAKE_SECONDS + 5
"""asyncio's own limit: after those that are counted."""
_TURNS = 3


@dataclass
class _Peer:
    """What is held of one peer."""

    certificate: bytes
    addresses: tuple[Address, ...] = ()
    worked: Address | None = None
    connections: set[TlsConnection] = field(default_factory=set)
    ready: list[TlsConnection] = field(default_factory=list)
    filling: asyncio.Task[None] | None = None

    @property
    def dialled(self) -> int:
        """How many of the connections were opened by this side."""
        return sum(connection.dialled for connection in self.connections)


class TlsEndpoint:
    """Belongs to the event loop on which it is used."""

    def __init__(
        self,
        trust: Trust,
        kind: ChannelKind,
        *,
        warm: int,
        on_channel: Callable[[NodeId, TlsChannel], None],
        counted: Callable[[str, str], None],
    ) -> None:
        """`warm` is how many unused connections to a peer are kept after the first use."""
        self._trust = trust
        self._kind = kind
        self._warm = warm
        self._on_channel = on_channel
        self._counted = counted
        self._peers: dict[NodeId, _Peer] = {}

    async def secure(self, accepted: socket.socket, source: str) -> None:
        """The handshake with somebody who connected. Raises OSError, of which TLS errors are a kind."""
        connection = self._connection(dialled=False)
        certificate = await _secured(
            asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._trust.listening,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            ),
            accepted,
            connection,
        )
        peer = self._trust.owner(certificate)
        if peer is None or certificate is None:
            # It was forbidden during its handshake.
            self._counted("wrong key", source)
            connection.abort()
            return
        known = self._known(peer, certificate)
        if len(known.connections) - known.dialled >= limits.CHANNELS:
            self._counted("too many channels", short(peer))
            connection.abort()
            return
        known.connections.add(connection)
        connection.prove(peer)

    async def connect(self, peer: NodeId, certificate: bytes, addresses: Sequence[Address]) -> TlsChannel:
        """A channel, at once where a connection is ready. Raises PeerUnreachable."""
        known = self._known(peer, certificate)
        known.addresses = tuple(addresses)
        connection = self._take_ready(known)
        if connection is None:
            if known.dialled >= limits.CHANNELS:
                raise PeerUnreachable(
                    f"{limits.CHANNELS} channels to node {short(peer)} are open.",
                    hint="Try again when one of them has ended.",
                )
            connection = await self._dial(peer, known)
            if self._peers.get(peer) is not known:
                connection.abort()
                raise PeerUnreachable(f"The link to node {short(peer)} ended while it was dialled by TCP.")
        channel = connection.open()
        filling = known.filling is not None and not known.filling.done()
        if self._warm and not known.ready and not filling and known.dialled < limits.CHANNELS:
            known.filling = asyncio.create_task(self._fill(peer, known), name=f"tls to {short(peer)}")
        return channel

    def forget(self, peer: NodeId) -> None:
        """Closes all connections of the peer, both ways."""
        known = self._peers.pop(peer, None)
        if known is None:
            return
        if known.filling is not None:
            known.filling.cancel()
        for connection in list(known.connections):
            connection.abort("the node is no longer allowed, or its link has ended")

    async def close(self) -> None:
        """Closes everything."""
        tasks = [known.filling for known in self._peers.values() if known.filling is not None]
        connections = [other for known in self._peers.values() for other in known.connections]
        for peer in list(self._peers):
            self.forget(peer)
        await asyncio.gather(*tasks, *(other.lost.wait() for other in connections), return_exceptions=True)

    def _known(self, peer: NodeId, certificate: bytes) -> _Peer:
        known = self._peers.get(peer)
        if known is None or known.certificate != certificate:
            self.forget(peer)
            known = self._peers[peer] = _Peer(certificate)
        return known

    def _connection(self, *, dialled: bool) -> TlsConnection:
        return TlsConnection(
            self._kind,
            dialled=dialled,
            on_ready=self._on_ready,
            on_channel=self._on_channel,
            on_lost=self._on_lost,
            counted=self._counted,
        )

    def _on_ready(self, connection: TlsConnection) -> None:
        """One that was used, or not needed, may serve again."""
        known = self._peers.get(connection.peer)
        if known is None or connection not in known.connections:
            return
        if len(known.ready) < self._warm:
            known.ready.append(connection)
        else:
            connection.abort("it was one more than is kept ready")

    def _on_lost(self, connection: TlsConnection) -> None:
        known = self._peers.get(connection.peer)
        if known is not None:
            known.connections.discard(connection)
            if connection in known.ready:
                known.ready.remove(connection)

    @staticmethod
    def _take_ready(known: _Peer) -> TlsConnection | None:
        while known.ready:
            connection = known.ready.pop()
            if connection.fresh:
                return connection
            connection.abort("it waited for too long")
        return None

    async def _fill(self, peer: NodeId, known: _Peer) -> None:
        with contextlib.suppress(PeerUnreachable):
            connection = await self._dial(peer, known)
            self._on_ready(connection)

    async def _dial(self, peer: NodeId, known: _Peer) -> TlsConnection:
        """Tries the addresses one after the other, each a little before the one before it has failed."""
        if not known.addresses:
            raise PeerUnreachable(f"Node {short(peer)} cannot be reached by TCP: no address is known.")
        order = sorted(known.addresses, key=lambda address: address != known.worked)
        tries: list[asyncio.Task[TlsConnection | str]] = []
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                for number, address in enumerate(order, 1):
                    tries.append(asyncio.create_task(self._attempt(peer, known, address)))
                    wait = STAGGER_SECONDS if number < len(order) else None
                    if (connection := await _first(tries, wait)) is not None:
                        known.connections.add(connection)
                        return connection
        except TimeoutError:
            pass
        finally:
            await self._drop_others(tries, known)
        said = [task.result() for task in tries if task.done() and not task.cancelled()]
        reasons = "; ".join(words for words in said if isinstance(words, str)) or "no answer"
        raise PeerUnreachable(
            f"Node {short(peer)} cannot be reached by TCP: {reasons}.", hint="QUIC is used where it works."
        )

    @staticmethod
    async def _drop_others(tries: "list[asyncio.Task[TlsConnection | str]]", known: _Peer) -> None:
        for task in tries:
            task.cancel()
        for result in await asyncio.gather(*tries, return_exceptions=True):
            if isinstance(result, TlsConnection) and result not in known.connections:
                result.abort()

    async def _attempt(self, peer: NodeId, known: _Peer, address: Address) -> TlsConnection | str:
        """A connection that is ready, or why there is none."""
        try:
            connection, shown = await self._handshake(address)
        except ssl.SSLError as error:
            return f"{address}: {error.reason or error}"
        except OSError as error:
            return f"{address}: {os.strerror(error.errno) if error.errno else error}"
        except ValueError:
            return f"{address}: no IP address"
        if shown != known.certificate:
            self._counted("wrong key", str(address))
            connection.abort("another node answered")
            return f"{address}: another node answered"
        connection.prove(peer)
        try:
            await connection.until_ready()
        except LinkClosed as error:
            return f"{address}: {error.message}"
        except asyncio.CancelledError:
            connection.abort()
            raise
        known.worked = address
        return connection

    async def _handshake(self, address: Address) -> tuple[TlsConnection, bytes | None]:
        """A connection and the certificate of whoever answered, whose key the handshake has proved."""
        family = socket.AF_INET6 if ipaddress.ip_address(address.host).version == 6 else socket.AF_INET
        loop = asyncio.get_running_loop()
        connection = self._connection(dialled=True)
        dialling = socket.socket(family, socket.SOCK_STREAM)
        try:
            dialling.setblocking(False)
            tcp.prepare(dialling)
            await loop.sock_connect(dialling, (address.host, address.port))
            await loop.sock_sendall(dialling, bytes([self._kind]))
            certificate = await _secured(
                loop.create_connection(
                    lambda: connection,
                    sock=dialling,
                    ssl=self._trust.dialling,
                    server_hostname=self._trust.name,
                    ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                    ssl_shutdown_timeout=SHUTDOWN_SECONDS,
                ),
                dialling,
                connection,
            )
        except BaseException:
            dialling.close()
            raise
        return connection, certificate


async def _secured(
    handshake: Coroutine[Any, Any, tuple[asyncio.Transport, TlsConnection]],
    used: socket.socket,
    connection: TlsConnection,
) -> bytes | None:
    """The certificate that a handshake over the socket `used` has proved.

    A handshake is never cancelled: in its first moment asyncio would lose the connection. Its socket is
    shut down instead, and the end of it waited for.
    """
    task = asyncio.ensure_future(handshake)
    # Whoever waits may be cancelled once more while it waits for the end.
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    try:
        transport, _ = await asyncio.shield(task)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            used.shutdown(socket.SHUT_RDWR)
        await asyncio.wait([task])
        if task.exception() is None:
            connection.abort()
            await connection.lost.wait()
        else:
            await _let_go(used)
        raise
    except OSError:
        await _let_go(used)
        raise
    certificate: bytes | None = transport.get_extra_info("ssl_object").getpeercert(True)
    return certificate


async def _let_go(used: socket.socket) -> None:
    """The transport of a handshake that failed closes its socket at one of the next turns of the loop.

    uvloop may do that without telling the socket object, which would later close the descriptor of another.
    """
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    if type(asyncio.get_running_loop()).__module__.startswith("uvloop"):
        used.detach()


async def _first(
    tries: "list[asyncio.Task[TlsConnection | str]]", seconds: float | None
) -> TlsConnection | None:
    """The first connection that one of the tries gives within `seconds`; None when none does."""
    pending = set(tries)
    while pending:
        done, pending = await asyncio.wait(pending, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if isinstance(connection := task.result(), TlsConnection):
                return connection
        if not done:
            return None
    return None
