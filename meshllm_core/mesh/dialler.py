"""Makes the links that the mesh wants: several addresses at once, with back-off, bounded."""

import asyncio
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass, field

from meshllm_core.errors import JoinRefused, MeshNetworkError, PeerUnreachable, ProofInvalid
from meshllm_core.ids import NodeId, short
from meshllm_core.mesh.addresses import AddressBook
from meshllm_core.mesh.greeting import Greeted, Greeter
from meshllm_core.transport.link import Clock, Link, Transport
from meshllm_core.wire.announcement import Address

DIAL_SECONDS = 3.0
STAGGER_SECONDS = 0.1
"""Between the first tries of a node's addresses; a quick answer spares the others."""
PARALLEL = 8
BACKOFF_FIRST, BACKOFF_LAST = 0.5, 8.0
BACKOFF_REFUSED = 60.0
"""After a clear no."""


async def dial_any(
    transport: Transport, peer: NodeId, addresses: Sequence[Address], *, timeout: float = DIAL_SECONDS
) -> Link:
    """A link by whichever address answers first. Raises PeerUnreachable; ProofInvalid if a wrong key did."""
    if not addresses:
        raise PeerUnreachable(f"No address of node {short(peer)} is known.")
    errors: list[MeshNetworkError] = []

    async def one(index: int, address: Address) -> Link:
        await asyncio.sleep(index * STAGGER_SECONDS)
        return await transport.dial(peer, address, timeout=timeout)

    tasks = [asyncio.create_task(one(index, address)) for index, address in enumerate(addresses)]
    winner: Link | None = None
    try:
        for finished in asyncio.as_completed(tasks):
            try:
                winner = await finished
            except MeshNetworkError as error:
                errors.append(error)
                continue
            return winner
    finally:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(result, BaseException) and result is not winner:
                result.close("another address was quicker")
    wrong = next((error for error in errors if isinstance(error, ProofInvalid)), None)
    raise wrong or PeerUnreachable(
        f"Node {short(peer)} did not answer at {', '.join(map(str, addresses))}.",
        hint="Is meshllm running there, and does its firewall let UDP through?",
    )


@dataclass
class _Wish:
    failures: int = 0
    not_before: float = 0.0
    task: "asyncio.Task[None] | None" = None


@dataclass
class Dialler:
    """Call `want` often; each node is dialled at most once at a time."""

    transport: Transport
    greeter: Greeter
    book: AddressBook
    clock: Clock
    random: Callable[[], float]
    """0 to 1."""
    on_greeted: Callable[[Greeted], Awaitable[None]]
    on_failure: Callable[[NodeId, MeshNetworkError], None]
    blocked: Container[NodeId] = ()
    """Never dialled."""
    _wishes: dict[NodeId, _Wish] = field(default_factory=dict)

    def want(self, nodes: Sequence[NodeId]) -> None:
        """These links are missing, most wanted first."""
        now = self.clock.monotonic()
        wanted = set(nodes)
        for node in [n for n, wish in self._wishes.items() if n not in wanted and wish.task is None]:
            del self._wishes[node]
        running = sum(wish.task is not None for wish in self._wishes.values())
        for node in nodes:
            if running >= PARALLEL:
                return
            if node in self.blocked:
                continue
            wish = self._wishes.setdefault(node, _Wish())
            if wish.task is None and wish.not_before <= now and self.book.candidates(node):
                wish.task = asyncio.create_task(self._dial(node, wish), name=f"dial {short(node)}")
                running += 1

    def hurry(self, node: NodeId | None = None) -> None:
        """Forget all back-off, or that of one node: this machine slept, or the way there is another now."""
        for wished, wish in self._wishes.items():
            if node in (None, wished):
                wish.not_before, wish.failures = 0.0, 0

    async def close(self) -> None:
        """Gives up what is being dialled."""
        tasks = [wish.task for wish in self._wishes.values() if wish.task is not None]
        self._wishes.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _dial(self, node: NodeId, wish: _Wish) -> None:
        link: Link | None = None
        try:
            link = await dial_any(self.transport, node, self.book.candidates(node))
            greeted = await self.greeter.greet(link)
            self.book.worked(node, link.address)
            wish.failures = 0
            await self.on_greeted(greeted)
        except (MeshNetworkError, TimeoutError) as error:
            if link is not None:
                link.close("the greeting failed")
            self._failed(node, wish, error)
        finally:
            wish.task = None

    def _failed(self, node: NodeId, wish: _Wish, error: MeshNetworkError | TimeoutError) -> None:
        wish.failures += 1
        wait = min(BACKOFF_LAST, BACKOFF_FIRST * 2.0 ** min(wish.failures - 1, 10))
        # A wrong key at an address is the word of whoever has that address now, not of the node.
        if isinstance(error, JoinRefused):
            wait = BACKOFF_REFUSED
        wish.not_before = self.clock.monotonic() + wait * (0.75 + 0.5 * self.random())
        if isinstance(error, MeshNetworkError):
            self.on_failure(node, error)
        else:
            self.on_failure(node, PeerUnreachable(f"Node {short(node)} connected and then said nothing."))
