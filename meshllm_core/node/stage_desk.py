"""Where calls about stages arrive: offers of coordinators, channels of units, and files that were offered."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from meshllm_core.engine.chain import form_of
from meshllm_core.errors import LinkClosed, MeshError, WireError
from meshllm_core.ids import NodeId, short
from meshllm_core.node.stage_host import StageHost, Surroundings
from meshllm_core.node.stage_pump import take_units
from meshllm_core.serve import stage_calls as sc
from meshllm_core.transport.link import Channel

log = logging.getLogger(__name__)

STAGES = 16
"""Stages that this node computes for others at the same time."""
UNIT_OVERHEAD = 4096


@dataclass
class DriverEnd:
    """The last stage of a run that this node coordinates."""

    index: int
    upstream: NodeId
    accept: Callable[[bytes], None]
    on_lost: Callable[[str], None]
    unit_limit: int


@dataclass
class StageDesk:
    """One per node."""

    around: Surroundings
    counted: Callable[[str, str], None]
    hosts: dict[int, StageHost] = field(default_factory=dict)
    drivers: dict[int, DriverEnd] = field(default_factory=dict)
    files: dict[str, tuple[Path, set[NodeId]]] = field(default_factory=dict)
    """By SHA-256: the file, and who may fetch it."""

    async def answer(self, peer: NodeId, name: str, channel: Channel, first: bytes) -> None:
        """Takes one call. Raises nothing but cancellation."""
        try:
            message = sc.decode(first)
            match message:
                case sc.Offer():
                    await self._host(peer, name, channel, message)
                case sc.Attach():
                    await self._attach(peer, channel, message)
                case _:
                    raise WireError("A call about a stage began with something else than an offer.")
        except WireError as error:
            self.counted("malformed", f"node {short(peer)}: {error.message}")
        except LinkClosed:
            log.info("node %s ended a call about a stage", short(peer))
        finally:
            channel.abort()

    async def _host(self, peer: NodeId, name: str, channel: Channel, offer: sc.Offer) -> None:
        if text := self._refusal(offer):
            self.counted("stage refused", f"node {short(peer)}: {text}")
            await channel.send(sc.encode(sc.Progress(state="failed", text=text)))
            await channel.finish()
            return
        host = StageHost(self.around, channel, peer, name, offer)
        self.hosts[offer.run] = host
        try:
            reason = await host.run()
            log.info("stage %d of %s for %s ended: %s", offer.index, offer.model, name, reason)
        finally:
            del self.hosts[offer.run]

    def _refusal(self, offer: sc.Offer) -> str:
        """Why an offer is not even looked at; empty if it is."""
        if why := self.around.closed():
            return why
        if len(self.hosts) >= STAGES:
            return f"{STAGES} stages are computed here already."
        if offer.run in self.hosts:
            return "A stage of that run is computed here already."
        chain = offer.chain
        if chain.role != "stage" or chain.run != offer.run or not offer.index < offer.stages - 1:
            return "The offer contradicts itself: who drives a chain computes its last stage."
        if not offer.start < offer.end <= chain.layers:
            return f"There are no layers {offer.start} to {offer.end - 1} in {chain.layers}."
        if not offer.file_sha256 and not (offer.package and offer.source):
            return "The offer names neither a file nor a package."
        if offer.context != chain.positions or offer.lanes + offer.prefix_slots != chain.sequences:
            return "The offer contradicts itself about its lanes and their context."
        try:
            form_of(chain)
        except MeshError as error:
            return error.message
        return ""

    async def _attach(self, peer: NodeId, channel: Channel, message: sc.Attach) -> None:
        host, driver = self.hosts.get(message.run), self.drivers.get(message.run)
        if host is not None and host.offer.index == message.index and host.offer.upstream == peer:
            await take_units(channel, host.accept, form_of(host.offer.chain).frame_bytes + UNIT_OVERHEAD)
        elif driver is not None and driver.index == message.index and driver.upstream == peer:
            driver.on_lost(await take_units(channel, driver.accept, driver.unit_limit))
        else:
            self.counted("not the upstream", f"node {short(peer)} sent units that nobody asked it for")

    def lookup(self, peer: NodeId) -> Callable[[str], Path | None]:
        """Which files a peer may fetch: those of stages that were offered to it."""

        def find(file_id: str) -> Path | None:
            found = self.files.get(file_id)
            return found[0] if found is not None and peer in found[1] else None

        return find

    @property
    def memory_held(self) -> int:
        """Bytes that hosted stages take of what this node lends."""
        return sum(host.held for host in self.hosts.values())
