"""Does a model fit, with which context, and if not, what would. Pure.

The figures follow llama.cpp's own allocation: the tensors as the file holds them, the KV cache cell by cell,
the compute buffer of its largest graph (estimated; within 15 % above what it reports on the models measured).
"""

from dataclasses import dataclass, replace

from meshllm_core.errors import ModelTooLarge
from meshllm_core.models.facts import GgufFacts
from meshllm_core.models.units import show_bytes

MIB = 1 << 20
MIN_CONTEXT = 512
"""Tokens; below this no conversation is possible."""
AUTO_CONTEXT = 8192
"""Tokens that an automatic context aims for."""
CELL_STEP = 256
"""llama.cpp rounds the cells of a cache up to a multiple of this."""
MIN_RESERVE = 256 * MIB
RESERVE_FRACTION = 0.10
WEIGHTS_FRACTION = 0.85
"""Share of usable memory that weights may take when nothing else is known of a model."""

_F32 = 4
_F16 = 2
_COMPUTE_MARGIN = 1.06
"""The graph allocator leaves gaps: up to 5 % was measured."""
_POSITIONS = 16
"""Elements per token for positions, indices and the like."""


KV_ELEMENT_BYTES = {"f16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}
"""Bytes of one element in the KV cache, by its type."""


@dataclass(frozen=True)
class EngineSettings:
    """How the engine opens its context; the defaults are those of the child process."""

    batch: int = 512
    """Tokens computed in one step (llama.cpp's n_ubatch). Embedding models take a whole context at once."""
    outputs: int = 0
    """Most tokens of one step whose logits are wanted (n_outputs_max); 0: one per sequence."""
    full_window_cache: bool = False
    """llama.cpp's swa_full: sliding-window layers keep every cell."""
    kv_type: str = "f16"
    """A key of KV_ELEMENT_BYTES."""
    sequences: int = 0
    """Sequences that the cache tells apart (n_seq_max): lanes and idle prefixes; 0: one per lane."""


@dataclass(frozen=True)
class Fit:
    """What loading takes, term by term, beside what there is. All in bytes but the contexts."""

    context: int
    """Tokens of one lane."""
    lanes: int
    tensor_bytes: int
    kv_bytes: int
    """KV cache, and the state of recurrent layers."""
    compute_bytes: int
    """The largest graph, and the logits handed out."""
    reserve_bytes: int
    """Kept free for everything else on the device."""
    available_bytes: int
    """Free memory, or the limit that was set if that is smaller."""
    largest_context: int
    """Longest context per lane that would fit; 0 if none does."""

    @property
    def model_bytes(self) -> int:
        """What the engine itself will take: tensors, caches, compute buffer."""
        return self.tensor_bytes + self.kv_bytes + self.compute_bytes

    @property
    def needed_bytes(self) -> int:
        """All of it with the reserve."""
        return self.model_bytes + self.reserve_bytes

    @property
    def fits(self) -> bool:
        """Whether there is room."""
        return self.needed_bytes <= self.available_bytes

    def explain(self) -> str:
        """The terms in a sentence."""
        return (
            f"needs {show_bytes(self.needed_bytes)}: {show_bytes(self.tensor_bytes)} weights + "
            f"{show_bytes(self.kv_bytes)} KV cache ({self.context} tokens × {_lanes(self.lanes)}) + "
            f"{show_bytes(self.compute_bytes)} compute buffer + {show_bytes(self.reserve_bytes)} reserve; "
            f"{show_bytes(self.available_bytes)} are available"
        )


MEASURED_SLACK = 256 * MIB
"""Bytes that a process takes besides the model: the interpreter, libraries, working memory of the steps."""


def verify(fit: Fit, measured_bytes: int) -> str:
    """Compares a prediction with the bytes resident after loading; empty if it held, else a sentence."""
    excess = measured_bytes - fit.model_bytes
    if excess <= max(MEASURED_SLACK, fit.model_bytes * 15 // 100):
        return ""
    return (
        f"The model takes {show_bytes(measured_bytes)}, {show_bytes(excess)} more than was predicted; "
        f"{show_bytes(fit.available_bytes - measured_bytes)} of the memory planned for are left."
    )


@dataclass(frozen=True)
class LoadPlan:
    """How a model will be loaded."""

    context: int
    """Tokens of one lane, prompt and answer."""
    lanes: int
    fit: Fit
    note: str
    """Why the context is what it is, for a person; empty when it is what was asked."""

    @property
    def cells(self) -> int:
        """Cells of the shared KV cache: the engine's n_ctx."""
        return _round_up(self.context * self.lanes)


def _round_up(cells: int) -> int:
    return -(-cells // CELL_STEP) * CELL_STEP


def reserve_for(memory_available: int) -> int:
    """Bytes of a device that are kept free for everything else."""
    return max(MIN_RESERVE, int(memory_available * RESERVE_FRACTION))


def room_for(memory_available: int, max_memory: int | None = None) -> tuple[int, int]:
    """Bytes that models may use on a device, its limit considered, and bytes of these to keep free."""
    reserve = reserve_for(memory_available)
    if max_memory is None or max_memory >= memory_available:
        return memory_available, reserve
    # What a limit leaves free counts towards the reserve.
    return max_memory, max(0, reserve - (memory_available - max_memory))


def weights_room(memory_available: int) -> int:
    """Bytes of weights that leave room for caches and buffers; used before a file is here to ask."""
    return max(0, int((memory_available - reserve_for(memory_available)) * WEIGHTS_FRACTION))


@dataclass(frozen=True)
class _Shape:
    """Sizes of the context that the engine opens."""

    cells: int
    window_cells: int
    batch: int
    outputs: int
    sequences: int


def _shape(facts: GgufFacts, context: int, lanes: int, settings: EngineSettings) -> _Shape:
    if facts.embeddings:
        cells = _round_up(context)
        return _Shape(cells, cells, batch=cells, outputs=cells, sequences=1)
    cells = _round_up(context * lanes)
    batch = min(settings.batch, cells)
    sequences = settings.sequences or lanes
    window_cells = cells
    if facts.windowed and not settings.full_window_cache:
        window_cells = _round_up(min(cells, facts.sliding_window * sequences + batch))
    return _Shape(cells, window_cells, batch, min(batch, settings.outputs or sequences), sequences)


def kv_bytes(facts: GgufFacts, context: int, lanes: int, settings: EngineSettings) -> int:
    """Bytes of the KV cache and the recurrent state for `lanes` lanes of `context` tokens."""
    shape = _shape(facts, context, lanes, settings)
    element = KV_ELEMENT_BYTES[settings.kv_type]
    total = 0.0
    for cache in facts.caches:
        rows = shape.window_cells if cache.windowed else shape.cells
        total += rows * (cache.key_width + cache.value_width) * element
        total += cache.state_bytes * shape.sequences
    return int(total)


def compute_bytes(facts: GgufFacts, context: int, lanes: int, settings: EngineSettings) -> int:
    """Bytes of llama.cpp's compute buffer and output buffer, with flash attention (its default)."""
    shape = _shape(facts, context, lanes, settings)
    batch = shape.batch
    seen = shape.cells + (shape.window_cells if facts.windowed else 0) if facts.caches else 2 * batch
    masks = batch * _F16 * seen
    queries = max(facts.heads, default=0) * facts.key_length
    layer = batch * _F32 * (3 * facts.feed_forward + 3 * facts.width + queries + _POSITIONS)
    if facts.recurrent:
        # The scan keeps the projected input and the states of a step beside each other.
        state = max((cache.state_bytes for cache in facts.caches), default=0)
        layer += batch * _F32 * 8 * facts.width + state * shape.sequences
    # An encoder has no head over the vocabulary: it hands out hidden vectors.
    answer = facts.vocabulary if facts.caches else facts.width
    head = shape.outputs * answer * _F32 + 2 * batch * facts.width * _F32
    # The head reuses the memory of the layers before it: the larger of the two counts, not the sum.
    handed_out = max(shape.outputs if facts.embeddings else 0, shape.sequences) * answer * _F32
    return int(max(masks + layer, head) * _COMPUTE_MARGIN) + handed_out


@dataclass(frozen=True)
class _Room:
    """A model beside a device: everything but the context."""

    facts: GgufFacts
    lanes: int
    reserve: int
    available: int
    settings: EngineSettings

    def measure(self, context: int, lanes: int = 0) -> Fit:
        lanes = lanes or self.lanes
        return Fit(
            context=context,
            lanes=lanes,
            tensor_bytes=self.facts.tensor_bytes,
            kv_bytes=kv_bytes(self.facts, context, lanes, self.settings),
            compute_bytes=compute_bytes(self.facts, context, lanes, self.settings),
            reserve_bytes=self.reserve,
            available_bytes=self.available,
            largest_context=0,
        )

    def largest_context(self) -> int:
        trained = self.facts.context_trained
        low, high = 0, max(trained, MIN_CONTEXT) // CELL_STEP
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.measure(middle * CELL_STEP).fits else (low, middle - 1)
        return low * CELL_STEP if low * CELL_STEP >= MIN_CONTEXT else 0


def _room(
    facts: GgufFacts,
    lanes: int,
    memory_available: int,
    max_memory: int | None,
    settings: EngineSettings | None,
) -> _Room:
    available, reserve = room_for(memory_available, max_memory)
    return _Room(facts, lanes, reserve, available, settings or EngineSettings())


def fit_model(
    facts: GgufFacts,
    context: int,
    *,
    lanes: int,
    memory_available: int,
    max_memory: int | None = None,
    settings: EngineSettings | None = None,
) -> Fit:
    """Every term for one context, and the largest context that would fit. Memory in bytes."""
    room = _room(facts, lanes, memory_available, max_memory, settings)
    return replace(room.measure(context), largest_context=room.largest_context())


def plan_load(
    facts: GgufFacts,
    *,
    context_requested: int,
    lanes: int,
    memory_available: int,
    max_memory: int | None = None,
    settings: EngineSettings | None = None,
) -> LoadPlan:
    """A context that fits; `context_requested` 0 chooses one. Raises ModelTooLarge saying what would fit."""
    wanted = context_requested or min(facts.context_trained, AUTO_CONTEXT)
    room = _room(facts, lanes, memory_available, max_memory, settings)
    largest = room.largest_context()
    fit = replace(room.measure(wanted), largest_context=largest)
    if fit.fits:
        return LoadPlan(wanted, lanes, fit, _context_note(facts, context_requested, wanted))
    if context_requested or not largest:
        raise _too_large(room, fit)
    context = min(wanted, largest)
    note = (
        f"The context is {context} tokens instead of {wanted}: that is what fits beside the weights in "
        f"{show_bytes(room.available)} with {lanes} lanes."
    )
    return LoadPlan(context, lanes, replace(room.measure(context), largest_context=largest), note)


def _context_note(facts: GgufFacts, requested: int, context: int) -> str:
    if requested > facts.context_trained:
        return (
            f"The context of {requested} tokens is longer than the {facts.context_trained} the model was "
            "trained on: answers may lose their sense beyond that."
        )
    if not requested and context < facts.context_trained:
        return (
            f"The context is {context} tokens; the model was trained on {facts.context_trained}. "
            "Set --ctx-size for more."
        )
    return ""


def _lanes(count: int) -> str:
    return "1 lane" if count == 1 else f"{count} lanes"


def _too_large(room: _Room, fit: Fit) -> ModelTooLarge:
    ways = []
    if fit.largest_context:
        ways.append(f"--ctx-size {fit.largest_context} fits")
    lanes = next((n for n in range(fit.lanes - 1, 0, -1) if room.measure(fit.context, n).fits), 0)
    if lanes:
        ways.append(f"--lanes {lanes} fits")
    ways.append("a smaller quantization or a smaller model needs less")
    ways.append("several machines can share it: `meshllm plan`, or 4 in the dashboard")
    short = show_bytes(fit.needed_bytes - fit.available_bytes)
    hint = "; ".join(ways)
    return ModelTooLarge(
        f"{room.facts.model_id} does not fit, {short} short: it {fit.explain()}.",
        hint=f"{hint[0].upper()}{hint[1:]}.",
    )
