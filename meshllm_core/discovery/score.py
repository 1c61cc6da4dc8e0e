"""Which of the public meshes that were found suits best, and why: in figures and in words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from meshllm_core.discovery.listing import Listing
from meshllm_core.wire import limits

GB = 1_000_000_000

NEARNESS = 100.0
"""Points for no round-trip time at all."""
HALF_AT = 0.05
"""Seconds of round-trip time at which half of them are left: about the pace at which people read."""
MODELS_AT_MOST = 20.0
SLOTS_AT_MOST = 30.0
SLOTS_ENOUGH = 16
VRAM_AT_MOST = 20.0
VRAM_ENOUGH = 64 * GB
SAME_REGION = 30.0
SAME_VERSION = 5.0
ANY = "auto"
"""The wish that any model fulfils."""


@dataclass(frozen=True)
class Wants:
    """What the person is after."""

    model: str = ""
    """A model's name; auto: any, but one at least; empty: none is needed."""
    region: str = ""
    min_vram: int = 0
    """Bytes of accelerator memory, in total."""
    name: str = ""
    """Only meshes of this name; empty: any."""
    version: str = ""
    """Of this node."""
    protocol: int = limits.PROTOCOL
    oldest: int = limits.PROTOCOL_OLDEST


@dataclass(frozen=True)
class Candidate:
    """A verified listing and how far away its member is."""

    listing: Listing
    round_trip: float | None
    """Seconds, as a dial measured them; None: it could not be reached."""


@dataclass(frozen=True)
class Scored:
    """A mesh that can be joined."""

    listing: Listing
    round_trip: float
    score: float
    reasons: tuple[str, ...]
    """For a person, the weightiest first."""


def refusal(listing: Listing, wants: Wants) -> str:
    """Why a mesh does not come into question, for a person; empty: it does."""
    if wants.name and listing.name.casefold() != wants.name.casefold():
        return f"its name is not {wants.name}"
    if listing.oldest > wants.protocol:
        return (
            f"it speaks protocol {listing.oldest} and later, this node up to {wants.protocol}: update meshllm"
        )
    if listing.protocol < wants.oldest:
        return f"it speaks protocol {listing.protocol}, this node {wants.oldest} and later"
    if listing.free_slots == 0:
        return f"it is full: {listing.clients} of {listing.max_clients} clients"
    if wants.model and not _serves(listing, wants.model):
        return "it serves no model" if wants.model == ANY else f"it does not serve {wants.model}"
    if listing.vram_total < wants.min_vram:
        return f"{listing.vram_total / GB:.0f} GB of accelerator memory, {wants.min_vram / GB:.0f} are wanted"
    return ""


def rank(candidates: Sequence[Candidate], wants: Wants) -> list[Scored]:
    """Those that come into question and were reached, best first. The order does not depend on chance."""
    scored = [
        _score(candidate.listing, candidate.round_trip, wants)
        for candidate in candidates
        if candidate.round_trip is not None
        and math.isfinite(candidate.round_trip)
        and candidate.round_trip >= 0
        and not refusal(candidate.listing, wants)
    ]
    return sorted(scored, key=lambda one: (-one.score, one.round_trip, one.listing.mesh, one.listing.node))


def promise(listing: Listing, wants: Wants) -> float:
    """The points of a listing by what it says of itself: who is dialled first."""
    return sum(points for points, _ in _claims(listing, wants))


def _score(listing: Listing, round_trip: float, wants: Wants) -> Scored:
    parts = [(NEARNESS * HALF_AT / (HALF_AT + round_trip), f"{round_trip * 1000:.0f} ms away")]
    parts += _claims(listing, wants)
    ordered = sorted(parts, key=lambda part: -part[0])
    total = sum(points for points, _ in parts)
    return Scored(listing, round_trip, round(total, 3), tuple(words for _, words in ordered))


def _claims(listing: Listing, wants: Wants) -> list[tuple[float, str]]:
    """(points, words) for each thing that speaks for a mesh. What a mesh claims of itself is capped."""
    count = len(listing.models)
    parts = [(min(5.0 * count, MODELS_AT_MOST), f"{count} model{'' if count == 1 else 's'}")]
    if wants.model not in ("", ANY):
        parts.append((MODELS_AT_MOST, f"serves {wants.model}"))
    free = listing.free_slots
    slots = SLOTS_ENOUGH if free is None else min(free, SLOTS_ENOUGH)
    room = "no limit on clients" if free is None else f"room for {free} more"
    parts.append((SLOTS_AT_MOST * slots / SLOTS_ENOUGH, room))
    if listing.vram_free:
        share = min(1.0, listing.vram_free / VRAM_ENOUGH)
        parts.append((VRAM_AT_MOST * share, f"{listing.vram_free / GB:.0f} GB of accelerator memory free"))
    if wants.region and listing.region.casefold() == wants.region.casefold():
        parts.append((SAME_REGION, f"in {listing.region}"))
    if wants.version and listing.version == wants.version:
        parts.append((SAME_VERSION, f"the same version, {listing.version}"))
    return parts


def _serves(listing: Listing, model: str) -> bool:
    if model == ANY:
        return bool(listing.models)
    return any(name.casefold() == model.casefold() for name in listing.models)
