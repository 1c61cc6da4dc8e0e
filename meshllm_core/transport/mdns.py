"""Says on the local network that a node is here, and hears who else says so. The only zeroconf import."""

import asyncio
import contextlib
import ipaddress
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Any

import zeroconf
from zeroconf import IPVersion, ServiceStateChange
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

from meshllm_core import __version__
from meshllm_core.discovery import mdns_record
from meshllm_core.discovery.mdns_record import SERVICE, Found, Neighbours
from meshllm_core.errors import DiscoveryError, WireError
from meshllm_core.ids import MeshId, NodeId

ASK_MILLISECONDS = 3000
"""So long a record whose parts have not all come is waited for."""
LIFETIME = 120
"""Seconds that others keep the record without hearing it again."""
ASKED_AT_ONCE = 64
"""Records that are waited for at the same time; further ones are dropped and come again with their next
announcement."""
CLOSE_SECONDS = 2.0

_log = logging.getLogger(__name__)

OnFound = Callable[[Found], None]
OnLost = Callable[[NodeId], None]


class Nearby:
    """One node's record, and those of its neighbours.

    `on_found` is called for each neighbour and when it says something new, `on_lost` when its record is
    gone; both on the event loop, and never for the node itself.
    """

    def __init__(self) -> None:
        self.malformed = 0
        """Records that were not understood, counted and ignored."""
        self.dropped = 0
        """Records that were not looked at because too many came at once."""
        self._node = NodeId(b"")
        self._mesh: MeshId | None = None
        self._port = 0
        self._addresses: tuple[str, ...] = ()
        self._on_found: OnFound = _ignore
        self._on_lost: OnLost = _ignore
        self._neighbours = Neighbours(self._node)
        self._responder: AsyncZeroconf | None = None
        self._browser: AsyncServiceBrowser | None = None
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()

    async def start(
        self,
        *,
        node: NodeId,
        mesh: MeshId | None,
        port: int,
        addresses: Sequence[str],
        on_found: OnFound,
        on_lost: OnLost,
    ) -> None:
        """Announces `node` at `addresses` (IP) and listens there; without any, waits for `update`.

        Raises DiscoveryError when multicast DNS cannot be used here.
        """
        self._node, self._mesh, self._port = node, mesh, port
        self._on_found, self._on_lost = on_found, on_lost
        self._neighbours = Neighbours(node)
        async with self._turn:
            self._addresses = tuple(addresses)
            await self._open()

    async def update(self, addresses: Sequence[str]) -> None:
        """The node's addresses are others now. Raises DiscoveryError."""
        async with self._turn:
            if set(addresses) != set(self._addresses):
                self._addresses = tuple(addresses)
                await self._shut()
                await self._open()

    async def set_mesh(self, mesh: MeshId | None) -> None:
        """The node is in this mesh now, or in none."""
        async with self._turn:
            if mesh == self._mesh:
                return
            self._mesh = mesh
            if self._responder is not None:
                await (await self._responder.async_update_service(self._info()))

    async def close(self) -> None:
        """Takes the record back, tells the neighbours so, and stops listening."""
        async with self._turn:
            await self._shut()
            self._addresses = ()

    async def _open(self) -> None:
        if not self._addresses:
            return
        try:
            self._responder = _responder(self._addresses)
            await self._responder.zeroconf.async_wait_for_start()
            # The name is the node's key: there is nobody to ask whether it is free, and nothing to wait for.
            announcing = await self._responder.async_register_service(
                self._info(), cooperating_responders=True
            )
            self._browser = AsyncServiceBrowser(self._responder.zeroconf, SERVICE, handlers=[self._on_change])
            await announcing
        except (OSError, zeroconf.Error) as error:
            await self._shut()
            raise DiscoveryError(
                f"Multicast DNS cannot be used on {', '.join(self._addresses)}: {_words(error)}.",
                hint="Join by token or QR code instead, or start with --mesh-discovery-mode off.",
            ) from error

    async def _shut(self) -> None:
        for task in tuple(self._asking.values()):
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        browser, self._browser = self._browser, None
        responder, self._responder = self._responder, None
        if browser is not None:
            await browser.async_cancel()
        if responder is not None:
            with contextlib.suppress(TimeoutError, OSError, zeroconf.Error):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await responder.async_close()

    def _info(self) -> AsyncServiceInfo:
        return AsyncServiceInfo(
            SERVICE,
            mdns_record.instance_name(self._node),
            parsed_addresses=list(self._addresses),
            port=self._port,
            properties=mdns_record.properties(self._node, self._mesh, __version__),
            server=mdns_record.server_name(self._node),
            host_ttl=LIFETIME,
            other_ttl=LIFETIME,
        )

    def _on_change(self, *, name: str, state_change: ServiceStateChange, **_: Any) -> None:
        """Called by the browser, by keyword."""
        if state_change is ServiceStateChange.Removed:
            self._lost(self._neighbours.gone(name))
        elif name in self._asking:
            # What is asked for now takes in everything that comes while it waits.
            return
        elif len(self._asking) >= ASKED_AT_ONCE:
            self.dropped += 1
        else:
            task = asyncio.ensure_future(self._ask(name))
            self._asking[name] = task
            task.add_done_callback(lambda _: self._asking.pop(name, None))

    async def _ask(self, name: str) -> None:
        """Waits for all parts of a record and takes it in."""
        if self._responder is None:
            return
        try:
            info = AsyncServiceInfo(SERVICE, name)
            if not await info.async_request(self._responder.zeroconf, ASK_MILLISECONDS):
                return
            found = mdns_record.parse(info.properties, info.parsed_addresses(IPVersion.All), info.port)
        except (WireError, zeroconf.Error, UnicodeDecodeError) as error:
            self.malformed += 1
            _log.debug("an mDNS record was ignored: %s", error)
            return
        is_news, given_up = self._neighbours.heard(name, found)
        self._lost(given_up)
        if is_news:
            self._on_found(found)

    def _lost(self, node: NodeId | None) -> None:
        if node is not None:
            self._on_lost(node)


def _responder(addresses: Sequence[str]) -> AsyncZeroconf:
    """Listens where the IPv4 addresses are, or, without any, the IPv6 addresses: both hear the same machines.

    Addresses that are not this machine's (any more) are passed over. Raises OSError if there are no others.
    """
    kept = [address for address in addresses if ipaddress.ip_address(address).version == 4]
    version = IPVersion.V4Only if kept else IPVersion.V6Only
    # zeroconf would not give back the sockets that it has when it meets an address that it cannot use.
    refusals = [_refusal(address) for address in kept or addresses]
    usable = [a for a, refusal in zip(kept or addresses, refusals, strict=True) if refusal is None]
    if not usable and refusals[0] is not None:
        raise refusals[0]
    return AsyncZeroconf(interfaces=usable, ip_version=version)


def _refusal(address: str) -> OSError | None:
    """Why no packet can be sent from there; None if one can."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as tried:
            tried.bind((address, 0))
    except OSError as error:
        return error
    return None


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _ignore(_: object) -> None:
    """Before `start` there is nobody to tell."""
