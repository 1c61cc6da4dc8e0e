"""The verdict of a measurement: a codec against the artifact's own noise floor.

Quantized kernels round activations themselves, so that a change of one in ten million already flips tokens.
"The next token stayed the same" would certify luck; less harm than meaningless noise does is what counts.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
import numpy as np

from meshllm_core.certify.figures import Sample

MIN_POSITIONS = 2000
MIN_SEEDS = 3
EXACT_FACTOR = 2.0
"""Exact: the mean KL is at most so many times the floor's."""
VALIDATED_KL = 1e-3
"""Validated: the mean KL is at most this, in nats, or EXACT_FACTOR times the floor's."""
SIGNIFICANT = 1.645
"""Standard errors: one-sided, 95 %."""
_NO_SPREAD = 1e6

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
Nats = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class Verdict(StrEnum):
    """What is known of a codec for an artifact, its cuts and its backend."""

    EXACT = "exact"
    VALIDATED = "validated"
    REJECTED = "rejected"
    UNTESTED = "untested"


class Figures(msgspec.Struct, frozen=True, array_like=True):
    """What was measured, in numbers that fit in a record."""

    positions: Count
    agreed: Count
    """Positions whose most likely token is the reference's."""
    mean_kl: Nats
    """Nats, against the unsplit model."""
    max_kl: Nats
    floor_seeds: Annotated[int, msgspec.Meta(ge=0, le=1024)]
    floor_agreed: Annotated[float, msgspec.Meta(ge=0, le=1 << 40)]
    """Positions that agree under the noise, mean over the seeds."""
    floor_mean_kl: Nats
    shortfall: Annotated[float, msgspec.Meta(ge=-_NO_SPREAD, le=_NO_SPREAD)]
    """How far the agreement is below the floor's, in standard errors of the difference at each position."""


def figures_of(codec: Sample, floor: Sequence[Sample]) -> Figures:
    """The figures of one codec; `floor` holds one sample per seed, at the same positions."""
    positions = len(codec.agreed)
    noise = np.mean([s.agreed for s in floor], axis=0) if floor else np.ones(positions)
    return Figures(
        positions=positions,
        agreed=int(codec.agreed.sum()),
        mean_kl=float(codec.kl.mean()) if positions else 0.0,
        max_kl=float(codec.kl.max()) if positions else 0.0,
        floor_seeds=len(floor),
        floor_agreed=float(noise.sum()),
        floor_mean_kl=float(np.mean([s.kl.mean() for s in floor])) if floor and positions else 0.0,
        shortfall=_shortfall(noise - codec.agreed),
    )


def _shortfall(missing: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]") -> float:
    """Mean over its standard error; compared position by position, what is hard for both cancels out."""
    if len(missing) < 2 or not missing.any():
        return 0.0
    error = float(missing.std(ddof=1)) / math.sqrt(len(missing))
    mean = float(missing.mean())
    limit = _NO_SPREAD
    return max(-limit, min(limit, mean / error)) if error else math.copysign(limit, mean)


def judge(figures: Figures) -> Verdict:
    """The verdict. Too few positions or seeds say nothing: untested."""
    if figures.positions < MIN_POSITIONS or figures.floor_seeds < MIN_SEEDS:
        return Verdict.UNTESTED
    near = EXACT_FACTOR * figures.floor_mean_kl
    if figures.mean_kl <= near:
        return Verdict.EXACT
    if figures.mean_kl <= max(near, VALIDATED_KL) and figures.shortfall <= SIGNIFICANT:
        return Verdict.VALIDATED
    return Verdict.REJECTED


def reason(figures: Figures) -> str:
    """The figures behind a verdict, in one clause."""
    if figures.positions < MIN_POSITIONS or figures.floor_seeds < MIN_SEEDS:
        return (
            f"measured at {figures.positions} positions with {figures.floor_seeds} noise seeds; "
            f"it takes {MIN_POSITIONS} and {MIN_SEEDS}"
        )
    return (
        f"{figures.agreed} of {figures.positions} most likely tokens unchanged, mean KL "
        f"{figures.mean_kl:.1e} nats; noise alone leaves {figures.floor_agreed:.0f} and makes "
        f"{figures.floor_mean_kl:.1e}"
    )
