"""Transports that reach each other inside one process, over an air that delays, jitters, loses and parts.

Like a real one, a link is ordered per channel and reliable: what is lost comes later, as after a
retransmission. A link through which nothing comes for `idle_timeout` seconds ends. For tests, with
`virtual_clock` or with real time; the same rules of admission and of back-pressure as over QUIC.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from meshllm_core.errors import PeerUnreachable, ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import NodeId, short
from meshllm_core.transport.link import Clock, OnLink
from meshllm_core.transport.memory_link import MemoryLink
from meshllm_core.wire.announcement import Address

RETRANSMIT_SECONDS = 0.2
PORT = 9447


@dataclass
class _Frozen:
    since: float
    wall: float


class MemoryNetwork:
    """Where the transports live."""

    def __init__(
        self,
        clock: Clock,
        random: Callable[[], float],
        *,
        delay: float = 0.001,
        jitter: float = 0.0,
        loss: float = 0.0,
        idle_timeout: float = 10.0,
    ) -> None:
        """`delay` and `jitter` in seconds one way; `loss` is the share of frames that come later.

        `random` gives 0 up to 1. All of them may be changed at any time.
        """
        self.delay, self.jitter, self.loss, self.idle_timeout = delay, jitter, loss, idle_timeout
        self._clock = clock
        self._random = random
        self._transports: dict[tuple[str, int], MemoryTransport] = {}
        self._sides: dict[NodeId, int] = {}
        self._blocked: set[tuple[NodeId, NodeId]] = set()
        self._frozen: dict[NodeId, _Frozen] = {}

    def transport(self, key: SigningKey, on_link: OnLink) -> "MemoryTransport":
        """A node's transport, at an address of its own."""
        number = len(self._transports) + 1
        address = Address(f"10.77.{number // 250}.{number % 250 + 1}", PORT)
        transport = MemoryTransport(self, key.public, address, on_link)
        self._transports[address.host, address.port] = transport
        return transport

    def clock(self, node: NodeId) -> Clock:
        """A node's own clock: it stands still while the node is frozen, so that nothing of it falls due."""
        return _NodeClock(self._clock, self._frozen, node)

    # Trouble --------------------------------------------------------------------------------------

    def part(self, *sides: Iterable[NodeId]) -> None:
        """From now on nothing passes between nodes of different sides; those not named are a side, too."""
        self._sides = {node: number for number, side in enumerate(sides, 1) for node in side}
        self._changed()

    def heal(self) -> None:
        """Ends partition and blocks."""
        self._sides.clear()
        self._blocked.clear()
        self._changed()

    def block(self, sender: NodeId, receiver: NodeId) -> None:
        """Nothing passes from one to the other; the way back is free."""
        self._blocked.add((sender, receiver))
        self._changed()

    def unblock(self, sender: NodeId, receiver: NodeId) -> None:
        """Ends a block."""
        self._blocked.discard((sender, receiver))
        self._changed()

    def freeze(self, node: NodeId) -> None:
        """As by SIGSTOP: nothing comes from the node, nothing reaches it, and its `clock` stands still."""
        self._frozen[node] = _Frozen(self._clock.monotonic(), self._clock.time())
        self._changed()

    def thaw(self, node: NodeId) -> None:
        """As by SIGCONT. Links of the node that were silent for too long meanwhile are dead to it."""
        since = self._frozen.pop(node).since
        if self._clock.monotonic() - since >= self.idle_timeout:
            for link in self._links():
                if link.other is not None and link.other.peer == node:
                    link.end("Nothing came for too long.")
        self._changed()

    def kill(self, node: NodeId) -> None:
        """As by SIGKILL: the node's transport is gone and nobody is told; what it sent still arrives."""
        for transport in [t for t in self._transports.values() if t.node == node]:
            transport.vanish()
        self._changed()

    def passes(self, sender: NodeId, receiver: NodeId) -> bool:
        """Whether anything gets from one node to the other now."""
        return (
            self._sides.get(sender) == self._sides.get(receiver)
            and (sender, receiver) not in self._blocked
            and sender not in self._frozen
            and receiver not in self._frozen
            and self._is_there(receiver)
        )

    def lateness(self) -> float:
        """Seconds that the next frame takes, its retransmissions included."""
        late, again = self.delay + self.jitter * self._random(), RETRANSMIT_SECONDS
        while self.loss and self._random() < self.loss:
            late, again = late + again, again * 2
        return late

    @property
    def round_trip(self) -> float:
        """Seconds, about."""
        return 2 * self.delay + self.jitter

    # For transports -------------------------------------------------------------------------------

    def at(self, address: Address) -> "MemoryTransport | None":
        """Who listens there."""
        return self._transports.get((address.host, address.port))

    def _is_there(self, node: NodeId) -> bool:
        return any(t.node == node and not t.gone for t in self._transports.values())

    def _links(self) -> list[MemoryLink]:
        return [link for transport in self._transports.values() for link in transport.links]

    def _changed(self) -> None:
        """Something opened or closed: free what was held, and watch what has become silent."""
        loop = asyncio.get_running_loop()
        for link in self._links():
            if not link.is_open or link.other is None:
                continue
            link.release()
            if link.other.is_open and self.passes(link.peer, link.other.peer):
                link.silent_since = None
            elif link.silent_since is None:
                link.silent_since = loop.time()
                loop.call_later(self.idle_timeout, self._silent, link, link.silent_since)

    def _silent(self, link: MemoryLink, since: float) -> None:
        if link.silent_since == since and link.other is not None and link.other.peer not in self._frozen:
            link.end("Nothing came for too long.")
            self._changed()


class MemoryTransport:
    """See `transport.link.Transport`."""

    def __init__(self, network: MemoryNetwork, node: NodeId, address: Address, on_link: OnLink) -> None:
        self.node = node
        self.address = address
        self.port = address.port
        self.gone = False
        self.on_knock: Callable[[bytes], None] = lambda nonce: None
        self.links: list[MemoryLink] = []
        self._network = network
        self._on_link = on_link
        self._tasks: set[asyncio.Task[None]] = set()

    async def dial(self, peer: NodeId, address: Address, *, timeout: float) -> MemoryLink:
        """A link to `peer`. Raises PeerUnreachable; ProofInvalid for another key."""
        network = self._network
        there = network.at(address)
        took = network.lateness() + network.lateness()
        free = (
            there is not None
            and network.passes(self.node, there.node)
            and network.passes(there.node, self.node)
        )
        if self.gone or there is None or not free or took > timeout:
            await asyncio.sleep(timeout)
            raise PeerUnreachable(
                f"Node {short(peer)} did not answer at {address} within {timeout:g} s.",
                hint="Is meshllm running there, and does its firewall let UDP through?",
            )
        await asyncio.sleep(took)
        if there.node != peer:
            raise ProofInvalid(
                f"Node {short(there.node)} answered at {address}, not {short(peer)}.", reason="wrong_key"
            )
        mine = MemoryLink(network, self.node, peer, address, dialled=True)
        theirs = MemoryLink(network, peer, self.node, self.address, dialled=False)
        mine.other, theirs.other = theirs, mine
        self._keep(mine)
        there.take(theirs)
        return mine

    async def close(self) -> None:
        """Closes all links; what they say goodbye with is on its way."""
        for link in self.links:
            link.close("the node stopped")
        await asyncio.sleep(0)
        self.gone = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def knock(self, address: Address, nonce: bytes) -> None:
        """Sends one packet; it may be lost."""
        network = self._network
        there = network.at(address)
        if there is not None and network.passes(self.node, there.node):
            asyncio.get_running_loop().call_later(network.lateness(), lambda: there.on_knock(nonce))

    def take(self, link: MemoryLink) -> None:
        """A connection came in."""
        self._keep(link)

        async def run() -> None:
            await self._on_link(link)

        task = asyncio.create_task(run(), name=f"incoming from {short(link.peer)}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def vanish(self) -> None:
        """The process is gone; the peers are not told."""
        self.gone = True
        for link in self.links:
            link.end("This node is gone.")

    def _keep(self, link: MemoryLink) -> None:
        self.links = [kept for kept in self.links if kept.is_open]
        self.links.append(link)


@dataclass(frozen=True)
class _NodeClock:
    clock: Clock
    frozen: dict[NodeId, _Frozen]
    node: NodeId

    def monotonic(self) -> float:
        """Seconds; what a frozen node could read last, while it is frozen."""
        frozen = self.frozen.get(self.node)
        return self.clock.monotonic() if frozen is None else frozen.since

    def time(self) -> float:
        """Seconds since the epoch."""
        frozen = self.frozen.get(self.node)
        return self.clock.time() if frozen is None else frozen.wall
