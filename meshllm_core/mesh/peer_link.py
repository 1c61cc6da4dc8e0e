"""A link to an admitted member: what is read from it, and a bounded queue of what is written to it."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from meshllm_core.errors import MeshNetworkError, WireError
from meshllm_core.ids import NodeId
from meshllm_core.mesh.control import GOSSIP, HANDSHAKE
from meshllm_core.mesh.greeting import Greeted
from meshllm_core.transport.link import Channel, ChannelKind
from meshllm_core.wire import limits

QUEUE_FRAMES = 512
"""Frames that may wait for a peer. Beyond that the oldest is dropped: gossip repairs what is missing."""


@dataclass(frozen=True)
class Handlers:
    """What happens with what comes in. All are called on the loop and must not wait."""

    on_gossip: Callable[[NodeId, bytes], None]
    """A gossip message without its first byte. May raise WireError: the link is closed then."""
    on_handshake: Callable[["PeerLink", bytes], None]
    """A message of the handshake after admission (dial back), with its first byte."""
    on_channel: Callable[["PeerLink", Channel], None]
    """A channel that the peer opened."""
    counted: Callable[[str, str], None]


@dataclass
class PeerLink:
    """Owned by the mesh; `run` returns when the link is over, for whatever reason."""

    greeted: Greeted
    since: float
    """Monotonic seconds."""
    handlers: Handlers
    dropped: int = 0
    reason: str = ""
    _queue: deque[bytes] = field(default_factory=deque)
    _ready: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def peer(self) -> NodeId:
        """Who is at the far end."""
        return self.greeted.link.peer

    @property
    def instance(self) -> bytes:
        """The process at the far end."""
        return self.greeted.hello.instance

    @property
    def waiting(self) -> int:
        """Frames that have not left yet."""
        return len(self._queue)

    def push(self, frame: bytes) -> None:
        """Queues a control frame, first byte included."""
        if len(self._queue) >= QUEUE_FRAMES:
            self._queue.popleft()
            self.dropped += 1
        self._queue.append(frame)
        self._ready.set()

    def close(self, reason: str) -> None:
        """Ends the link."""
        self.reason = self.reason or reason
        self.greeted.link.close(reason)

    async def run(self) -> None:
        """Reads, writes and accepts until the link is closed."""
        link = self.greeted.link
        self.greeted.channel.limit = limits.CONTROL_FRAME
        link.admit()
        link.offer_tls(self.greeted.hello.addresses)
        tasks = [
            asyncio.create_task(work(), name=f"{work.__name__} {self.peer.hex()[:10]}")
            for work in (self._read, self._write, self._accept)
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            link.close(self.reason)
        for end in ended:
            if isinstance(end, WireError):
                self.handlers.counted("malformed", f"{link.address}: {end.message}")
                self.reason = self.reason or "it sent what nobody can read"
            elif isinstance(end, BaseException) and not isinstance(
                end, asyncio.CancelledError | MeshNetworkError
            ):
                raise end
        self.reason = self.reason or await link.wait_closed()

    async def _read(self) -> None:
        channel = self.greeted.channel
        while (body := await channel.receive()) is not None:
            first = body[:1]
            if first == GOSSIP:
                self.handlers.on_gossip(self.peer, body[1:])
            elif first == HANDSHAKE:
                self.handlers.on_handshake(self, body)
            else:
                raise WireError("A control frame of an unknown kind.")

    async def _write(self) -> None:
        channel = self.greeted.channel
        while True:
            await self._ready.wait()
            while self._queue:
                await channel.send(self._queue.popleft())
            self._ready.clear()

    async def _accept(self) -> None:
        while True:
            channel = await self.greeted.link.accept()
            if channel.kind is ChannelKind.CONTROL:
                channel.abort()
                raise WireError("A second control channel was opened.")
            self.handlers.on_channel(self, channel)
