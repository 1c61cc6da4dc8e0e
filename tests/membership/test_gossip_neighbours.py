"""Who links to whom."""

from random import Random

import pytest

from meshllm_core.ids import NodeId
from meshllm_core.membership.neighbours import SkipRing


def _ids(count: int) -> list[NodeId]:
    random = Random(count)
    return [NodeId(random.randbytes(32)) for _ in range(count)]


def _rings(ids: list[NodeId]) -> dict[NodeId, SkipRing]:
    rings = {me: SkipRing(me, 33) for me in ids}
    for me, ring in rings.items():
        others = list(ids)
        Random(me).shuffle(others)
        for other in others:
            ring.add(other)
    return rings


def test_up_to_33_everybody() -> None:
    ids = _ids(33)
    for me, ring in _rings(ids).items():
        assert set(ring.neighbours()) == set(ids) - {me}


@pytest.mark.parametrize("count", [34, 100, 400])
def test_both_ends_agree_and_few_hops_are_enough(count: int) -> None:
    ids = _ids(count)
    rings = _rings(ids)
    links = {me: set(ring.neighbours()) for me, ring in rings.items()}
    for me, others in links.items():
        assert me not in others
        assert 2 <= len(others) <= 2 * (count.bit_length() + 4)
        assert all(me in links[other] for other in others)
        assert rings[ids[0]].around(me) == others
    reached, edge, hops = {ids[0]}, {ids[0]}, 0
    while edge:
        edge = {other for me in edge for other in links[me]} - reached
        reached |= edge
        hops += bool(edge)
    assert len(reached) == count
    assert hops <= count.bit_length()


def test_a_newcomer_changes_only_its_own_links() -> None:
    ids = _ids(200)
    rings = _rings(ids[:-1])
    newcomer = ids[-1]
    before = {me: set(ring.neighbours()) for me, ring in rings.items()}
    for ring in rings.values():
        ring.add(newcomer)
    changed = [me for me, ring in rings.items() if set(ring.neighbours()) != before[me]]
    assert all(newcomer in rings[me].neighbours() for me in changed)
    assert len(changed) < 25
    for ring in rings.values():
        ring.remove(newcomer)
    assert {me: set(ring.neighbours()) for me, ring in rings.items()} == before


def test_removing_is_safe_to_repeat_and_never_removes_oneself() -> None:
    me, other = _ids(2)
    ring = SkipRing(me, 33)
    ring.add(other)
    ring.add(other)
    ring.remove(me)
    ring.remove(other)
    ring.remove(other)
    assert ring.neighbours() == ()
    assert me in ring
