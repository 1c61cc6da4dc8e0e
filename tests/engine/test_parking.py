"""What is kept outside the KV cache."""

from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.engine.parking import Parked, Parking


def _entry(*tokens: int, size: int = 10) -> Parked:
    return Parked(tokens, bytearray(size))


def test_the_oldest_leaves_when_it_is_full() -> None:
    parking = Parking(25)
    first, second, third = _entry(1), _entry(2), _entry(3)
    for entry in (first, second, third):
        parking.add(entry)
    assert parking.size == 20
    assert parking.best_match([1]) is None
    assert parking.best_match([3, 4]) == (third, 1)


def test_what_is_too_large_is_not_kept_and_costs_nobody_a_place() -> None:
    parking = Parking(25)
    parking.add(_entry(1))
    assert not parking.admits(26)
    parking.add(_entry(2, size=26))
    assert parking.size == 10
    assert not Parking(0).admits(1)


def test_a_continuation_replaces_what_it_continues() -> None:
    parking = Parking(100)
    parking.add(_entry(1, 2))
    longer = _entry(1, 2, 3)
    parking.add(longer)
    assert parking.size == 10
    assert parking.best_match([1, 2, 3, 4]) == (longer, 3)
    parking.remove(longer)
    assert parking.size == 0


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=5), st.integers(0, 40)), max_size=20)
)
def test_never_larger_than_its_limit(entries: list[tuple[list[int], int]]) -> None:
    parking = Parking(60)
    for tokens, size in entries:
        parking.add(Parked(tuple(tokens), bytearray(size)))
        assert parking.size <= 60
        found = parking.best_match(tokens)
        assert found is None or found[0].tokens[: found[1]] == tuple(tokens[: found[1]])
