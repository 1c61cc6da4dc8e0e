"""The mesh as splits see it: who could take a stage, how far apart they are, and how to reach them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from meshllm_core import __version__
from meshllm_core.discovery.text import clean_text
from meshllm_core.errors import PeerUnreachable
from meshllm_core.ids import NodeId
from meshllm_core.models.memory import read_memory
from meshllm_core.node.split_plan import CPU, Machine
from meshllm_core.node.stage_desk import StageDesk
from meshllm_core.state.pace_events import Pace, PaceSource
from meshllm_core.transport.link import Channel, ChannelKind
from meshllm_core.wire.announcement import PAUSED, Announcement

if TYPE_CHECKING:
    from meshllm_core.mesh.session import Session

SETTLE_SECONDS, SETTLE_STEPS = 0.7, 6
"""Round trips count once they have not changed for the first, and in any case after so many of it."""


@dataclass
class MeshOfSplits:
    """Implements node.split_seam.SplitMesh; `session` is None while the node is in no mesh."""

    name: str
    session: "Callable[[], Session | None]"
    memory_usable: Callable[[], int]
    pace: Callable[[], Pace]
    kind: Callable[[], str]
    """Of the device that stages here compute on."""
    node: Callable[[], NodeId]
    desk: StageDesk
    gather_certificates: Callable[[], Awaitable[None]]
    """Fetches what others measured of codecs."""

    @property
    def me(self) -> NodeId:
        """This node."""
        return self.node()

    def machines(self) -> Sequence[Machine]:
        """Members that are alive, this node last. Names are made unique: they name machines in a plan."""
        session = self.session()
        found: list[Machine] = []
        if session is not None:
            for node, state in session.mesh.gossip.peers.items():
                said = state.announcement
                if said is None or state.status not in ("alive", "suspect"):
                    continue
                found.append(
                    Machine(
                        node,
                        session.peers.name(node),
                        said.memory_free,
                        said.memory_lent,
                        self._obstacle(node, state.status, said),
                        _pace(said),
                        said.devices[0].kind if said.devices else CPU,
                    )
                )
        names = [machine.name for machine in found] + [self.name]
        unique = [
            machine
            if names.count(machine.name) == 1
            else replace(machine, name=f"{machine.name} {machine.node.hex()[:6]}")
            for machine in found
        ]
        own = read_memory().available, self.memory_usable()
        return [*unique, Machine(self.me, self.name, *own, pace=self.pace(), kind=self.kind())]

    def away(self) -> Sequence[str]:
        """Names of members that are not there and have not left."""
        session = self.session()
        if session is None:
            return ()
        down = [node for node, state in session.mesh.gossip.peers.items() if state.status == "down"]
        return [session.peers.name(node) for node in down if session.roster.membership(node) is not None]

    def servers(self, model: str) -> Sequence[str]:
        """Names of members that answer for a model of that name now."""
        session = self.session()
        if session is None:
            return ()
        return [
            session.peers.name(node)
            for node, state in session.mesh.gossip.peers.items()
            if state.announcement is not None
            and state.status == "alive"
            and any(offer.name == model and offer.status == "ready" for offer in state.announcement.models)
        ]

    def _obstacle(self, node: NodeId, status: str, said: Announcement) -> str:
        session = self.session()
        if status == "suspect":
            return "it does not answer at the moment"
        if said.role != "host":
            return "it is a client: it computes for nobody"
        if session is None or node not in session.mesh.links:
            return "there is no path to it from here"
        if said.version != __version__:
            return (
                f"it runs meshllm {clean_text(said.version, 32)}, this node {__version__}: stages may differ"
            )
        if PAUSED in said.capabilities:
            return "its owner paused lending"
        return "" if said.memory_lent else "it lends no memory"

    def links(self) -> dict[tuple[str, str], float]:
        """RTT in ms by names: this node's own, and what the others announced."""
        session = self.session()
        if session is None:
            return {}
        machines = {machine.node: machine.name for machine in self.machines()}
        prefixes = {node[:8]: name for node, name in machines.items()}
        trips: dict[tuple[str, str], float] = {}
        for node, state in session.mesh.gossip.peers.items():
            if node not in machines:
                continue
            if state.round_trip and node in session.mesh.links:
                trips[machines[self.me], machines[node]] = state.round_trip * 1000
            for trip in state.announcement.round_trips if state.announcement else ():
                other = prefixes.get(trip.peer)
                if other is not None and other != machines[node]:
                    trips.setdefault((machines[node], other), trip.microseconds / 1000)
        # Both sides measure; the longer time waited for a busy machine.
        return {(a, b): min(trip, trips.get((b, a), trip)) for (a, b), trip in trips.items()}

    async def settled_links(self) -> dict[tuple[str, str], float]:
        """The same once they hold still: over a new link the first round trips wait for busy machines."""
        links = self.links()
        for _ in range(SETTLE_STEPS):
            await asyncio.sleep(SETTLE_SECONDS)
            before, links = links, self.links()
            if links == before:
                break
        return links

    async def open_call(self, node: NodeId) -> Channel:
        """A CALL channel to that node. Raises PeerUnreachable, LinkClosed."""
        return await self._open(node, ChannelKind.CALL)

    async def open_transfer(self, node: NodeId) -> Channel:
        """A TRANSFER channel to that node. Raises PeerUnreachable, LinkClosed."""
        return await self._open(node, ChannelKind.TRANSFER)

    async def _open(self, node: NodeId, kind: ChannelKind) -> Channel:
        session = self.session()
        if session is None:
            raise PeerUnreachable("This node is in no mesh any more.")
        return await session.mesh.link_to(node).greeted.link.open(kind)


def _pace(said: Announcement) -> Pace:
    source: PaceSource = "calibrated" if said.calibrated else "measured" if said.weights_per_second else ""
    return Pace(decode=said.weights_per_second, prefill=said.prefill_per_second, source=source)
