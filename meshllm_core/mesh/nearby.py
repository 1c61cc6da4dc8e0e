"""Who says on the local network that it is here: for members to find each other without any address."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from meshllm_core.discovery.mdns_record import Found, mesh_tag
from meshllm_core.errors import DiscoveryError
from meshllm_core.ids import MeshId, NodeId
from meshllm_core.mesh.environment import Environment
from meshllm_core.transport.mdns import Nearby
from meshllm_core.transport.multicast import probe_multicast
from meshllm_core.wire.announcement import Address

WAIT_SECONDS = 2.0
"""So long a machine that is asked for may take to be heard."""

OnFound = Callable[[NodeId, Sequence[Address], bool], None]
"""Node, where it says that it is, and whether it says that it is in the same mesh."""


@dataclass
class Surroundings:
    """mDNS of this node, if it is switched on. `multicast` is None until it was tried."""

    environment: Environment
    on_found: OnFound
    multicast: bool | None = None
    _nearby: Nearby | None = None
    _mesh: MeshId | None = None
    _found: dict[NodeId, Found] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _told: str = ""

    async def start(self, *, mesh: MeshId | None, port: int, addresses: Sequence[str]) -> None:
        """Begins to announce and to listen, or says why that is not possible."""
        if self.environment.options.discovery != "mdns" or self._nearby is not None:
            return
        nearby = Nearby()
        try:
            await nearby.start(
                node=self.environment.key.public,
                mesh=mesh,
                port=port,
                addresses=addresses,
                on_found=self._heard,
                on_lost=self._lost,
            )
        except DiscoveryError as error:
            self._tell(str(error))
            return
        self._nearby = nearby

    async def check_multicast(self, addresses: Sequence[str]) -> None:
        """Tries whether multicast gets through on this machine, and tells if it does not."""
        if self.environment.options.discovery != "mdns" or not addresses:
            return
        self.multicast = await probe_multicast(addresses)
        if self.multicast is False:
            self._tell(
                "Multicast is blocked on this machine (a firewall?): others are not found by themselves. "
                "Joining by invite or QR code works without it."
            )

    async def update(self, addresses: Sequence[str]) -> None:
        """This machine has other addresses now."""
        if self._nearby is not None:
            with contextlib.suppress(DiscoveryError):
                await self._nearby.update(addresses)

    async def set_mesh(self, mesh: MeshId | None) -> None:
        """This node is in that mesh now."""
        self._mesh = mesh
        if self._nearby is not None:
            await self._nearby.set_mesh(mesh)
        # Whoever was heard before counts from now on: a record that stays the same is told only once.
        for found in tuple(self._found.values()) if mesh is not None else ():
            self._pass_on(found)

    async def addresses_of(self, node: NodeId) -> tuple[Address, ...]:
        """Where `node` says that it is; waits a moment for its word. Empty: it said nothing."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while self._nearby is not None and node not in self._found:
                    self._news.clear()
                    await self._news.wait()
        found = self._found.get(node)
        return _addresses(found) if found is not None else ()

    async def close(self) -> None:
        """Takes the record back."""
        if self._nearby is not None:
            nearby, self._nearby = self._nearby, None
            await nearby.close()
        self._found.clear()

    def _heard(self, found: Found) -> None:
        self._found[found.node] = found
        self._news.set()
        self._pass_on(found)

    def _pass_on(self, found: Found) -> None:
        ours = self._mesh is not None and found.mesh_tag == mesh_tag(self._mesh)
        self.on_found(found.node, _addresses(found), ours)

    def _lost(self, node: NodeId) -> None:
        self._found.pop(node, None)

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self.environment.notice("warning", text)


def _addresses(found: Found) -> tuple[Address, ...]:
    return tuple(Address(host, found.port) for host in found.addresses)
