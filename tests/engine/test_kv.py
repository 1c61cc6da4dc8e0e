"""The ledger against a naive model of a unified cache: sets of cells per sequence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.engine.kv import Ledger, common_prefix

SEQUENCES = 4
operation = st.one_of(
    st.tuples(st.just("extend"), st.integers(0, SEQUENCES - 1), st.lists(st.integers(0, 3), max_size=6)),
    st.tuples(st.just("trim"), st.integers(0, SEQUENCES - 1), st.integers(0, 8)),
    st.tuples(st.just("share"), st.integers(0, SEQUENCES - 1), st.integers(0, SEQUENCES - 1)),
)


@given(st.lists(operation, max_size=40))
def test_used_cells_are_the_union_over_sequences(operations: list[tuple[str, int, object]]) -> None:
    ledger = Ledger(SEQUENCES, 1000)
    naive: list[list[object]] = [[] for _ in range(SEQUENCES)]
    for kind, sequence, argument in operations:
        if kind == "extend" and isinstance(argument, list):
            ledger.extend(sequence, argument)
            naive[sequence] += [object() for _ in argument]
        elif kind == "trim" and isinstance(argument, int):
            ledger.trim(sequence, argument)
            del naive[sequence][argument:]
        elif kind == "share" and isinstance(argument, int) and argument != sequence:
            ledger.trim(argument, 0)
            length = len(naive[sequence]) // 2
            ledger.share(sequence, argument, length)
            naive[argument] = naive[sequence][:length]
    assert ledger.used == len({id(cell) for cells in naive for cell in cells})
    assert ledger.free == 1000 - ledger.used
    assert [len(state.tokens) for state in ledger.sequences] == [len(cells) for cells in naive]


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_common_prefix(left: list[int], right: list[int]) -> None:
    length = common_prefix(left, right)
    assert left[:length] == right[:length]
    assert length in (len(left), len(right)) or left[length] != right[length]


def test_best_match_prefers_longest_then_idle() -> None:
    ledger = Ledger(3, 100)
    ledger.extend(0, [1, 2, 3])
    ledger.claim(0, "busy")
    ledger.extend(1, [1, 2, 3, 9])
    ledger.extend(2, [1, 2])
    match = ledger.best_match([1, 2, 3, 4])
    assert match is not None
    assert (match.sequence, match.length, match.idle) == (1, 3, True)
    assert ledger.best_match([7]) is None


def test_vacant_prefers_an_empty_sequence_and_then_the_oldest() -> None:
    ledger = Ledger(3, 100)
    ledger.extend(0, [1])
    ledger.claim(0, "a")
    ledger.release(0)
    ledger.extend(1, [2])
    ledger.claim(1, "b")
    ledger.release(1)
    assert ledger.vacant() == 2
    ledger.claim(2, "c")
    assert ledger.vacant() == 0
    assert ledger.oldest_idle() == 0
    ledger.claim(0, "d")
    ledger.claim(1, "e")
    assert ledger.vacant() is None
    assert ledger.oldest_idle() is None


@pytest.mark.parametrize("length", [0, 2])
def test_trimming_a_shared_beginning_keeps_it_for_the_other(length: int) -> None:
    ledger = Ledger(2, 10)
    ledger.extend(0, [1, 2, 3])
    ledger.share(0, 1, 3)
    assert ledger.used == 3
    ledger.trim(0, length)
    assert ledger.used == 3
    ledger.trim(1, 0)
    assert ledger.used == length
