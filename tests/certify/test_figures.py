"""The arithmetic of agreement and KL, and the verdicts that follow."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from meshllm_core.certify.figures import NOISE, Sample, compare, joined, perturbed
from meshllm_core.certify.verdict import Figures, Verdict, figures_of, judge, reason
from meshllm_core.errors import EngineError
from tests.certify.support import EXACT, REJECTED, UNTESTED, VALIDATED


def logits(*rows: list[float]) -> NDArray[np.float32]:
    return np.array(rows, np.float32)


def test_kl_is_that_of_the_textbook() -> None:
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.5, 0.25, 0.25])
    sample = compare(np.log(p)[None].astype(np.float32), (np.log(q) + 40)[None].astype(np.float32))
    expected = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    assert sample.kl[0] == pytest.approx(expected, rel=1e-4)
    assert sample.agreed.tolist() == [True]


def test_agreement_is_the_most_likely_token() -> None:
    sample = compare(logits([1, 2, 3], [3, 2, 1]), logits([1, 4, 3], [9, 2, 1]))
    assert sample.agreed.tolist() == [False, True]


def test_the_same_logits_differ_by_nothing() -> None:
    rows = np.random.default_rng(0).standard_normal((700, 1000)).astype(np.float32) * 20
    sample = compare(rows, rows.copy())
    assert sample.agreed.all()
    assert not sample.kl.any()


def test_pieces_make_no_difference() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((9, 100_000)).astype(np.float32) for _ in range(2))
    whole = compare(a, b)
    apart = joined([compare(a[i : i + 1], b[i : i + 1]) for i in range(9)])
    assert np.array_equal(whole.kl, apart.kl)
    assert np.array_equal(whole.agreed, apart.agreed)


def test_extreme_logits_stay_finite() -> None:
    sample = compare(logits([1e30, 0, -1e30]), logits([-1e30, 0, 1e30]))
    assert np.isfinite(sample.kl).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(EngineError, match="not finite"):
        compare(logits([1, 2]), logits([1, bad]))


def test_logits_of_other_shapes_are_refused() -> None:
    with pytest.raises(EngineError, match="compared"):
        compare(logits([1, 2]), logits([1, 2, 3]))


def test_noise_is_relative_and_repeats_with_its_seed() -> None:
    rows = np.full((100, 500), 1000, np.float32)
    noisy = perturbed(rows, np.random.default_rng(5))
    assert np.array_equal(noisy, perturbed(rows, np.random.default_rng(5)))
    spread = ((noisy.astype(np.float64) - 1000) / 1000).std()
    assert spread == pytest.approx(NOISE, rel=0.05)


def sample(agreed: NDArray[np.bool_], kl: float) -> Sample:
    return Sample(agreed, np.full(len(agreed), kl))


def test_figures_are_summed_over_positions_and_seeds() -> None:
    agreed = np.array([True] * 90 + [False] * 10)
    floor = [sample(np.roll(agreed, seed), 0.001 * seed) for seed in (1, 2, 3)]
    figures = figures_of(Sample(agreed, np.linspace(0, 1, 100)), floor)
    assert (figures.positions, figures.agreed, figures.floor_seeds) == (100, 90, 3)
    assert figures.floor_agreed == pytest.approx(90)
    assert (figures.mean_kl, figures.max_kl) == pytest.approx((0.5, 1.0))
    assert figures.floor_mean_kl == pytest.approx(0.002)
    assert figures.shortfall == pytest.approx(0, abs=1e-9)


def test_the_shortfall_is_a_paired_z() -> None:
    floor = np.ones(2500, np.bool_)
    codec = floor.copy()
    codec[:25] = False
    figures = figures_of(sample(codec, 0), [sample(floor, 0)] * 3)
    spread = math.sqrt(0.01 * 0.99 * 2500 / 2499)
    assert figures.shortfall == pytest.approx(0.01 / (spread / 50))
    assert figures_of(sample(floor, 0), [sample(codec, 0)] * 3).shortfall < 0


def test_no_positions_are_untested() -> None:
    figures = figures_of(joined([]), [joined([])] * 3)
    assert judge(figures) is Verdict.UNTESTED
    assert "0 positions" in reason(figures)


@pytest.mark.parametrize(
    ("figures", "verdict"),
    [
        (EXACT, Verdict.EXACT), (VALIDATED, Verdict.VALIDATED), (REJECTED, Verdict.REJECTED),
        (UNTESTED, Verdict.UNTESTED),
        (msgspec.structs.replace(EXACT, mean_kl=4e-3), Verdict.EXACT),
        (msgspec.structs.replace(EXACT, mean_kl=4.001e-3, shortfall=0.0), Verdict.REJECTED),
        (msgspec.structs.replace(VALIDATED, shortfall=1.7), Verdict.REJECTED),
        (msgspec.structs.replace(VALIDATED, mean_kl=1.001e-3), Verdict.REJECTED),
        (msgspec.structs.replace(EXACT, floor_seeds=2), Verdict.UNTESTED),
    ],
)  # fmt: skip
def test_verdicts_follow_the_rule(figures: Figures, verdict: Verdict) -> None:
    assert judge(figures) is verdict


def measured(positions: int, agreed: int, mean_kl: float, floor_agreed: int, floor_kl: float) -> Figures:
    """Figures scaled to 2,376 positions (six times a published table), shortfall as if unpaired."""
    n = positions * 6
    p, q = agreed / positions, floor_agreed / positions
    error = math.sqrt((p * (1 - p) + q * (1 - q)) / n) or 1.0
    return Figures(n, agreed * 6, mean_kl, mean_kl, 3, floor_agreed * 6.0, floor_kl, (q - p) / error)


@pytest.mark.parametrize(
    ("figures", "verdict"),
    [
        (measured(396, 386, 2.2e-3, 390, 2.2e-3), Verdict.EXACT),  # SmolLM2 Q4_1, f16
        (measured(396, 359, 5.2e-2, 390, 2.2e-3), Verdict.REJECTED),  # q8
        (measured(396, 386, 2.5e-3, 390, 2.2e-3), Verdict.EXACT),  # q8x
        (measured(396, 390, 4.2e-3, 391, 3.5e-3), Verdict.EXACT),  # Gemma, q8x
        (measured(396, 339, 2.7e-1, 391, 3.5e-3), Verdict.REJECTED),  # Gemma, q8
        (measured(396, 395, 4.7e-5, 396, 3.4e-7), Verdict.VALIDATED),  # SmolLM2 F32, q8x
        (measured(396, 353, 5.2e-2, 396, 3.4e-7), Verdict.REJECTED),  # SmolLM2 F32, q8
    ],
)
def test_earlier_measurements_come_out_as_they_were_read(figures: Figures, verdict: Verdict) -> None:
    if verdict is Verdict.VALIDATED:
        figures = msgspec.structs.replace(figures, shortfall=min(figures.shortfall, 1.6))
    assert judge(figures) is verdict


@given(st.lists(st.booleans(), min_size=1, max_size=50), st.lists(st.booleans(), min_size=1, max_size=50))
def test_any_sample_gives_figures_within_the_records_bounds(a: list[bool], b: list[bool]) -> None:
    n = min(len(a), len(b))
    figures = figures_of(sample(np.array(a[:n]), 0.1), [sample(np.array(b[:n]), 0.1)] * 3)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(figures), type=Figures) == figures
