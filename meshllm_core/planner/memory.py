"""What every possible stage of a model needs, by the arithmetic of `models.fit`, for all ranges at once."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from meshllm_core.models.facts import GgufFacts
from meshllm_core.models.fit import EngineSettings, compute_bytes, kv_bytes
from meshllm_core.models.units import show_bytes
from meshllm_core.planner.model import STUB_ROWS, SplitModel

Matrix = npt.NDArray[np.int64]
_F32 = 4


@dataclass(frozen=True)
class StageMemory:
    """What one stage takes, term by term, in bytes."""

    weights: int
    kv: int
    compute: int
    boundary: int
    """Hidden states of one step on their way in and out."""

    @property
    def total(self) -> int:
        """All of it; the reserve of the machine comes on top."""
        return self.weights + self.kv + self.compute + self.boundary

    def explain(self) -> str:
        """The terms in words."""
        terms = f"{show_bytes(self.weights)} weights + {show_bytes(self.kv)} KV cache + "
        return terms + f"{show_bytes(self.compute + self.boundary)} buffers"


Window = tuple[int, int]
Windows = Callable[[int, int], Window | None]
"""For a stage with layers [first, end): the layers [first, end) that its file must hold (neighbours as zeros
where the architecture wants them), or None where no stage gives the model's own answers."""


def every_range(first: int, end: int) -> Window | None:
    """For models that may be cut anywhere."""
    return first, end


def ranges_between(cuts: Collection[int], layers: int) -> Windows:
    """Ranges that begin and end at one of `cuts`, the first layer or the last."""
    ends = {0, layers, *cuts}
    return lambda first, end: (first, end) if first in ends and end in ends else None


class MemoryModel:
    """Memory of all stages of a model, for any context."""

    def __init__(
        self, model: SplitModel, settings: EngineSettings, windows: Windows = every_range, idle: int = 0
    ) -> None:
        """`idle`: sequences that the cache keeps beside one for each lane."""
        self.model = model
        self._settings = settings
        self._idle = idle
        self._windows = windows
        layers = model.layers
        first, end = np.indices((layers + 1, layers + 1))
        self.legal = np.asarray(first < end)
        """[first, end]: whether such a stage may exist."""
        self._low, self._high = np.where(self.legal, first, 0), np.where(self.legal, end, 0)
        if windows is not every_range:
            self._apply(windows)
        self._known: dict[tuple[int, int, int, int], StageMemory] = {}

    def _apply(self, windows: Windows) -> None:
        layers = self.model.layers
        for first, end in zip(*np.nonzero(self.legal), strict=True):
            window = (0, layers) if end - first == layers else windows(int(first), int(end))
            self.legal[first, end] = window is not None
            self._low[first, end], self._high[first, end] = window or (0, 0)

    @cached_property
    def _parts(self) -> tuple[Matrix, Matrix, list[tuple[GgufFacts, GgufFacts]]]:
        """What belongs to no layer, the kind of each range, and of each kind the facts of a stage that does
        not know the vocabulary and of one that does."""
        kinds, examples = _kinds(self.model)
        facts = []
        for first, end in examples:
            stub = replace(self.model.stage_facts(first, end), vocabulary=STUB_ROWS)
            facts.append((stub, replace(stub, vocabulary=self.model.facts.vocabulary)))
        return _ends(self.model), kinds, facts

    def stage(self, first: int, end: int, context: int, lanes: int) -> StageMemory:
        """A stage with layers [first, end) for `lanes` lanes of `context` tokens."""
        key = (first, end, context, lanes)
        if key not in self._known:
            self._known[key] = self._stage(first, end, context, lanes)
        return self._known[key]

    def _stage(self, first: int, end: int, context: int, lanes: int) -> StageMemory:
        whole = end - first == self.model.layers
        facts = self.model.stage_facts(first, end, None if whole else self._windows(first, end))
        settings = self._opened(lanes)
        if end < self.model.layers:
            settings = _all_rows(settings)
        borders = (first > 0) + (end < self.model.layers)
        return StageMemory(
            weights=facts.tensor_bytes,
            kv=kv_bytes(facts, context, lanes, settings),
            compute=compute_bytes(facts, context, lanes, settings),
            boundary=borders * _border_bytes(facts, settings),
        )

    def _opened(self, lanes: int) -> EngineSettings:
        """As the engine opens its context for so many lanes: each has its place in every step."""
        sequences = lanes + self._idle
        batch = max(self._settings.batch, sequences)
        return replace(self._settings, batch=batch, outputs=sequences, sequences=sequences)

    def demand(self, context: int, lanes: int) -> Matrix:
        """Entry [first, end] is what a stage with layers [first, end) takes in bytes; 0 where none may be."""
        facts, settings, layers = self.model.facts, self._opened(lanes), self.model.layers
        caches = {
            cache: kv_bytes(replace(facts, caches=(cache,)), context, lanes, settings)
            for cache in dict.fromkeys(facts.caches[:layers])
        }
        each = np.array([caches[cache] for cache in facts.caches[:layers]], dtype=np.int64)
        sums = np.concatenate([[0], np.cumsum(each + np.array(self.model.layer_bytes, dtype=np.int64))])
        ends, kinds, examples = self._parts
        total = ends + sums[self._high] - sums[self._low]
        # A stage's graph depends on its range by a few properties only: each combination is worked out once.
        inner, readers, last = [], [], []
        for stub, full in examples:
            inner.append(compute_bytes(stub, context, lanes, _all_rows(settings)))
            readers.append(compute_bytes(full, context, lanes, _all_rows(settings)))
            last.append(compute_bytes(full, context, lanes, settings))
        kind = kinds[self._low, self._high]
        reading = np.array([self.model.reads(first) for first in range(layers + 1)])
        before = kind[:, :layers]
        total[:, :layers] += np.where(reading[:, None], np.array(readers)[before], np.array(inner)[before])
        total[:, layers] += np.array(last, dtype=np.int64)[kind[:, layers]]
        border = _border_bytes(facts, settings)
        total[1:, :] += border
        total[:, :layers] += border
        total[0, layers] = self.stage(0, layers, context, lanes).total
        return np.where(self.legal, total, 0)


def _all_rows(settings: EngineSettings) -> EngineSettings:
    """A stage that hands its hidden states on needs every row of a step, not only those that are sampled."""
    return replace(settings, outputs=settings.batch)


def _border_bytes(facts: GgufFacts, settings: EngineSettings) -> int:
    return settings.batch * facts.width * _F32


def _ends(model: SplitModel) -> Matrix:
    """[first, end]: bytes of the tensors that belong to no layer."""
    total = np.full((model.layers + 1, model.layers + 1), model.shared_bytes, dtype=np.int64)
    total[0, :] += model.first_bytes
    total[:, : model.layers] += model.stub_bytes
    total[:, model.layers] += model.last_bytes
    return total


def _kinds(model: SplitModel) -> tuple[Matrix, list[tuple[int, int]]]:
    """For each range the index of its kind, and for each kind one range: what a compute buffer depends on."""
    layers, facts = model.layers, model.facts
    marks = [
        (heads, int(cache.windowed), cache.state_bytes)
        for heads, cache in zip(facts.heads[:layers], facts.caches[:layers], strict=True)
    ]
    # Each mark by its rank among those of its column, so that a kind is one small number.
    columns = np.stack([np.unique(column, return_inverse=True)[1] for column in zip(*marks, strict=True)])
    highest = np.zeros((3, layers + 1, layers + 1), dtype=np.int64)
    for first in range(layers):
        highest[:, first, first + 1 :] = np.maximum.accumulate(columns[:, first:], axis=1)
    code = (highest[0] * layers + highest[1]) * layers + highest[2]
    above = np.triu_indices(layers + 1, 1)
    _, examples, inverse = np.unique(code[above], return_index=True, return_inverse=True)
    kind = np.zeros_like(code)
    kind[above] = inverse
    ranges = [(int(above[0][place]), int(above[1][place])) for place in examples]
    return kind, ranges
