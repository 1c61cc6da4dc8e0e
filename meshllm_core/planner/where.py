"""Which machines hold a model of a given size: a quick word before its file is here to be asked. Pure.

The planner decides exactly, once a model is loaded or planned; here only bytes are compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["here", "other", "split", "nowhere", "unknown"]

STAGE_BYTES = 200 << 20
"""What each further stage takes besides its share: compute buffer, caches of its own."""


@dataclass(frozen=True)
class Room:
    """What a machine offers a model."""

    name: str
    bytes: int
    """Free memory that a model may take; what is kept in reserve is left out."""


@dataclass(frozen=True)
class Where:
    """Where a model fits."""

    kind: Kind
    need: int
    """Bytes that it takes on one machine; 0: not known."""
    machines: tuple[str, ...] = ()
    """The one other machine, or those of a split, this one first."""
    room: int = 0
    """Bytes there: here, on the other machine, on all of a split; nowhere: on all that there are."""


def where_fits(need: int, here: Room, others: Sequence[Room]) -> Where:
    """One machine before several, this one before others; a split takes as few machines as hold it.

    `need` in bytes, 0 when nobody knows. A split is driven from here, so this machine computes a stage.
    """
    if need <= 0:
        return Where("unknown", 0, room=here.bytes)
    if need <= here.bytes:
        return Where("here", need, (here.name,), here.bytes)
    largest_first = sorted(others, key=lambda room: (-room.bytes, room.name))
    if largest_first and need <= largest_first[0].bytes:
        return Where("other", need, (largest_first[0].name,), largest_first[0].bytes)
    chosen, total = [here], here.bytes
    for room in largest_first:
        if here.bytes <= STAGE_BYTES or room.bytes <= STAGE_BYTES:
            break
        chosen.append(room)
        total += room.bytes - STAGE_BYTES
        if need <= total:
            return Where("split", need, tuple(one.name for one in chosen), sum(one.bytes for one in chosen))
    return Where("nowhere", need, room=here.bytes + sum(room.bytes for room in others))
