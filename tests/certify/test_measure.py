"""A small chain in numpy is measured as a model would be."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from meshllm_core.certify.measure import Boundary, Measurement, digest
from meshllm_core.certify.verdict import Verdict, judge
from meshllm_core.errors import EngineError
from meshllm_core.wire.codecs import Dtype
from meshllm_core.wire.codecs.base import Rows

WIDTH, VOCABULARY = 64, 50
CODECS = (Dtype.F32, Dtype.F16, Dtype.BF16, Dtype.Q8, Dtype.Q8X)


class NumpyChain:
    """Three stages: an embedding with a few huge channels, a mixing layer, a readout that ignores them."""

    def __init__(self, *, huge: float = 3000.0) -> None:
        rng = np.random.default_rng(7)
        self.embedding = rng.standard_normal((VOCABULARY, WIDTH)).astype(np.float32)
        self.embedding[:, [3, 40]] *= np.float32(huge)
        self.mix = np.eye(WIDTH, dtype=np.float32)
        self.mix[:, 5:9] += rng.standard_normal((WIDTH, 4)).astype(np.float32) / np.float32(huge)
        self.readout = rng.standard_normal((WIDTH, VOCABULARY)).astype(np.float32)
        self.readout[[3, 40]] = 0
        self.boundaries = 0

    def start(self, tokens: Sequence[int]) -> Rows:
        return self.embedding[list(tokens)]

    def finish(self, tokens: Sequence[int], rows: Rows, boundary: Boundary, answers: int) -> Rows:
        middle: NDArray[np.float32] = boundary(rows) @ self.mix
        self.boundaries += 2
        last: NDArray[np.float32] = boundary(middle) @ self.readout
        return last[-answers:]


def measured(chain: NumpyChain, texts: int = 30) -> Measurement:
    measurement = Measurement(CODECS, WIDTH, seeds=(1, 2, 3))
    rng = np.random.default_rng(0)
    for _ in range(texts):
        tokens = rng.integers(0, VOCABULARY, 100).tolist()
        unsplit = digest(chain.finish(tokens, chain.start(tokens), lambda rows: rows, 80))
        measurement.add(chain, tokens, 80, unsplit)
    return measurement


def test_codecs_are_told_apart() -> None:
    measurement = measured(NumpyChain())
    figures = measurement.figures()
    assert measurement.positions == 2400
    assert {one.positions for one in figures.values()} == {2400}
    assert (figures[Dtype.F32].agreed, figures[Dtype.F32].max_kl) == (2400, 0.0)
    assert judge(figures[Dtype.F32]) is Verdict.EXACT
    assert judge(figures[Dtype.Q8]) is Verdict.REJECTED
    assert figures[Dtype.F16].mean_kl < figures[Dtype.BF16].mean_kl < figures[Dtype.Q8X].mean_kl
    assert figures[Dtype.Q8X].mean_kl < figures[Dtype.Q8].mean_kl / 100
    assert figures[Dtype.F16].floor_mean_kl < figures[Dtype.F16].mean_kl


def test_the_same_measurement_gives_the_same_figures() -> None:
    assert measured(NumpyChain(), 5).figures() == measured(NumpyChain(), 5).figures()


def test_rows_beyond_f16_go_as_they_are_and_are_counted() -> None:
    chain = NumpyChain(huge=40_000.0)
    measurement = measured(chain, 3)
    assert measurement.widened[Dtype.F16] > 0
    assert measurement.widened[Dtype.Q8X] == measurement.widened[Dtype.F32] == 0
    assert measurement.figures()[Dtype.F16].mean_kl < 1e-3


def test_a_chain_that_is_not_the_model_cannot_be_measured() -> None:
    with pytest.raises(EngineError, match="even at f32"):
        Measurement(CODECS, WIDTH, seeds=(1, 2, 3)).add(NumpyChain(), [1, 2, 3], 2, bytes(32))
