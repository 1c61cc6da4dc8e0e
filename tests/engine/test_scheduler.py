"""What a step computes."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.engine.scheduler import SMALLEST_CHUNK, Lanes, PrefillRate, plan_step


@dataclass(eq=False)
class FakeJob:
    """A job that lacks so many tokens."""

    lacks: int

    def missing(self) -> int:
        return self.lacks


@given(st.lists(st.integers(1, 2000), max_size=8), st.floats(1, 50_000), st.integers(8, 512))
def test_decodes_are_never_left_out_and_the_batch_never_overflows(
    missing: list[int], speed: float, capacity: int
) -> None:
    jobs = [FakeJob(lacks) for lacks in missing]
    work = plan_step(jobs, PrefillRate(speed), capacity=capacity)
    planned = {id(part.job): part for part in work}
    assert sum(part.count for part in work) <= capacity
    for job in jobs:
        if job.lacks == 1:
            assert planned[id(job)].finishes
    for part in work:
        assert 1 <= part.count <= part.job.lacks
        assert part.finishes == (part.count == part.job.lacks)
    if jobs:
        assert work


def test_prefill_beside_decode_is_short_and_alone_is_long() -> None:
    rate = PrefillRate(1000.0, largest_chunk=4096)
    assert rate.budget(decoding=True, capacity=512) == 512
    assert rate.budget(decoding=True, capacity=2048) == 600
    assert rate.budget(decoding=False, capacity=4096) == 2000
    assert rate.budget(decoding=True, capacity=8) == 8
    assert PrefillRate(1000.0, largest_chunk=64).budget(decoding=False, capacity=512) == 64
    slow = PrefillRate(1.0)
    assert slow.budget(decoding=False, capacity=512) == SMALLEST_CHUNK


def test_rate_follows_what_is_measured_and_ignores_tiny_steps() -> None:
    rate = PrefillRate(100.0)
    rate.note(4, 0.001)
    rate.note(512, 0.0)
    assert rate.tokens_per_second == 100.0
    for _ in range(10):
        rate.note(500, 0.5)
    assert 950 < rate.tokens_per_second <= 1000


def test_lanes_say_when_one_is_free() -> None:
    lanes: Lanes[FakeJob] = Lanes(2)
    lanes.active.append(FakeJob(1))
    assert lanes.free()
    lanes.active.append(FakeJob(1))
    assert not lanes.free()
