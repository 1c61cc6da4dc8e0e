"""Which machines hold a model: one before several, this one before others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.planner.where import STAGE_BYTES, Room, where_fits

GIB = 1 << 30
HERE = Room("here", 8 * GIB)
SMALL, LARGE = Room("small", 6 * GIB), Room("large", 20 * GIB)


@pytest.mark.parametrize(
    ("need", "kind", "machines"),
    [
        (7 * GIB, "here", ("here",)),
        (8 * GIB, "here", ("here",)),
        (12 * GIB, "other", ("large",)),
        (25 * GIB, "split", ("here", "large")),
        (33 * GIB, "split", ("here", "large", "small")),
        (34 * GIB, "nowhere", ()),
        (0, "unknown", ()),
    ],
)
def test_the_nearest_and_fewest(need: int, kind: str, machines: tuple[str, ...]) -> None:
    found = where_fits(need, HERE, (SMALL, LARGE))
    assert (found.kind, found.machines) == (kind, machines)


def test_figures_are_of_the_machines_named() -> None:
    assert where_fits(12 * GIB, HERE, (SMALL, LARGE)).room == 20 * GIB
    assert where_fits(25 * GIB, HERE, (SMALL, LARGE)).room == 28 * GIB
    assert where_fits(99 * GIB, HERE, (SMALL, LARGE)).room == 34 * GIB


def test_a_machine_without_room_drives_no_split() -> None:
    assert where_fits(10 * GIB, Room("here", STAGE_BYTES), (SMALL, SMALL)).kind == "nowhere"
    assert where_fits(10 * GIB, HERE, ()).kind == "nowhere"


@given(st.integers(1, 1 << 45), st.integers(0, 1 << 40), st.lists(st.integers(0, 1 << 40), max_size=20))
def test_a_split_never_promises_more_than_there_is(need: int, here: int, others: list[int]) -> None:
    rooms = [Room(f"m{number}", size) for number, size in enumerate(others)]
    found = where_fits(need, Room("here", here), rooms)
    if found.kind == "split":
        sizes = {room.name: room.bytes for room in (*rooms, Room("here", here))}
        assert found.room == sum(sizes[name] for name in found.machines) >= need
        assert len(set(found.machines)) == len(found.machines) >= 2
    if found.kind == "nowhere":
        assert max([here, *others]) < need
