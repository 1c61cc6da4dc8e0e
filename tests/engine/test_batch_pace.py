"""When decodes that wait are computed together."""

import pytest

from meshllm_core.engine.batch_pace import TRY_AGAIN, BatchPace


def learned(four_rows: float, *, one_row: float = 0.010) -> BatchPace:
    pace = BatchPace()
    pace.note(1, one_row)
    pace.note(4, four_rows)
    return pace


def test_what_is_not_known_is_tried_together() -> None:
    pace = BatchPace()
    assert pace.together(4)
    pace.note(1, 0.010)
    assert pace.together(4)


@pytest.mark.parametrize(
    ("four_rows", "together"), [(0.012, True), (0.030, True), (0.032, False), (0.040, False)]
)
def test_together_where_a_row_among_others_is_cheaper(four_rows: float, together: bool) -> None:
    assert learned(four_rows).together(4) is together
    assert learned(four_rows).pays(4) is together


def test_one_row_is_always_a_step() -> None:
    assert learned(0.040).together(1)


def test_sizes_are_told_apart() -> None:
    pace = learned(0.040)
    pace.note(2, 0.011)
    assert pace.together(2)
    assert not pace.together(4)


def test_what_was_slow_is_measured_again_and_believed() -> None:
    pace = learned(0.040)
    assert [pace.together(4) for _ in range(TRY_AGAIN)].count(True) == 1
    for _ in range(30):
        pace.note(4, 0.012)
    assert pace.together(4)
