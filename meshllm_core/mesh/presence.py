"""Where others can reach this node, and whether they do: its addresses, looked at again and again."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meshllm_core.mesh.environment import Environment
from meshllm_core.mesh.peer_link import PeerLink
from meshllm_core.mesh.reach import Reach
from meshllm_core.mesh.runtime import Mesh
from meshllm_core.state.mesh_events import AddressesChanged, ReachMeasured
from meshllm_core.wire.announcement import Address

REACH_SECONDS = 120.0
REACH_RETRY_SECONDS = 10.0


@dataclass
class Presence:
    """Keeps `mesh.me.addresses` true."""

    environment: Environment
    mesh: Mesh
    on_addresses: Callable[[Sequence[Address]], None]
    takes: Callable[[str], bool]
    """Whether the node listens on that address of the machine."""
    _reach_due: float = 0.0
    _left_out: tuple[str, ...] | None = None
    _asking: "asyncio.Task[Reach] | None" = None

    def stop(self) -> None:
        """No more questions."""
        if self._asking is not None:
            self._asking.cancel()

    def refresh(self) -> None:
        """Looks at the interfaces; a change is announced at once."""
        used, left_out = self.environment.interfaces(self.environment.options.bind_ip)
        addresses = tuple(
            Address(interface.address, self.mesh.transport.port)
            for interface in used
            if self.takes(interface.address)
        )
        left = tuple(entry.sentence for entry in left_out)
        me = self.mesh.me
        if addresses != me.addresses or left != self._left_out:
            changed = addresses != me.addresses
            me.addresses, self._left_out = addresses, left
            self._tell_addresses()
            if changed:
                self._reach_due = 0.0
                self.on_addresses(addresses)
                self.mesh.dialler.hurry()
                self.mesh.announce()

    def _tell_addresses(self) -> None:
        env = self.environment
        told = tuple(map(str, self.mesh.me.addresses))
        env.append(AddressesChanged(at=env.clock.time(), addresses=told, left_out=self._left_out or ()))

    def measure(self, now: float) -> None:
        if now < self._reach_due or not self.mesh.links or not self.mesh.me.addresses:
            return
        link = min(self.mesh.links.values(), key=lambda link: link.since)
        self._reach_due = now + REACH_RETRY_SECONDS
        self._asking = asyncio.create_task(self._ask_reach(link), name="reach")

    async def first_reach(self) -> Reach | None:
        """What the first member that is asked says; None without a link."""
        if self._asking is None:
            self.measure(self.environment.clock.monotonic())
        return None if self._asking is None else await asyncio.shield(self._asking)

    async def _ask_reach(self, link: PeerLink) -> Reach:
        env, announcer = self.environment, self.mesh.announcer
        reach = await self.mesh.reach.measure(link, self.mesh.me.addresses)
        if reach.udp is None:
            return reach
        self._reach_due = env.clock.monotonic() + REACH_SECONDS
        if (reach.udp, reach.tcp) != (announcer.accepts_udp, announcer.accepts_tcp):
            announcer.accepts_udp, announcer.accepts_tcp = reach.udp, reach.tcp
            self.mesh.announce()
        env.append(ReachMeasured(at=env.clock.time(), accepts_udp=reach.udp, accepts_tcp=reach.tcp))
        return reach
