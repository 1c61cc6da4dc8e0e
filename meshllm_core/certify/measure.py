"""Measuring codecs at the boundaries of a chain of stages, along the unsplit model's own answers."""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from meshllm_core.certify.figures import Sample, compare, joined, perturbed
from meshllm_core.certify.verdict import Figures, figures_of
from meshllm_core.errors import EngineError
from meshllm_core.wire.codecs import Codec, Dtype, codec_for
from meshllm_core.wire.codecs.base import Rows

Boundary = Callable[[Rows], Rows]
"""What happens to the rows between two stages."""


class Chain(Protocol):
    """The stages of one model, in this process or behind it."""

    def start(self, tokens: Sequence[int]) -> Rows:
        """The rows that the first stage hands on, (n, width), for all tokens of one sequence at once."""

    def finish(self, tokens: Sequence[int], rows: Rows, boundary: Boundary, answers: int) -> Rows:
        """Logits of the last `answers` positions, (answers, vocabulary).

        `rows` are those of `start`; `boundary` changes them, and what each later stage hands on.
        """


class Measurement:
    """Comparisons over many answers, for several codecs and the noise floor."""

    def __init__(self, dtypes: Sequence[Dtype], width: int, seeds: Sequence[int]) -> None:
        """`seeds` of the floor's noise, one sample each."""
        self._codecs = {dtype: codec_for(dtype, width) for dtype in dtypes}
        self._noise = [np.random.default_rng(seed) for seed in seeds]
        self._samples: dict[Dtype, list[Sample]] = {dtype: [] for dtype in dtypes}
        self._floor: list[list[Sample]] = [[] for _ in seeds]
        self.positions = 0
        """Positions compared so far."""
        self.widened = dict.fromkeys(dtypes, 0)
        """Rows that would have been sent as f32, by codec, because a value was out of range."""

    def add(self, chain: Chain, tokens: Sequence[int], answers: int, unsplit: bytes) -> None:
        """Compares the last `answers` positions of `tokens`. `unsplit`: `digest` of the whole model's logits.

        Raises EngineError when the chain itself, at f32, is not the unsplit model: then no codec can be.
        """
        rows = chain.start(tokens)
        reference = chain.finish(tokens, rows, _as_it_is, answers)
        if digest(reference) != unsplit:
            raise EngineError(
                "The stages do not compute what the whole model does, even at f32.",
                hint="These cuts are not exact with this build of llama.cpp: choose others.",
            )
        for generator, kept in zip(self._noise, self._floor, strict=True):
            noisy = chain.finish(tokens, rows, partial(perturbed, generator=generator), answers)
            kept.append(compare(reference, noisy))
        for dtype, codec in self._codecs.items():
            logits = chain.finish(tokens, rows, partial(self._carried, codec), answers)
            self._samples[dtype].append(compare(reference, logits))
        self.positions += answers

    def figures(self) -> dict[Dtype, Figures]:
        """The figures of each codec so far."""
        floor = [joined(samples) for samples in self._floor]
        return {dtype: figures_of(joined(samples), floor) for dtype, samples in self._samples.items()}

    def _carried(self, codec: Codec, rows: Rows) -> Rows:
        """The rows as they come out at the other side; frames of a row each, as in decoding."""
        rows = np.ascontiguousarray(rows, np.float32)
        data, out = np.empty(codec.size(len(rows)), np.uint8), np.empty_like(rows)
        if codec.encode(rows, data):
            codec.decode(data, out)
            return out
        one = data[: codec.size(1)]
        for place in range(len(rows)):
            row = rows[place : place + 1]
            if codec.encode(row, one):
                codec.decode(one, out[place : place + 1])
            else:
                out[place] = row[0]
                self.widened[codec.dtype] += 1
        return out


def digest(logits: Rows) -> bytes:
    """SHA-256 of logits, so that two passes can be compared to the bit without keeping both."""
    return hashlib.sha256(np.ascontiguousarray(logits).data).digest()


def _as_it_is(rows: Rows) -> Rows:
    return rows
