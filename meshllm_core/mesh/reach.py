"""Whether others reach this node unasked: a member knocks from a port we never heard of, and dials TCP."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from meshllm_core.errors import PeerUnreachable
from meshllm_core.ids import NodeId
from meshllm_core.mesh import control
from meshllm_core.mesh.peer_link import PeerLink
from meshllm_core.transport.link import Clock, Transport
from meshllm_core.wire import handshake as hs
from meshllm_core.wire.announcement import Address

KNOCK_SECONDS = 1.5
"""So long a knock may take; it is one packet, sent three times."""
KNOCKS = 3
TCP_SECONDS = 2.0
PER_PEER_SECONDS = 5.0
"""A member may ask for this once in so long: we are no port scanner."""

TcpAnswers = Callable[[Address], Awaitable[bool]]


async def tcp_answers(address: Address) -> bool:
    """Whether something accepts a TCP connection there."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(TCP_SECONDS):
            _, writer = await asyncio.open_connection(address.host, address.port)
            writer.close()
            return True
    return False


@dataclass(frozen=True)
class Reach:
    """None: nobody could tell."""

    udp: bool | None
    tcp: bool | None


@dataclass
class _Question:
    knocked: asyncio.Event = field(default_factory=asyncio.Event)
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    tcp: Sequence[Address] = ()


@dataclass
class ReachTest:
    """Both sides of the test."""

    transport: Transport
    clock: Clock
    entropy: Callable[[int], bytes]
    tcp_answers: TcpAnswers
    _asked: dict[bytes, "_Question"] = field(default_factory=dict)
    _served: dict[NodeId, float] = field(default_factory=dict)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    def knocked(self, nonce: bytes) -> None:
        """A knock arrived; one that nobody waits for is none of ours."""
        question = self._asked.get(nonce)
        if question is not None:
            question.knocked.set()

    async def measure(self, link: PeerLink, addresses: Sequence[Address]) -> Reach:
        """Asks the peer to reach us; ready as soon as a packet and the peer's word came.

        A word that does not come tells nothing.
        """
        nonce = self.entropy(8)
        question = self._asked[nonce] = _Question()
        try:
            message = hs.DialBack(nonce=nonce, addresses=tuple(addresses))
            link.push(control.HANDSHAKE + hs.encoder.encode(message))
            async with asyncio.timeout(TCP_SECONDS + 1.0):
                await question.answered.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KNOCK_SECONDS):
                    await question.knocked.wait()
            return Reach(udp=question.knocked.is_set(), tcp=bool(question.tcp))
        except TimeoutError:
            return Reach(udp=True if question.knocked.is_set() else None, tcp=None)
        finally:
            del self._asked[nonce]

    def answered(self, message: hs.DialedBack) -> None:
        """The peer has tried."""
        question = self._asked.get(message.nonce)
        if question is not None:
            question.tcp = message.tcp
            question.answered.set()

    def asked(self, link: PeerLink, message: hs.DialBack) -> None:
        """A member wants to know. Only addresses that it announced are tried, and not too often.

        And only those of the host that its packets come from: whoever could name others could look through
        this node for open ports, of this machine too.
        """
        now = self.clock.monotonic()
        if now - self._served.get(link.peer, float("-inf")) < PER_PEER_SECONDS:
            return
        self._served[link.peer] = now
        seen = link.greeted.link.address
        own = {address for address in (*link.greeted.hello.addresses, seen) if address.host == seen.host}
        addresses = [address for address in message.addresses if address in own]
        task = asyncio.create_task(self._serve(link, message.nonce, addresses), name="dial back")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, link: PeerLink, nonce: bytes, addresses: Sequence[Address]) -> None:
        async def knocking() -> None:
            for _ in range(KNOCKS):
                for address in addresses:
                    with contextlib.suppress(PeerUnreachable):
                        await self.transport.knock(address, nonce)
                await asyncio.sleep(KNOCK_SECONDS / KNOCKS)

        async def dialling() -> None:
            reached = await asyncio.gather(*(self.tcp_answers(address) for address in addresses))
            took = tuple(address for address, answers in zip(addresses, reached, strict=True) if answers)
            link.push(control.HANDSHAKE + hs.encoder.encode(hs.DialedBack(nonce=nonce, tcp=took)))

        await asyncio.gather(knocking(), dialling())

    async def close(self) -> None:
        """Ends what is running."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
