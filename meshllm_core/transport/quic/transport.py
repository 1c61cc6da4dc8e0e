"""The transport: dials nodes by their key and takes the connections of others, on one UDP port."""

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial
from time import monotonic

from aioquic.quic.packet import QuicHeader, QuicProtocolVersion, encode_quic_retry

from meshllm_core.errors import PeerUnreachable
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import NodeId
from meshllm_core.transport.certificate import make_certificate
from meshllm_core.transport.link import Channel, OnLink
from meshllm_core.transport.quic import path as paths
from meshllm_core.transport.quic.driver import Driver
from meshllm_core.transport.quic.ending import REFUSED, no_answer, no_route
from meshllm_core.transport.quic.endpoint import CONNECTION_ID, Endpoint, bind
from meshllm_core.transport.quic.link import QuicLink
from meshllm_core.transport.quic.names import path_to
from meshllm_core.transport.quic.path import Path
from meshllm_core.transport.quic.private import MeshConnection, configuration
from meshllm_core.transport.quic.retry import RetryTokens
from meshllm_core.transport.quic.side import SideChannels
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Address

log = logging.getLogger(__name__)


def _no_knock(nonce: bytes) -> None:
    """Nobody waits for one."""


class QuicTransport:
    """See `transport.link.Transport`."""

    def __init__(
        self, key: SigningKey, on_link: OnLink, tls: SideChannels | None, counted: Callable[[str, str], None]
    ) -> None:
        self.on_knock: Callable[[bytes], None] = _no_knock
        self.port = 0
        certificate = make_certificate(key)
        self.certificate = certificate
        """This node's (DER)."""
        self._listening = configuration(key, certificate, is_client=False)
        self._dialling = configuration(key, certificate, is_client=True)
        self._tokens = RetryTokens(os.urandom(32))
        self._on_link = on_link
        self._tls = tls
        self._counted = counted
        self._endpoint: Endpoint
        self._strangers: dict[QuicLink, asyncio.TimerHandle] = {}
        """Links that came in and are not admitted, oldest first, with what ends them if they stay silent."""
        self._links: dict[QuicLink, Driver] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @staticmethod
    async def start(
        key: SigningKey,
        *,
        host: str = "0.0.0.0",
        port: int = 0,
        on_link: OnLink,
        tls: SideChannels | None = None,
        counted: Callable[[str, str], None],
    ) -> "QuicTransport":
        """Listens on UDP. `host` is an IP address: IPv4 by default, `::` for IPv4 and IPv6 together.

        `counted(kind, detail)` is called for all that is refused. Raises PortTaken, NodeError.
        """
        # aioquic logs what peers send, at level warning.
        logging.getLogger("quic").setLevel(logging.ERROR)
        transport = QuicTransport(key, on_link, tls, counted)
        sock = bind(host, port)
        transport.port = sock.getsockname()[1]
        transport._endpoint = Endpoint(
            sock,
            accept=transport._accept,
            counted=counted,
            on_knock=lambda nonce: transport.on_knock(nonce),
        )
        await transport._endpoint.open()
        if tls is not None:
            tls.on_channel = transport._deliver
        return transport

    @property
    def half_open(self) -> int:
        """Connections that came in and are not admitted."""
        return len(self._strangers)

    async def dial(self, peer: NodeId, address: Address, *, timeout: float) -> QuicLink:
        """A link to `peer`, and to nobody else, within `timeout` seconds.

        Raises PeerUnreachable; ProofInvalid when another node answers, or refuses this one's proof.
        """
        if self._closed:
            raise PeerUnreachable("The node is stopping.")
        path = path_to(address, self._endpoint.family)
        if len(self._links) >= limits.LINKS:
            raise PeerUnreachable(f"This node has {limits.LINKS} links already.")
        quic = MeshConnection(self._dialling, expected=peer)
        driver, link = self._make(quic, path, dialled=True)
        try:
            driver.connect()
            if self._endpoint.trouble:
                raise no_route(peer, address, self._endpoint.trouble)
            await asyncio.wait_for(asyncio.shield(link.ready), timeout)
        except TimeoutError:
            raise no_answer(peer, address, timeout) from None
        finally:
            if not link.up:
                driver.close("the dial was given up")
                self._remove(link)
        return link

    async def knock(self, address: Address, nonce: bytes) -> None:
        """Sends one packet with an 8-byte nonce from a fresh port. Raises PeerUnreachable."""
        host = self._endpoint.sock.getsockname()[0]
        path = path_to(address, self._endpoint.family)
        with bind(host, 0) as sock:
            try:
                sock.sendto(bytes([paths.KNOCK]) + nonce, path)
            except OSError as error:
                raise PeerUnreachable(f"No packet can be sent to {address}: {error.strerror}.") from None

    async def close(self) -> None:
        """Closes all links and the socket."""
        self._closed = True
        for link in tuple(self._links):
            link.close("the node stops")
        for driver in tuple(self._endpoint.drivers):
            driver.abandon()
        self._endpoint.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Connections that come in.

    def _accept(self, data: bytes, path: Path, header: QuicHeader) -> Driver | None:
        if self._closed:
            return None
        given = header.destination_cid
        original = self._tokens.original(header.token, path, given, monotonic()) if header.token else None
        if original is None and len(self._strangers) >= limits.HANDSHAKES // 2:
            self._ask_again(path, header)
            return None
        quic = MeshConnection(
            self._listening, original=original or given, retried=None if original is None else given
        )
        driver, link = self._make(quic, path, dialled=False)
        self._endpoint.learn(given, driver)
        driver.feed(data)
        if not quic.started or driver.gone:
            # Nothing in it could be decrypted, so there is nobody to talk to.
            if not driver.gone:
                self._counted("malformed", f"a first packet from {path[0]}")
                driver.abandon()
            self._remove(link)
            return None
        if len(self._links) > limits.LINKS:
            self._counted("too many links", path[0])
            driver.close("this node has all the links it can hold", code=REFUSED, frame_type=0)
            return None
        if len(self._strangers) >= limits.HANDSHAKES:
            oldest = next(iter(self._strangers))
            self._counted("half open", f"{oldest.address}: pushed out by newer ones")
            self._links[oldest].close("too many others wait to be admitted", code=REFUSED, frame_type=0)
        self._watch(link, "the handshake was not completed")
        return driver

    def _ask_again(self, path: Path, header: QuicHeader) -> None:
        given = os.urandom(CONNECTION_ID)
        token = self._tokens.make(path, header.destination_cid, given, monotonic())
        answer = encode_quic_retry(
            version=QuicProtocolVersion.VERSION_1,
            source_cid=given,
            destination_cid=header.source_cid,
            original_destination_cid=header.destination_cid,
            retry_token=token,
        )
        self._endpoint.send(answer, path)

    def _watch(self, link: QuicLink, why: str) -> None:
        if (timer := self._strangers.get(link)) is not None:
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._strangers[link] = loop.call_later(limits.HANDSHAKE_SECONDS, self._expire, link, why)

    def _expire(self, link: QuicLink, why: str) -> None:
        if link.up and not link.idle:
            # Whether and when it is admitted is for the mesh to say.
            return
        self._counted("half open", f"{link.address}: {why}")
        self._links[link].close(why, code=REFUSED, frame_type=0)

    # All connections.

    def _make(self, quic: MeshConnection, path: Path, *, dialled: bool) -> tuple[Driver, QuicLink]:
        driver = Driver(quic, self._endpoint, path)
        link = QuicLink(
            driver, dialled=dialled, side=self._tls, counted=self._counted, on_change=self._changed
        )
        self._links[link] = driver
        return driver, link

    def _changed(self, link: QuicLink) -> None:
        """A link came up, was admitted, or ended."""
        if link.over:
            self._remove(link)
        elif link.admitted:
            self._unwatch(link)
        elif not link.dialled:
            self._watch(link, "no control channel was opened")
            task = asyncio.get_running_loop().create_task(self._serve(link), name=f"link from {link.address}")
            self._tasks.add(task)
            task.add_done_callback(partial(self._served, link))

    async def _serve(self, link: QuicLink) -> None:
        await self._on_link(link)

    def _served(self, link: QuicLink, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("What served the link from %s failed", link.address, exc_info=error)
            link.close("an error on the other side")

    def _unwatch(self, link: QuicLink) -> None:
        if (timer := self._strangers.pop(link, None)) is not None:
            timer.cancel()

    def _remove(self, link: QuicLink) -> None:
        self._unwatch(link)
        if self._links.pop(link, None) is None or self._tls is None or not link.admitted:
            return
        if not any(other.admitted and other.peer == link.peer for other in self._links):
            self._tls.forbid(link.peer)

    def _deliver(self, peer: NodeId, channel: Channel) -> None:
        """A TLS channel, to the newest link of its peer."""
        for link in reversed(self._links):
            if link.admitted and link.peer == peer:
                link.deliver(channel)
                return
        self._counted("not admitted", f"a TLS channel of {peer.hex()[:10]}")
        channel.abort()
