"""How prompts are cut for a chain: by table, and against a chain that is played step by step."""

from collections.abc import Sequence
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.planner.chunk import (
    LONGEST_STEP_MS,
    MOST_AHEAD,
    PROMPT,
    SIZES,
    UNDER_WAY_BYTES,
    USUAL_AHEAD,
    Chunks,
    StagePace,
    choose_chunks,
)
from meshllm_core.planner.network import HOP_OVERHEAD_MS


def chain(
    count: int, read: float | None, token: float | None, hop: float = 0.0, rate: float | None = None
) -> tuple[StagePace, ...]:
    return (StagePace(read, token, hop, rate),) * count


CPU = chain(2, 3.0, 1.6, 10.0)
"""Half of a small model on two slow processors."""
GPU = chain(2, 10.0, 0.05, 10.0)
"""Half of a large model on two cards: reading the weights takes as long as 200 tokens."""


@pytest.mark.parametrize(
    ("stages", "row_bytes", "batch", "rows", "ahead"),
    [
        (chain(2, None, None), 2304, 512, 128, USUAL_AHEAD),
        (chain(2, None, 1.0), 2304, 512, 128, USUAL_AHEAD),
        ((*chain(1, 3.0, 1.0), *chain(1, None, None)), 2304, 64, 64, USUAL_AHEAD),
        (CPU, 2304, 512, 128, 3),
        (CPU, 2304, 100, 100, 3),
        (GPU, 16_384, 2048, 512, 3),
        (chain(2, 10.0, 0.05, 10.0, 12.5e6), 16_384, 2048, 128, 3),
        (chain(2, 3.0, 1.6, 300.0), 2304, 512, 128, 5),
        (chain(2, 1.0, 0.1, 300.0), 2304, 512, 512, MOST_AHEAD),
        (chain(2, 20.0, 30.0), 2304, 512, 16, 2),
        (chain(5, 3.0, 1.6, 10.0), 2304, 512, 64, 6),
        (chain(2, 0.1, 0.01, 300.0), 1 << 20, 64, 64, 1),
    ],
    ids=[
        "nothing known",
        "half known",
        "one stage known, small batch",
        "processors",
        "an odd batch",
        "cards",
        "cards behind a slow link",
        "far apart",
        "far apart and fast",
        "too slow for any",
        "five stages",
        "huge rows",
    ],
)
def test_the_choice(stages: Sequence[StagePace], row_bytes: int, batch: int, rows: int, ahead: int) -> None:
    assert choose_chunks(stages, row_bytes=row_bytes, batch=batch) == Chunks(rows, ahead)


def played(stages: Sequence[StagePace], row_bytes: int, cut: Chunks, tokens: int = PROMPT) -> float:
    """Milliseconds until the driver is through with a prompt, chunk by chunk."""
    free, wire = [0.0] * len(stages), [0.0] * len(stages)
    done: list[float] = []
    for number in range(ceil(tokens / cut.rows)):
        # One more is sent when the driver begins the chunk that was sent `ahead` + 1 before.
        at = done[number - cut.ahead - 1] if number > cut.ahead else 0.0
        for index, stage in enumerate(stages):
            if index and stage.bytes_per_second:
                wire[index] = max(wire[index], at) + cut.rows * row_bytes / stage.bytes_per_second * 1000
                at = wire[index]
            assert stage.read_ms is not None
            assert stage.token_ms is not None
            begun = max(free[index], at + stage.one_way_ms)
            at = free[index] = begun + stage.read_ms + stage.token_ms * cut.rows + HOP_OVERHEAD_MS
        done.append(at)
    return done[-1]


TIMES = st.floats(0.01, 50.0)
STAGES = st.lists(
    st.builds(StagePace, TIMES, st.floats(0.005, 10.0), TIMES, st.none() | st.floats(1e6, 1e10)),
    min_size=2,
    max_size=5,
)


@given(STAGES, st.integers(64, 32_768), st.integers(32, 16_384))
def test_bounds_hold_whatever_the_machines_are(stages: list[StagePace], row_bytes: int, batch: int) -> None:
    found = choose_chunks(stages, row_bytes=row_bytes, batch=batch)
    assert 1 <= found.rows <= batch
    assert 1 <= found.ahead <= MOST_AHEAD
    assert found.ahead == 1 or found.ahead * found.rows * row_bytes <= UNDER_WAY_BYTES
    steps = [(each.read_ms or 0) + (each.token_ms or 0) * found.rows + HOP_OVERHEAD_MS for each in stages]
    assert max(steps) <= LONGEST_STEP_MS or found.rows == min(SIZES[0], batch)


@given(STAGES, st.integers(64, 8192))
def test_it_is_nearly_the_best_of_all_sizes(stages: list[StagePace], row_bytes: int) -> None:
    found = choose_chunks(stages, row_bytes=row_bytes, batch=512)
    longest = {
        size: max((each.read_ms or 0) + (each.token_ms or 0) * size for each in stages) for size in SIZES
    }
    quick = [size for size in SIZES if size <= 512 and longest[size] + HOP_OVERHEAD_MS <= LONGEST_STEP_MS]
    if found.rows in quick:
        least = min(played(stages, row_bytes, Chunks(size, MOST_AHEAD)) for size in quick)
        assert played(stages, row_bytes, found) <= 1.1 * least
