"""The search against trying everything, on problems small enough for that."""

from itertools import combinations, pairwise, permutations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from meshllm_core.planner.search import NEVER, Problem, Search

small = st.integers(0, 60)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Two to five machines and two to seven layers; rooms, prices and forbidden ranges as they come."""
    nodes, layers = draw(st.integers(2, 5)), draw(st.integers(2, 7))

    def vector(each: st.SearchStrategy[int], count: int) -> list[int]:
        return draw(st.lists(each, min_size=count, max_size=count))

    sums = np.cumsum([0, *vector(st.integers(1, 20), layers)])
    need = np.triu(sums[None, :] - sums[:, None] + draw(st.integers(0, 9)), 1)
    room = np.array(vector(st.integers(5, int(sums[-1]) + 10), nodes), dtype=np.int64)
    legal = np.triu(np.ones_like(need, dtype=bool), 1)
    for first, end in draw(
        st.lists(st.tuples(st.integers(0, layers), st.integers(0, layers)), max_size=layers)
    ):
        legal[first, end] = False
    pace = [vector(st.integers(0, 40), layers) for _ in range(nodes)]
    forward = np.array(vector(small, nodes * nodes), dtype=np.int64).reshape(nodes, nodes)
    return Problem(
        compute=np.array([np.cumsum([0, *row]) for row in pace], dtype=np.int64),
        head=np.array(vector(small, nodes), dtype=np.int64),
        forward=forward,
        enter=np.array(vector(small, nodes), dtype=np.int64),
        leave=np.array(vector(small, nodes), dtype=np.int64),
        fits=legal & (need <= room[:, None, None]),
        room=room,
        need=need.astype(np.int64),
    )


def price(p: Problem, order: tuple[int, ...], cuts: tuple[int, ...]) -> int:
    """What a chain costs by the definition, NEVER if a stage does not fit."""
    spans = list(zip(order, pairwise(cuts), strict=True))
    if not all(p.fits[node, first, end] for node, (first, end) in spans):
        return NEVER
    compute = sum(p.compute[node, end] - p.compute[node, first] for node, (first, end) in spans)
    hops = sum(p.forward[one, other] for one, other in pairwise(order))
    return int(p.enter[order[0]] + compute + hops + p.head[order[-1]] + p.leave[order[-1]])


def cheapest(p: Problem, stages: int) -> int:
    """The least price of all chains there are."""
    return min(
        price(p, order, (0, *cuts, p.layers))
        for order in permutations(range(p.nodes), stages)
        for cuts in combinations(range(1, p.layers), stages - 1)
    )


@settings(max_examples=150, deadline=None)
@given(problems())
def test_no_chain_is_cheaper_than_the_one_found(p: Problem) -> None:
    search = Search(p)
    for stages in range(2, min(p.nodes, p.layers) + 1):
        outcome = search.best(stages, count=3)
        assert outcome.proven
        least = cheapest(p, stages)
        if least == NEVER:
            assert not outcome.chains
            continue
        assert stages >= search.fewest()
        assert outcome.chains[0].cost == least
        for chain in outcome.chains:
            assert price(p, chain.nodes, chain.cuts) == chain.cost
        assert len({frozenset(chain.nodes) for chain in outcome.chains}) == len(outcome.chains)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_equal_chains_fill_the_fullest_machine_least(p: Problem) -> None:
    free = np.zeros_like(p.compute)
    equal = Problem(free, p.head, p.forward, p.enter, p.leave, p.fits, p.room, p.need)
    for chain in Search(equal).best(2).chains:
        fills = []
        for cut in range(1, p.layers):
            cuts = (0, cut, p.layers)
            if price(equal, chain.nodes, cuts) == chain.cost:
                spans = zip(chain.nodes, pairwise(cuts), strict=True)
                fills.append(max(p.need[span] / p.room[node] for node, span in spans))
        assert chain.fullest == min(fills)


def _plain(layers: int, rooms: list[int], forward: int = 10) -> Problem:
    spans = np.arange(layers + 1)
    need = np.triu(spans[None, :] - spans[:, None], 1).astype(np.int64)
    room = np.array(rooms, dtype=np.int64)
    nodes = len(rooms)
    return Problem(
        compute=np.tile(spans.astype(np.int64), (nodes, 1)),
        head=np.zeros(nodes, dtype=np.int64),
        forward=np.full((nodes, nodes), forward, dtype=np.int64),
        enter=np.zeros(nodes, dtype=np.int64),
        leave=np.zeros(nodes, dtype=np.int64),
        fits=(need > 0) & (need <= room[:, None, None]),
        room=room,
        need=need,
    )


def test_one_layer_on_two_machines_has_no_chain() -> None:
    search = Search(_plain(1, [5, 5]))
    assert (search.most(), search.best(2).chains) == (1, ())


def test_five_machines_for_four_layers_take_four_at_most() -> None:
    search = Search(_plain(4, [1, 1, 1, 1, 1]))
    assert (search.fewest(), search.most()) == (4, 4)
    assert search.best(4).chains[0].cuts == (0, 1, 2, 3, 4)
    assert search.best(5).chains == ()


def test_a_roomy_machine_is_not_used_twice() -> None:
    # With the large machine before and behind a small one two would do; there is only one of it.
    search = Search(_plain(100, [60, 10, 10, 10, 10, 10, 5]))
    assert search.fewest() == 5
    outcome = search.best(5)
    assert len(set(outcome.chains[0].nodes)) == 5


def test_many_machines_that_only_just_hold_it_are_found() -> None:
    search = Search(_plain(120, [4] * 30))
    outcome = search.best(30)
    assert search.fewest() == 30
    assert len(outcome.chains[0].nodes) == 30


def test_what_was_not_compared_is_admitted() -> None:
    generator = np.random.default_rng(1)
    wide = _plain(60, [int(room) for room in generator.integers(4, 12, 20)])
    hops = generator.integers(1, 1000, (20, 20))
    uneven = Problem(
        wide.compute,
        wide.head,
        hops.astype(np.int64),
        wide.enter,
        wide.leave,
        wide.fits,
        wide.room,
        wide.need,
    )
    search = Search(uneven)
    outcome = search.best(search.fewest() + 2)
    assert outcome.chains
    assert not outcome.proven
