"""Finds the public mesh that suits best: fetch, verify, dial, rank. One bad listing never blocks the next."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from meshllm_core.discovery.listing import Listing, verify
from meshllm_core.discovery.score import Candidate, Scored, Wants, promise, rank, refusal
from meshllm_core.errors import MeshNetworkError, ProofInvalid
from meshllm_core.transport.nostr import Fetched

PROBES = 16
"""Members that are dialled at the same time."""
PROBE_SECONDS = 3.0
"""For one of them to answer."""
GRACE_SECONDS = 2.0
"""So long others may still answer after the first one did: a better one is worth no longer wait."""
TOTAL_SECONDS = 45.0
"""For all dials, however many listings there are."""

Probe = Callable[[Listing], Awaitable[float | None]]
"""Dials the member that a listing names and returns the round-trip time in seconds; None: not reached."""


class Board(Protocol):
    """Where listings are read; `transport.nostr.NostrBoard` is one."""

    async def listings(self, timeout: float = 5.0) -> Fetched:
        """What is up now."""


@dataclass(frozen=True)
class Seen:
    """What the relays had, verified."""

    listings: tuple[Listing, ...]
    """One per mesh and member, the newest."""
    refused: dict[str, int]
    """How many did not verify, by the reason of their ProofInvalid."""
    relays: dict[str, str]
    """Each relay with what went wrong; empty: it answered."""


@dataclass(frozen=True)
class LeftOut:
    """A mesh that is not joined, and why, for a person."""

    listing: Listing
    why: str


@dataclass(frozen=True)
class Found:
    """What can be joined, and what became of the rest."""

    ranked: list[Scored]
    """Best first."""
    left_out: tuple[LeftOut, ...]
    seen: Seen

    def words(self) -> str:
        """Why nothing could be joined, for a person."""
        if self.left_out:
            first = "; ".join(
                f"{out.listing.name or out.listing.mesh[:10]}: {out.why}" for out in self.left_out[:3]
            )
            more = f"; and {len(self.left_out) - 3} more" if len(self.left_out) > 3 else ""
            return f"{len(self.left_out)} public meshes, none of which can be joined. {first}{more}."
        return nothing_found(self.seen)


async def look(board: Board, *, timeout: float = 5.0, wall: Callable[[], float] = time.time) -> Seen:
    """Reads the board and keeps what verifies."""
    fetched = await board.listings(timeout)
    now = wall()
    newest: dict[tuple[str, str], Listing] = {}
    refused: Counter[str] = Counter()
    for raw in fetched.listings:
        try:
            listing = verify(raw.content, raw.tags, now)
        except ProofInvalid as error:
            refused[error.reason] += 1
            continue
        known = newest.get((listing.mesh, listing.node))
        if known is None or known.issued_at < listing.issued_at:
            newest[listing.mesh, listing.node] = listing
    return Seen(tuple(newest.values()), dict(refused), fetched.relays)


async def find(
    board: Board,
    probe: Probe,
    wants: Wants,
    *,
    skip: Collection[bytes] = (),
    timeout: float = 5.0,
    wall: Callable[[], float] = time.time,
) -> Found:
    """The meshes that come into question and answer a dial, best first.

    `skip`: ids of nodes (this one) and of meshes that are not wanted. `timeout`: seconds for the relays.
    """
    seen = await look(board, timeout=timeout, wall=wall)
    left_out: list[LeftOut] = []
    suitable: list[Listing] = []
    for listing in seen.listings:
        if listing.node_id in skip or listing.mesh_id in skip:
            continue
        if why := refusal(listing, wants):
            left_out.append(LeftOut(listing, why))
        else:
            suitable.append(listing)
    suitable.sort(key=lambda listing: -promise(listing, wants))
    candidates, unanswered = await _dial(suitable, probe)
    return Found(rank(candidates, wants), (*unanswered, *left_out), seen)


def nothing_found(seen: Seen) -> str:
    """Why there is no listing at all, for a person: the relays, or what did not verify."""
    answered = [relay for relay, words in seen.relays.items() if not words]
    if not answered:
        each = "; ".join(f"{relay}: {words}" for relay, words in seen.relays.items())
        return f"No Nostr relay could be asked. {each}."
    text = f"{len(answered)} of {len(seen.relays)} relays answered ({', '.join(answered)})"
    if not seen.refused:
        return f"No public mesh is listed now; {text}."
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(seen.refused.items()))
    clock = " Is this machine's clock right?" if {"expired", "future"} & set(seen.refused) else ""
    return f"No listing of a public mesh is valid ({counts}); {text}.{clock}"


async def _dial(listings: Sequence[Listing], probe: Probe) -> tuple[list[Candidate], list[LeftOut]]:
    places = asyncio.Semaphore(PROBES)
    begun: set[int] = set()

    async def dial(index: int) -> float | None:
        async with places:
            begun.add(index)
            try:
                async with asyncio.timeout(PROBE_SECONDS):
                    return await probe(listings[index])
            except (MeshNetworkError, OSError):  # a time-out is an OSError too
                return None

    tasks = [asyncio.create_task(dial(index)) for index in range(len(listings))]
    try:
        await _wait(tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    candidates: list[Candidate] = []
    left_out: list[LeftOut] = []
    for index, (listing, task) in enumerate(zip(listings, tasks, strict=True)):
        round_trip = None if task.cancelled() else task.result()
        if round_trip is not None:
            candidates.append(Candidate(listing, round_trip))
        else:
            left_out.append(
                LeftOut(listing, "it does not answer" if index in begun else "it was not dialled")
            )
    return candidates, left_out


async def _wait(tasks: "Collection[asyncio.Task[float | None]]") -> None:
    """Until all are done, TOTAL_SECONDS have passed, or GRACE_SECONDS since the first that answered."""
    loop = asyncio.get_running_loop()
    pending, deadline = set(tasks), loop.time() + TOTAL_SECONDS
    while pending and (left := deadline - loop.time()) > 0:
        done, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if any(task.result() is not None for task in done):
            deadline = min(deadline, loop.time() + GRACE_SECONDS)
