"""A llama_context with one batch that is refilled for every step."""

import ctypes
import sys
from collections.abc import Sequence

from meshllm_core.engine.llama.library import api
from meshllm_core.engine.llama.model import Model
from meshllm_core.engine.protocol import LoadSpec
from meshllm_core.errors import EngineError

_KV_TYPES = {"f16": 1, "q8_0": 8, "q4_0": 2}  # ggml_type
_FLASH = {"auto": -1, "off": 0, "on": 1}

NO_ROOM = 1
"""`decode` found no free cells for the batch; nothing was computed."""
INTERRUPTED = 2
"""`decode` was stopped by `interrupt`; llama.cpp has taken the batch's positions back."""

_LIBC = ctypes.CDLL("msvcrt" if sys.platform == "win32" else None)
_STRLEN = _LIBC.strlen
"""llama.cpp asks an abort callback before each node of a graph, a thousand times a token. A Python function
would cost a millisecond of that; strlen over a buffer of ours answers 0 (go on) or 1 (stop) for nothing."""


class Context:
    """KV cache and compute buffers over a Model. Used from one thread."""

    def __init__(self, model: Model, spec: LoadSpec, *, embeddings: bool) -> None:
        """Raises EngineError when there is no memory for the cache or the buffers."""
        params = api.llama_context_default_params()
        params.n_ctx = spec.context * (1 if embeddings else spec.lanes)
        params.n_batch = params.n_ubatch = spec.context if embeddings else spec.batch
        params.n_seq_max = 1 if embeddings else spec.lanes + spec.prefix_slots
        # llama.cpp wants room for one output per sequence, also for those that only keep a prefix.
        params.n_outputs_max = 0 if embeddings else params.n_seq_max
        params.n_threads = params.n_threads_batch = spec.threads
        params.flash_attn_type = _FLASH[spec.flash_attention]
        params.type_k = params.type_v = _KV_TYPES[spec.kv_type]
        params.offload_kqv = spec.device != "cpu"
        params.kv_unified = True
        params.swa_full = False
        params.embeddings = embeddings
        params.no_perf = True
        self._stop = ctypes.create_string_buffer(2)
        params.abort_callback = ctypes.cast(_STRLEN, type(params.abort_callback))
        params.abort_callback_data = ctypes.addressof(self._stop)
        self.model = model
        self.handle = api.llama_init_from_model(model.handle, params)
        if not self.handle:
            raise EngineError("There is not enough memory for the KV cache and compute buffers.")
        self.memory = api.llama_get_memory(self.handle)
        self.capacity: int = params.n_batch
        self.cells: int = api.llama_n_ctx(self.handle)
        self._batch = _Batch(self.capacity)

    shares = True
    """Whether a sequence may begin as another does."""
    stage_ms = 0.0
    """Not a stage."""
    ahead_limit = 0
    """Chunks of a prompt that are sent ahead of their step: none, all is computed here."""
    chunk = 0

    def ahead(self, tokens: Sequence[int], start: int, sequence: int) -> None:
        """Never asked for: see `ahead_limit`."""

    def most_in_flight(self) -> int:
        """Nothing travels."""
        return 0

    # KV cache -------------------------------------------------------------------------------

    def drop(self, sequence: int, start: int = 0) -> bool:
        """Forget positions from `start` on. False when this memory cannot do it in part."""
        return bool(api.llama_memory_seq_rm(self.memory, sequence, start, -1))

    def share(self, source: int, target: int, end: int) -> None:
        """Let `target` see positions [0, end) of `source`; the cells are shared, not copied."""
        api.llama_memory_seq_cp(self.memory, source, target, 0, end)

    def first_position(self, sequence: int) -> int:
        """Smallest position still held (sliding windows forget the oldest); -1 when empty."""
        return int(api.llama_memory_seq_pos_min(self.memory, sequence))

    def state_size(self, sequence: int) -> int:
        """Bytes that `save` would give."""
        return int(api.llama_state_seq_get_size(self.handle, sequence))

    def save(self, sequence: int, size: int) -> bytearray:
        """Everything this sequence holds, for `restore`; `size` is its `state_size`."""
        state = bytearray(size)
        buffer = (ctypes.c_uint8 * size).from_buffer(state)
        api.llama_state_seq_get_data(self.handle, buffer, size, sequence)
        return state

    def restore(self, sequence: int, state: bytearray) -> bool:
        """Put a saved state into an empty sequence. False when llama.cpp has no room for it."""
        buffer = (ctypes.c_uint8 * len(state)).from_buffer(state)
        return bool(api.llama_state_seq_set_data(self.handle, buffer, len(state), sequence))

    def clear(self) -> None:
        """Forget everything."""
        api.llama_memory_clear(self.memory, False)

    # Interrupting ---------------------------------------------------------------------------

    def interrupt(self) -> None:
        """End the running `decode`, or the next one, early. May be called from any thread."""
        self._stop.value = b"x"

    def resume(self) -> None:
        """Let `decode` run again."""
        self._stop.value = b""

    # Steps ----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start a new batch."""
        self._batch.size = 0

    def add(self, tokens: Sequence[int], start: int, sequence: int, *, last_logits: bool) -> int:
        """Append tokens at positions start.. of a sequence; returns the index of the last one."""
        return self._batch.add(tokens, start, sequence, last_logits=last_logits)

    def decode(self) -> int:
        """Compute the batch. 0, NO_ROOM or INTERRUPTED. Raises EngineError on any other code."""
        code = int(api.llama_decode(self.handle, self._batch.struct()))
        if code not in (0, NO_ROOM, INTERRUPTED):
            raise EngineError(f"llama_decode failed with code {code}.", hint="See the engine's log.")
        return code

    def embed(self, tokens: Sequence[int]) -> list[float]:
        """The unit-length embedding of one text, pooled as the model's file says."""
        self.begin()
        self._batch.add(tokens, 0, 0, last_logits=True, all_logits=True)
        self.clear()
        # A model without memory (BERT) is encoded by llama_decode too.
        code = int(api.llama_decode(self.handle, self._batch.struct()))
        pointer = None if code else api.llama_get_embeddings_seq(self.handle, 0)
        if not pointer:
            raise EngineError(f"The model gave no embedding (code {code}).", hint="See the engine's log.")
        values = pointer[: self.model.width]
        norm = sum(value * value for value in values) ** 0.5 or 1.0
        return [value / norm for value in values]

    def logits_address(self, index: int) -> int:
        """Address of the float32 logits [n_vocab] of the batch's token `index`."""
        pointer = api.llama_get_logits_ith(self.handle, index)
        if not pointer:
            raise EngineError(f"There are no logits for batch index {index}.")
        return int(ctypes.addressof(pointer.contents))

    def close(self) -> None:
        """Free cache and buffers."""
        api.llama_free(self.handle)


class _Batch:
    """llama_batch over arrays of our own, so that a chunk is one memmove instead of a loop."""

    def __init__(self, capacity: int) -> None:
        self.size = 0
        self._tokens = (ctypes.c_int32 * capacity)()
        self._positions = (ctypes.c_int32 * capacity)()
        self._counts = (ctypes.c_int32 * capacity)(*([1] * capacity))
        self._sequences = (ctypes.c_int32 * capacity)()
        base, width = ctypes.addressof(self._sequences), ctypes.sizeof(ctypes.c_int32)
        pointer = ctypes.POINTER(ctypes.c_int32)
        self._rows = (pointer * capacity)(*(ctypes.cast(base + i * width, pointer) for i in range(capacity)))
        self._logits = (ctypes.c_int8 * capacity)()
        self._struct = api.llama_batch(
            n_tokens=0,
            token=self._tokens,
            embd=None,
            pos=self._positions,
            n_seq_id=self._counts,
            seq_id=self._rows,
            logits=self._logits,
        )

    def add(
        self, tokens: Sequence[int], start: int, sequence: int, *, last_logits: bool, all_logits: bool = False
    ) -> int:
        """Append; returns the index of the last token."""
        begin, count = self.size, len(tokens)
        end = begin + count
        self._tokens[begin:end] = list(tokens)
        self._positions[begin:end] = list(range(start, start + count))
        self._sequences[begin:end] = [sequence] * count
        self._logits[begin:end] = [1 if all_logits else 0] * count
        if last_logits:
            self._logits[end - 1] = 1
        self.size = end
        return end - 1

    def struct(self) -> object:
        """The structure that llama_decode takes."""
        self._struct.n_tokens = self.size
        return self._struct
