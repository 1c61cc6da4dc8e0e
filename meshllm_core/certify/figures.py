"""Comparing logits: does the most likely token stay the same, and how far did the distribution move."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meshllm_core.errors import EngineError
from meshllm_core.wire.codecs.base import Rows

NOISE = 1e-5
"""Relative size of the Gaussian noise that sets the floor: a change that means nothing."""
_VALUES = 1 << 18
"""Logits that are widened to 64 bits at a time."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One comparison at every position."""

    agreed: NDArray[np.bool_]
    """(n,): whether the most likely token is the reference's."""
    kl: NDArray[np.float64]
    """(n,): Kullback-Leibler divergence from the reference, in nats."""


def compare(reference: Rows, logits: Rows) -> Sample:
    """Logits, both (n, vocabulary). Raises EngineError when they cannot be compared."""
    if reference.shape != logits.shape or reference.ndim != 2:
        raise EngineError(f"Logits of shapes {reference.shape} and {logits.shape} cannot be compared.")
    if not (np.isfinite(reference).all() and np.isfinite(logits).all()):
        raise EngineError(
            "The engine computed logits that are not finite.",
            hint="The model's file or this machine's driver is faulty: run `meshllm doctor`.",
        )
    step = max(1, _VALUES // max(1, reference.shape[1]))
    kl = np.empty(len(reference))
    for start in range(0, len(reference), step):
        p = _log_softmax(reference[start : start + step])
        q = _log_softmax(logits[start : start + step])
        # Rounding can leave something below zero where both are the same.
        kl[start : start + step] = np.maximum((np.exp(p) * (p - q)).sum(axis=1), 0.0)
    return Sample(reference.argmax(axis=1) == logits.argmax(axis=1), kl)


def joined(samples: Sequence[Sample]) -> Sample:
    """The positions of all of them, in order."""
    if not samples:
        return Sample(np.empty(0, np.bool_), np.empty(0))
    return Sample(np.concatenate([s.agreed for s in samples]), np.concatenate([s.kl for s in samples]))


def perturbed(rows: Rows, generator: np.random.Generator) -> Rows:
    """`rows` with Gaussian noise of NOISE, relative to each value."""
    noise = generator.standard_normal(rows.shape, dtype=np.float32)
    return rows * (np.float32(1) + np.float32(NOISE) * noise)


def _log_softmax(logits: Rows) -> NDArray[np.float64]:
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    wide -= np.log(np.exp(wide).sum(axis=1, keepdims=True))
    return wide
