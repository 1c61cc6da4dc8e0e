"""Keeps the listing of a public mesh up: again every minute, gone when the mesh is full or private again.

A member publishes when its owner told it to, and only then: nobody takes over for another, so that a
machine's address never becomes public by somebody else's choice. Of several that were told to, each
has a listing of its own, and a mesh has more than one way in.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from meshllm_core.discovery.listing import LIFETIME, Listing, build, identifier
from meshllm_core.errors import DiscoveryError
from meshllm_core.identity.keys import SigningKey
from meshllm_core.state.mesh_events import Publication
from meshllm_core.transport.link import Clock

EVERY_SECONDS = 60.0
"""Between two publications of what has not changed."""
CHANGE_SECONDS = 10.0
"""Between two publications at least, however often something changes; so often is looked whether it did."""
READY_SECONDS = 60.0
"""So long the first publication waits for a model that is ready."""
RETRY_SECONDS = 5.0
"""After the first failure; doubles with each further one, up to EVERY_SECONDS."""
STOP_SECONDS = 2.0
"""For the relays to take a listing down when the mesh becomes private."""

_replace = msgspec.structs.replace


class Board(Protocol):
    """Where the listing is put up; `transport.nostr.NostrBoard` is one."""

    async def publish(self, content: str, d: str, expires: int) -> dict[str, str]:
        """Each relay, with what it refused the listing for."""

    async def withdraw(self, d: str, *, seconds: float = ...) -> dict[str, str]:
        """The same for taking it down."""


class Publisher:
    """Publishes while `run` runs, until `stop`."""

    def __init__(
        self,
        board: Board,
        key: SigningKey,
        describe: Callable[[], Listing],
        on_state: Callable[[Publication, str], None],
        clock: Clock,
    ) -> None:
        """`describe`: the listing as it is now, its times left out. `on_state`: called when it changed."""
        self._board = board
        self._key = key
        self._describe = describe
        self._on_state = on_state
        self._clock = clock
        self._started = clock.monotonic()
        self._state: tuple[Publication, str] | None = None
        self._wake = asyncio.Event()
        self._round = asyncio.Lock()
        self._stopped = False
        self._up: str | None = None
        """The `d` tag under which a listing may be up."""
        self._shown: Listing | None = None
        self._shown_at = self._shown_wall = 0.0
        self._failures = 0

    async def run(self) -> None:
        """Publishes until `stop` is called."""
        while not self._stopped:
            self._wake.clear()
            delay = await self.step()
            try:
                async with asyncio.timeout(delay):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def changed(self) -> None:
        """A model, a member or the clock changed: the listing is looked at now. Cheap to call often."""
        self._wake.set()

    async def step(self) -> float:
        """Does what is due and returns the seconds until something is due again."""
        async with self._round:
            if self._stopped:
                return 0.0
            listing, now = self._describe(), self._clock.monotonic()
            if listing.free_slots == 0:
                return await self._full(listing)
            waited = now - self._started
            if not listing.models and self._shown is None and waited < READY_SECONDS:
                self._tell("publishing", f"It is listed once a model is ready, or in {READY_SECONDS:.0f} s.")
                return READY_SECONDS - waited
            due = self._due(listing, now)
            return min(due, CHANGE_SECONDS) if due > 0 else await self._publish(listing, now)

    async def stop(self) -> None:
        """Takes the listing down, within a few seconds. The mesh is private then."""
        self._stopped = True
        self._wake.set()
        async with self._round:
            words = await self._take_down()
            self._tell("private", words)

    def _due(self, listing: Listing, now: float) -> float:
        if self._shown is None:
            return 0.0
        if self._failures:
            return self._shown_at + self._retry_delay() - now
        # Where the machine slept, the wall clock knows of it and the monotonic one may not.
        passed = max(now - self._shown_at, self._clock.time() - self._shown_wall)
        same = self._up is not None and _lasting(listing) == _lasting(self._shown)
        return (EVERY_SECONDS if same else CHANGE_SECONDS) - passed

    def _retry_delay(self) -> float:
        return min(EVERY_SECONDS, RETRY_SECONDS * 2.0 ** (min(self._failures, 16) - 1))

    async def _publish(self, listing: Listing, now: float) -> float:
        if self._state is None or self._state[0] in ("private", "publishing"):
            self._tell("publishing", "The relays are asked.")
        self._shown, self._shown_at, self._shown_wall = listing, now, self._clock.time()
        wall = int(self._shown_wall)
        try:
            content = build(self._key, _replace(listing, issued_at=wall, expires_at=wall + LIFETIME))
            # Set before it is asked for: when this is broken off, a relay may have it all the same.
            self._up = identifier(listing.mesh)
            outcome = await self._board.publish(content, self._up, wall + LIFETIME)
        except DiscoveryError as error:
            return self._failed(str(error))
        taken = [relay for relay, words in outcome.items() if not words]
        refused = "; ".join(f"{relay}: {words}" for relay, words in outcome.items() if words)
        if not taken:
            return self._failed(f"No relay took the listing. {refused}.")
        self._failures = 0
        missing = f" Not on {refused}." if refused else ""
        self._tell("public", f"Listed on {len(taken)} of {len(outcome)} relays.{missing}")
        return CHANGE_SECONDS

    def _failed(self, words: str) -> float:
        self._failures += 1
        delay = self._retry_delay()
        self._tell("publish_failed", f"{words} The next try is in {delay:.0f} s.")
        return delay

    async def _full(self, listing: Listing) -> float:
        words = await self._take_down()
        full = f"Not listed while it is full: {listing.clients} of {listing.max_clients} clients. {words}"
        self._tell("public", full.strip())
        return CHANGE_SECONDS

    async def _take_down(self) -> str:
        if self._up is None:
            return ""
        d, self._up = self._up, None
        outcome = await self._board.withdraw(d, seconds=STOP_SECONDS)
        if all(words for words in outcome.values()):
            return f"No relay took the listing down; it ends by itself within {LIFETIME} s."
        return ""

    def _tell(self, publication: Publication, detail: str) -> None:
        if self._state != (publication, detail):
            self._state = publication, detail
            self._on_state(publication, detail)


def _lasting(listing: Listing) -> Listing:
    """Without what changes all the time and alone is no reason to publish again."""
    return _replace(listing, vram_free=0)
