"""Computes the layers of one stage: tokens or hidden rows in, hidden rows or logits out.

Used from one thread of the engine child. The position of what comes in is the truth: a sequence that is
ahead of it is taken back first.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from meshllm_core.engine.llama.library import api
from meshllm_core.engine.llama.model import Model
from meshllm_core.engine.llama.stage_batch import Ids, StageBatch
from meshllm_core.engine.llama.stage_tap import Rows, Tap
from meshllm_core.engine.protocol import LoadSpec
from meshllm_core.errors import EngineError, ModelFileInvalid
from meshllm_core.models.stage_entries import SHAPE_KEY
from meshllm_core.models.stage_lookup import EmbeddingLookup
from meshllm_core.models.stage_rules import StageShape

_KV_TYPES = {"f16": 1, "q8_0": 8, "q4_0": 2}  # ggml_type
_FLASH = {"auto": -1, "off": 0, "on": 1}
_FOUR_POSITIONS = (8, 40)
"""llama_rope_type: multi-dimensional rotary positions, plain and interleaved."""


class StageRunner:
    """A loaded stage with its KV cache. `spec.files` is one stage file, or a whole model."""

    def __init__(
        self,
        spec: LoadSpec,
        *,
        outputs: int | None = None,
        snapshots: int = 0,
        on_progress: Callable[[float], None] = lambda fraction: None,
        model: Model | None = None,
        tap: Callable[[StageShape], Tap] = Tap,
    ) -> None:
        """`outputs`: positions of one step at most whose logits the last stage gives (None: all; each takes
        room for a vocabulary). `snapshots`: positions of the last batch that a recurrent stage can take back,
        where its architecture allows it. `model`: loaded already, it stays with whoever loaded it. `tap`:
        what is done with the graph, if not what the stage's shape says.

        Raises ModelFileInvalid, EngineError (no memory).
        """
        self.model = model or Model(spec, on_progress)
        self._owns_model = model is None
        self.shape = self._read_shape()
        self.tap = tap(self.shape)
        self._snapshots = snapshots if self.shape.snapshots else 0
        file = Path(spec.files[0])
        self._lookup = EmbeddingLookup(file, self.shape.width) if self.shape.looked_up else None
        self.handle = api.llama_init_from_model(self.model.handle, self._params(spec, outputs))
        if not self.handle:
            self._close_model()
            raise EngineError("There is not enough memory for the stage's KV cache and compute buffers.")
        self._memory = api.llama_get_memory(self.handle)
        self.capacity = spec.batch
        """Positions of one step at most."""
        self.sequences = spec.lanes + spec.prefix_slots
        rope = api.llama_model_rope_type(self.model.handle)
        self._batch = StageBatch(
            self.capacity,
            api.llama_model_n_embd_inp(self.model.handle),
            four_positions=rope in _FOUR_POSITIONS,
        )
        self._last_batch = [(0, 0)] * self.sequences
        """For each sequence the positions [first, end) that its last batch held."""

    def _shape_of(self, text: str) -> StageShape:
        """What the file says of itself; it may come from another machine."""
        try:
            shape = msgspec.json.decode(text, type=StageShape)
            if not shape.possible or shape.width != int(api.llama_model_n_embd(self.model.handle)):
                raise msgspec.ValidationError("its layers or its width cannot be")
        except (msgspec.DecodeError, RecursionError) as error:
            raise ModelFileInvalid(
                f"{self.model.spec.files[0]} is not a stage of this version of meshllm: {error}.",
                hint="Remove it: it is made again from the model.",
            ) from error
        return shape

    def _read_shape(self) -> StageShape:
        text = self.model.meta(SHAPE_KEY)
        if text:
            return self._shape_of(text)
        layers = int(api.llama_model_n_layer(self.model.handle))
        return StageShape(
            architecture=self.model.meta("general.architecture"),
            layers=layers,
            start=0,
            end=layers,
            window_start=0,
            window_end=layers,
            width=int(api.llama_model_n_embd(self.model.handle)),
            rollback=not self.model.recurrent,
        )

    def _params(self, spec: LoadSpec, outputs: int | None) -> object:
        params = api.llama_context_default_params()
        params.n_ctx = spec.context * spec.lanes
        params.n_batch = params.n_ubatch = spec.batch
        params.n_seq_max = spec.lanes + spec.prefix_slots
        # Every row must pass the last layer of a stage, so every row counts as an output there.
        asked = spec.batch if outputs is None else outputs
        params.n_outputs_max = max(asked, params.n_seq_max) if self.shape.last else spec.batch
        params.n_threads = params.n_threads_batch = spec.threads
        params.flash_attn_type = _FLASH[spec.flash_attention]
        params.type_k = params.type_v = _KV_TYPES[spec.kv_type]
        params.offload_kqv = spec.device != "cpu"
        # Split by sequence, rows would come back in another order.
        params.kv_unified = True
        params.swa_full = False
        params.n_rs_seq = self._snapshots
        params.no_perf = True
        if self.tap.needed:
            params.cb_eval = self.tap.callback
        return params

    # Positions ------------------------------------------------------------------------------

    def held(self, sequence: int) -> int:
        """Positions that a sequence holds."""
        return int(api.llama_memory_seq_pos_max(self._memory, sequence)) + 1

    def trim(self, sequence: int, position: int) -> None:
        """Forget everything from `position` on. Raises EngineError where that would leave a wrong state:
        the sequence has then to be computed again from its beginning, and is empty."""
        held = self.held(sequence)
        if position >= held:
            return
        if position == 0:
            api.llama_memory_seq_rm(self._memory, sequence, -1, -1)
            return
        if self._can_take_back(sequence, position, held) and self._take_back(sequence, position):
            return
        api.llama_memory_seq_rm(self._memory, sequence, -1, -1)
        raise EngineError(
            f"Layers {self.shape.start} to {self.shape.end - 1} of this {self.shape.architecture} model "
            f"cannot go back from position {held} to {position}.",
            hint="Compute the sequence again from its beginning.",
        )

    def _can_take_back(self, sequence: int, position: int, held: int) -> bool:
        if self.shape.rollback:
            return True
        # Snapshots cover only the tail of one batch; llama.cpp says yes beyond it, and is wrong.
        first, end = self._last_batch[sequence]
        return end == held and position > first and held - position <= self._snapshots

    def _take_back(self, sequence: int, position: int) -> bool:
        if not api.llama_memory_seq_rm(self._memory, sequence, position, -1):
            return False
        self._last_batch[sequence] = (0, 0)
        window = self.model.window
        if not window:
            return True
        # A sliding window forgets: what is left must still reach as far back as the next position looks.
        oldest = int(api.llama_memory_seq_pos_min(self._memory, sequence))
        return 0 <= oldest <= max(0, position - window)

    @property
    def cells(self) -> int:
        """Cells of the KV cache, for all sequences together."""
        return int(api.llama_n_ctx(self.handle))

    # Steps ----------------------------------------------------------------------------------

    def step(
        self,
        *,
        positions: Ids,
        sequences: Ids,
        tokens: Ids | None = None,
        rows: Rows | None = None,
        outputs: NDArray[np.bool_] | None = None,
    ) -> Rows:
        """Compute n positions: chunks of prompts, one token of many sequences, or any mixture.

        `tokens` [n] for the first stage (or where they travel along), `rows` [n, width × streams] for the
        others. Positions of a sequence rise one by one from what it holds, or from before that: then it is
        taken back first. Returns rows [n, width × streams]; from the
        last stage logits [m, vocabulary] of the m positions that `outputs` marks (None: all).

        Raises EngineError: a gap, too many positions, wrong shapes, no room, an impossible rollback.
        """
        count = len(positions)
        self._check(count, sequences, tokens, rows)
        if self._lookup is not None and tokens is not None:
            rows, tokens = self._lookup.rows(tokens), None
        marked = np.ones(count, dtype=np.bool_) if outputs is None or not self.shape.last else outputs
        for sequence, first in self._runs(positions, sequences):
            self.trim(sequence, first)
        if self.shape.rollback or count == 1 or len(set(sequences.tolist())) == 1:
            return self._decode(tokens, rows, positions, sequences, marked)
        # Recurrent memories compute a batch sequence by sequence, and hand rows back in that order.
        results: list[tuple[NDArray[np.intp], Rows]] = []
        for sequence in dict.fromkeys(sequences.tolist()):
            at = np.flatnonzero(sequences == sequence)
            part = (None if tokens is None else tokens[at]), (None if rows is None else rows[at])
            made = self._decode(*part, positions[at], sequences[at], marked[at])
            results.append((at[marked[at]] if self.shape.last else at, made))
        order = np.argsort(np.concatenate([at for at, _ in results]), kind="stable")
        return np.concatenate([made for _, made in results])[order]

    def _check(self, count: int, sequences: Ids, tokens: Ids | None, rows: Rows | None) -> None:
        width = self.shape.width * self.shape.streams
        problem = ""
        if not 0 < count <= self.capacity:
            problem = f"{count} positions, and a step holds 1 to {self.capacity}"
        elif len(sequences) != count or (tokens is not None and len(tokens) != count):
            problem = "not one sequence and one token for each position"
        elif not 0 <= int(sequences.min()) <= int(sequences.max()) < self.sequences:
            problem = f"a sequence that is none of the {self.sequences}"
        elif rows is not None and rows.shape != (count, width):
            problem = f"rows of shape {rows.shape} instead of {(count, width)}"
        elif rows is not None and self.shape.first:
            problem = "rows, and begins with tokens"
        elif rows is None and not self.shape.first:
            problem = "no hidden rows"
        elif tokens is None and (self.shape.sideband or rows is None):
            problem = "no tokens"
        if problem:
            raise EngineError(
                f"The stage of layers {self.shape.start} to {self.shape.end - 1} got {problem}.",
                hint="The machine before it runs another version, or another model.",
            )

    def _runs(self, positions: Ids, sequences: Ids) -> list[tuple[int, int]]:
        """(sequence, its first position) of a step. Raises EngineError on a gap."""
        found = []
        if len(positions) == 1:
            sequence, first = int(sequences[0]), int(positions[0])
            if 0 <= first <= self.held(sequence):
                return [(sequence, first)]
        for sequence in dict.fromkeys(sequences.tolist()):
            own = positions[sequences == sequence]
            first, held = int(own[0]), self.held(sequence)
            if first < 0 or first > held or (np.diff(own) != 1).any():
                raise EngineError(
                    f"Sequence {sequence} holds {held} positions and was sent {first} to {int(own[-1])}.",
                    hint="Send what is missing first.",
                )
            found.append((sequence, first))
        return found

    def _decode(
        self,
        tokens: Ids | None,
        rows: Rows | None,
        positions: Ids,
        sequences: Ids,
        marked: NDArray[np.bool_],
    ) -> Rows:
        shape, count = self.shape, len(positions)
        hooked = rows is not None and bool(shape.hook)
        if rows is not None and shape.tokens == "any":
            tokens = np.zeros(count, dtype=np.int32)
        elif rows is not None and not shape.sideband:
            tokens = None
        self.tap.begin(count, rows)
        batch = self._batch.fill(tokens, None if hooked else rows, positions, sequences, marked)
        code = int(api.llama_decode(self.handle, batch))
        if code:
            raise EngineError(
                "The stage's KV cache is full." if code == 1 else f"llama_decode failed with code {code}.",
                hint="End a request, or load the model with a smaller context." if code == 1 else "",
            )
        try:
            left = self.tap.end()
        except RuntimeError as error:
            raise EngineError(
                f"This build of llama.cpp computes {shape.architecture} in another way: {error}.",
                hint="Use the version of llama-cpp-python that meshllm installs.",
            ) from error
        if not shape.rollback:
            for sequence in set(sequences.tolist()):
                own = positions[sequences == sequence]
                self._last_batch[sequence] = (int(own[0]), int(own[-1]) + 1)
        return left if left is not None else self._logits(np.flatnonzero(marked))

    def _logits(self, indices: NDArray[np.intp]) -> Rows:
        found = np.empty((len(indices), self.model.n_vocab), dtype=np.float32)
        for row, index in enumerate(indices):
            source = (ctypes.c_float * self.model.n_vocab).from_address(self.logits_address(int(index)))
            found[row] = np.ctypeslib.as_array(source)
        return found

    def logits_address(self, index: int) -> int:
        """Address of the f32 logits [n_vocab] of the last step's position `index`."""
        pointer = api.llama_get_logits_ith(self.handle, index)
        if not pointer:
            raise EngineError(f"There are no logits for batch index {index}.")
        return int(ctypes.addressof(pointer.contents))

    def close(self) -> None:
        """Free cache, buffers and weights."""
        if self._lookup is not None:
            self._lookup.close()
        api.llama_free(self.handle)
        self._close_model()

    def _close_model(self) -> None:
        if self._owns_model:
            self.model.close()
