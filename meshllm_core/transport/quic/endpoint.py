"""One UDP socket that listens and dials: packets in, in batches, each to its connection."""

import asyncio
import contextlib
import errno
import socket
import time
from collections.abc import Callable
from typing import cast

from aioquic.quic.packet import QuicHeader, QuicPacketType, QuicProtocolVersion

from meshllm_core.errors import NodeError, PortTaken
from meshllm_core.transport.quic import path as paths
from meshllm_core.transport.quic.driver import Driver
from meshllm_core.transport.quic.names import plain
from meshllm_core.transport.quic.path import Path
from meshllm_core.transport.quic.private import header_of

BATCH = 64
"""Datagrams that are read before anything else gets its turn."""
SOCKET_BYTES = 4 << 20
"""Asked of the system for each direction; it may give less, or refuse."""
LARGEST = 2048
"""Of a datagram; ours have 1,200. A longer one is cut, and then proves nothing."""
INITIAL_BYTES = 1200
"""A first packet comes padded to this, or is not one."""
CONNECTION_ID = 8
ENDING = 64
"""Connections that are over and are still kept for late packets; the oldest goes when one more comes."""
KNOCKS = 20
"""Knocks per second that are passed on."""


class Endpoint(asyncio.DatagramProtocol):
    """The socket and its tables. `accept` is given the first packet of a connection that comes in."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        accept: Callable[[bytes, Path, QuicHeader], Driver | None],
        counted: Callable[[str, str], None],
        on_knock: Callable[[bytes], None],
    ) -> None:
        self.sock = sock
        self.family = sock.family
        self.drivers: set[Driver] = set()
        self.trouble = ""
        """What the system said when a datagram could last not be sent; empty when it could."""
        self._accept = accept
        self._counted = counted
        self._on_knock = on_knock
        self._ids: dict[bytes, Driver] = {}
        self._ids_of: dict[Driver, set[bytes]] = {}
        self._tags: dict[bytes, Driver] = {}
        self._ending: dict[Driver, None] = {}
        self._knocks = 0
        self._knock_second = 0
        self._transport: asyncio.DatagramTransport | None = None
        self._reading = False

    async def open(self) -> None:
        """Starts to read."""
        loop = asyncio.get_running_loop()
        try:
            loop.add_reader(self.sock.fileno(), self._drain)
            self._reading = True
        except NotImplementedError:
            # Windows' own loop; it cannot watch a socket.
            self._transport, _ = await loop.create_datagram_endpoint(lambda: self, sock=self.sock)

    def close(self) -> None:
        """Stops reading and closes the socket."""
        if self._transport is not None:
            self._transport.close()
        elif self._reading:
            asyncio.get_running_loop().remove_reader(self.sock.fileno())
            self.sock.close()
        self._reading = False

    # What drivers call.

    def send(self, data: bytes, path: Path) -> None:
        """Sends a datagram; a full socket or no route counts as loss."""
        try:
            if self._transport is not None:
                self._transport.sendto(data, path)
            else:
                self.sock.sendto(data, path)
            self.trouble = ""
        except BlockingIOError:
            pass
        except OSError as error:
            self.trouble = error.strerror or str(error)

    def learn(self, connection_id: bytes, driver: Driver) -> None:
        """Packets with this connection id are for `driver`."""
        self.drivers.add(driver)
        self._ids[connection_id] = driver
        self._ids_of.setdefault(driver, set()).add(connection_id)

    def unlearn(self, connection_id: bytes) -> None:
        """No longer."""
        driver = self._ids.pop(connection_id, None)
        if driver is not None:
            self._ids_of[driver].discard(connection_id)

    def follow(self, tag: bytes, driver: Driver) -> None:
        """Path packets with this tag are for `driver`."""
        self._tags[tag] = driver

    def ending(self, driver: Driver) -> None:
        """The connection is over, and still answers packets that come late, unless too many do."""
        self._ending[driver] = None
        if len(self._ending) > ENDING:
            next(iter(self._ending)).abandon()

    def gone(self, driver: Driver) -> None:
        """Nothing more of this connection will be used."""
        self.drivers.discard(driver)
        self._ending.pop(driver, None)
        for connection_id in self._ids_of.pop(driver, ()):
            self._ids.pop(connection_id, None)
        if driver.proof is not None:
            self._tags.pop(driver.proof.tag, None)

    # What comes in.

    def datagram_received(self, data: bytes, addr: tuple[str | None, int]) -> None:
        """One datagram, where there is no reading in batches."""
        driver = self._take(data, cast(Path, addr))
        if driver is not None:
            driver.settle()

    def error_received(self, exc: Exception) -> None:
        """Nobody listens where something was sent: the dial will find out."""
        self.trouble = str(exc)

    def _drain(self) -> None:
        touched: dict[Driver, None] = {}
        for _ in range(BATCH):
            try:
                data, addr = self.sock.recvfrom(LARGEST)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                continue
            driver = self._take(data, addr)
            if driver is not None:
                touched[driver] = None
        for driver in touched:
            driver.settle()

    def _take(self, data: bytes, addr: Path) -> Driver | None:
        """Gives a datagram to its connection; returns that if it is to be settled."""
        if not data:
            return None
        path = plain(addr)
        if data[0] < paths.CONTROL_BELOW:
            self._control(data, path)
            return None
        driver = self._ids.get(data[1 : 1 + CONNECTION_ID]) if data[0] < 0x80 else self._by_header(data, path)
        if driver is None:
            return None
        if path != driver.path:
            if driver.proof is None and not driver.quic.configuration.is_client:
                # Counted as received, it would let somebody have us send to an address that is not his.
                self._counted(
                    "half open", f"a packet from {path[0]}, the first one was from {driver.path[0]}"
                )
                return None
            driver.elsewhere(path)
        driver.feed(data)
        return driver

    def _by_header(self, data: bytes, path: Path) -> Driver | None:
        try:
            header = header_of(data, CONNECTION_ID)
        except ValueError:
            self._counted("malformed", f"a datagram from {path[0]}")
            return None
        driver = self._ids.get(header.destination_cid)
        if driver is not None:
            return driver
        if (
            header.packet_type is not QuicPacketType.INITIAL
            or header.version != QuicProtocolVersion.VERSION_1
            or len(data) < INITIAL_BYTES
            or len(header.destination_cid) < CONNECTION_ID
        ):
            self._counted("malformed", f"a datagram from {path[0]}")
            return None
        return self._accept(data, path, header)

    def _control(self, data: bytes, path: Path) -> None:
        if data[0] == paths.KNOCK and len(data) == 1 + paths.NONCE_BYTES:
            self._knocked(data[1:], path)
            return
        tag = paths.tag_of(data)
        driver = self._tags.get(tag) if tag is not None else None
        if driver is None or not driver.control(data, path):
            self._counted("malformed", f"a path packet from {path[0]}")

    def _knocked(self, nonce: bytes, path: Path) -> None:
        second = int(time.monotonic())
        if second != self._knock_second:
            self._knock_second, self._knocks = second, 0
        self._knocks += 1
        if self._knocks > KNOCKS:
            self._counted("too many knocks", path[0])
        else:
            self._on_knock(nonce)


def bind(host: str, port: int) -> socket.socket:
    """A UDP socket; `::` takes IPv4 and IPv6. Raises PortTaken, NodeError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, option, SOCKET_BYTES)
        sock.setblocking(False)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(
                f"UDP port {port} is in use by another program.", hint="Choose another with --bind-port."
            ) from None
        raise NodeError(
            f"UDP port {port} on {host} cannot be opened: {error.strerror}.", hint="Check --bind-ip."
        ) from None
    return sock
