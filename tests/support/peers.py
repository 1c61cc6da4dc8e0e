"""Other nodes in one process: an in-memory pair of channels, and a `Peers` whose nodes answer calls."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from meshllm_core.errors import LinkClosed, PeerUnreachable, WireError
from meshllm_core.ids import ModelId, NodeId
from meshllm_core.serve.answering import Asker, CallLimits, answer
from meshllm_core.serve.peers import Replica
from meshllm_core.serve.router import HostedModel
from meshllm_core.serve.service import InferenceService
from meshllm_core.state.events import AnyEvent
from meshllm_core.transport.link import ChannelKind
from meshllm_core.wire.announcement import ModelOffer
from tests.support.scripted_engine import ScriptedEngine

ENTRY = NodeId(b"\xee" * 32)
HIGH_WATER = 4
"""Frames that are not taken; then `send` waits."""


class MemoryChannel:
    """One end of a pair. Implements `transport.link.Channel`."""

    def __init__(self) -> None:
        self.kind = ChannelKind.CALL
        self.path: Literal["quic", "tls", "memory"] = "memory"
        self.limit = 1024
        self.other: MemoryChannel
        self.taken = 0
        """Frames that `receive` gave."""
        self.finished = False
        """This side sends no more."""
        self.broken = False
        """It was given up before both sides had read each other's end."""
        self._ended = False
        self._frames: deque[bytes | None] = deque()
        self._aborted = False
        self._changed = asyncio.Event()

    async def send(self, body: bytes) -> None:
        while not self._aborted and len(self.other._frames) >= HIGH_WATER:
            self._changed.clear()
            await self._changed.wait()
        self._check()
        self.other._frames.append(body)
        self.other._changed.set()

    def send_at_once(self, body: bytes) -> bool:
        self._check()
        if len(self.other._frames) >= HIGH_WATER:
            return False
        self.other._frames.append(body)
        self.other._changed.set()
        return True

    async def receive(self) -> bytes | None:
        while not self._frames:
            self._check()
            self._changed.clear()
            await self._changed.wait()
        if self._frames[0] is None:
            self._ended = True
            return None
        frame = self._frames.popleft()
        self.other._changed.set()
        self.taken += 1
        if frame is not None and len(frame) > self.limit:
            self.abort()
            raise WireError(f"A frame of {len(frame)} bytes was announced; the limit is {self.limit}.")
        return frame

    async def pass_on(self, deliver: Callable[[bytes], None]) -> None:
        while (frame := await self.receive()) is not None:
            deliver(frame)

    async def finish(self) -> None:
        self._check()
        self.finished = True
        self.other._frames.append(None)
        self.other._changed.set()

    def abort(self) -> None:
        if self.finished and self._ended:
            return
        for end in (self, self.other):
            end._aborted = end.broken = True
            end._frames.clear()
            end._changed.set()

    def _check(self) -> None:
        if self._aborted:
            raise LinkClosed("The channel was given up.")


def channel_pair() -> tuple[MemoryChannel, MemoryChannel]:
    """Two ends of one channel."""
    one, other = MemoryChannel(), MemoryChannel()
    one.other, other.other = other, one
    return one, other


def offer(name: str = "m", **fields: object) -> ModelOffer:
    """What a node says of a scripted model."""
    values: dict[str, object] = {
        "name": name,
        "load": b"load",
        "status": "ready",
        "architecture": "scripted",
        "parameters": 1_000,
        "context": 4_096,
        "lanes": 4,
        "chat": True,
        "embeddings": False,
        "decode_tokens_per_second": 20.0,
        "prompt_tokens_per_second": 200.0,
        "active": 0,
        "queued": 0,
        **fields,
    }
    return ModelOffer(**values)  # type: ignore[arg-type]


Answerer = Callable[[MemoryChannel], Awaitable[None]]


@dataclass
class RemoteNode:
    """Another node: its engines, and what it says of them."""

    name: str
    node: NodeId
    engines: Mapping[str, ScriptedEngine]
    offers: list[ModelOffer] = field(default_factory=list)
    round_trip: float = 0.001
    alive: bool = True
    """False: it is listed no longer."""
    reachable: bool = True
    """False: calls to it cannot be opened."""
    answerer: Answerer | None = None
    """What answers calls in place of the real thing."""
    limits: CallLimits = field(default_factory=CallLimits)
    asker: Asker = field(default_factory=lambda: Asker("entry", ENTRY))
    events: list[AnyEvent] = field(default_factory=list)
    calls: list[MemoryChannel] = field(default_factory=list)
    """The ends of this node."""

    def __post_init__(self) -> None:
        hosted = {
            ModelId(name): HostedModel(ModelId(name), 0, "ready", engine)
            for name, engine in self.engines.items()
        }
        self.service = InferenceService(hosted, self.events.append, name=self.name, node=self.node)
        if not self.offers:
            self.offers = [
                offer(name, parameters=e.facts.parameters, embeddings=e.facts.embeddings)
                for name, e in self.engines.items()
            ]

    async def answer(self, channel: MemoryChannel) -> None:
        """One call."""
        if self.answerer is not None:
            await self.answerer(channel)
        else:
            await answer(channel, self.asker, self.service, self.limits)

    def die(self) -> None:
        """The node is gone: its channels break, it is not listed."""
        self.alive = self.reachable = False
        for channel in self.calls:
            channel.abort()


def node(name: str, number: int = 1, **engines: ScriptedEngine) -> RemoteNode:
    """A node with these models; `m` alone if none are named."""
    return RemoteNode(name, NodeId(bytes([number]) * 32), engines or {"m": ScriptedEngine()})


class MemoryPeers:
    """Implements `serve.peers.Peers`."""

    def __init__(self, *nodes: RemoteNode) -> None:
        self.nodes = list(nodes)
        self._tasks: set[asyncio.Task[None]] = set()

    def replicas(self) -> Sequence[Replica]:
        return [
            Replica(one.node, one.name, offered, one.round_trip)
            for one in self.nodes
            if one.alive
            for offered in one.offers
        ]

    async def open_call(self, node: NodeId) -> MemoryChannel:
        found = next((one for one in self.nodes if one.node == node), None)
        if found is None or not found.reachable:
            raise PeerUnreachable("no link")
        ours, theirs = channel_pair()
        found.calls.append(theirs)
        task = asyncio.create_task(found.answer(theirs))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return ours

    async def idle(self) -> None:
        """Until no call is being answered."""
        await asyncio.gather(*self._tasks)

    async def close(self) -> None:
        """Ends what still answers."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
