"""Every cut of one small random model, beside the model whole."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from meshllm_core.engine.llama.stage_tap import Rows
from meshllm_core.errors import CutRefused, EngineError, ModelError
from meshllm_core.models.stage_rules import Mechanism, StageRules
from meshllm_core.models.stage_support import CutRecord, ModelRecord
from tests.stages.chain import DECODE, PREFILL, Chain, rules_of, write_stages
from tests.support.tiny_architecture_keys import VOCABULARY
from tests.support.tiny_architectures import write_tiny

TAKEN_BACK = 5
"""Positions that the test of rollback takes back: less than DECODE."""
ALL_CUTS_UP_TO = 12
"""Layers; of larger models a few cuts are examined."""

_ORDER: tuple[Mechanism, ...] = ("file", "hook", "pad", "tokens")


def cuts_of(layers: int) -> tuple[int, ...]:
    """The cuts to examine."""
    if layers <= ALL_CUTS_UP_TO:
        return tuple(range(1, layers))
    half = layers // 2
    return tuple(sorted({1, 6, half - 1, half, 18, 19, layers - 2, layers - 1} & set(range(1, layers))))


class Subject:
    """One model, and what it answers undivided."""

    def __init__(self, folder: Path, architecture: str, variant: str) -> None:
        self.folder = folder
        self.path = write_tiny(folder / "model.gguf", architecture, variant)
        random = np.random.default_rng(11)
        self.tokens: list[int] = random.integers(0, VOCABULARY, PREFILL + DECODE).tolist()
        self.expected = self._run([self.path])
        # Random weights must give something that can differ.
        assert np.isfinite(self.expected).all() and float(self.expected.std()) > 0.05

    @property
    def rules(self) -> StageRules:
        """What the table says of it."""
        return rules_of(self.path)

    def _run(self, files: list[Path]) -> Rows:
        chain = Chain(files)
        found = chain.run(self.tokens)
        chain.close()
        return found

    def cut(self, *cuts: int) -> CutRecord:
        """A chain of stages, or the refusal's words. The record bears the first cut's number."""
        try:
            rules = self.rules
            edges = [0, *cuts, rules.layers]
            shapes = [rules.shape(a, b) for a, b in pairwise(edges)]
            files = write_stages(self.path, cuts, self.folder)
        except CutRefused as error:
            return CutRecord(cuts[0], "refused", words=str(error))
        mechanism = max((shape.mechanism for shape in shapes), key=_ORDER.index)
        padding = sum(shape.padding for shape in shapes)
        try:
            found = self._run(files)
        except (ModelError, EngineError) as error:
            return CutRecord(cuts[0], "wrong", mechanism, padding, str(error))
        finally:
            for file in files:
                file.unlink()
        if np.array_equal(found, self.expected):
            return CutRecord(cuts[0], "exact", mechanism, padding)
        worst = float(np.abs(found - self.expected).max())
        return CutRecord(cuts[0], "wrong", mechanism, padding, f"logits differ by up to {worst:.2g}")

    def rollback(self, cut: int) -> str:
        """Whether the last positions can be computed twice: exact, refused or wrong."""
        files = write_stages(self.path, [cut], self.folder)
        chain = Chain(files)
        chain.run(self.tokens)
        start = len(self.tokens) - TAKEN_BACK
        try:
            again = [chain.feed([self.tokens[at]], at) for at in range(start, len(self.tokens))]
        except EngineError:
            return "refused"
        finally:
            chain.close()
        return "exact" if np.array_equal(np.concatenate(again), self.expected[start:]) else "wrong"


def examine(
    folder: Path, architecture: str, variant: str, skip: int = 0
) -> Iterator[CutRecord | ModelRecord]:
    """What the model is, each cut in turn from the one after `skip`, then the record without cuts."""
    subject = Subject(folder, architecture, variant)
    layers = subject.rules.layers
    yield ModelRecord(architecture, variant, layers)
    for cut in cuts_of(layers):
        if cut > skip:
            yield subject.cut(cut)
    legal = subject.rules.legal_cuts
    middle = min(legal, key=lambda cut: abs(cut - layers // 2))
    yield ModelRecord(
        architecture,
        variant,
        layers,
        first_stage="rows" if subject.rules.shape(0, middle).looked_up else "tokens",
        rollback=subject.rollback(middle),  # type: ignore[arg-type]
    )
