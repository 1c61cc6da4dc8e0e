"""A llama_batch over numpy arrays: tokens or rows, any positions of any sequences."""

import ctypes

import numpy as np
from numpy.typing import NDArray

from meshllm_core.engine.llama.library import api
from meshllm_core.engine.llama.stage_tap import Rows

Ids = NDArray[np.int32]


class StageBatch:
    """One batch, refilled for every step."""

    def __init__(self, capacity: int, input_width: int, *, four_positions: bool) -> None:
        """`input_width`: elements of a row as the model reads it. `four_positions`: rotary positions of
        rows are given in four dimensions (pictures have more than one)."""
        self._four = four_positions
        self._tokens = np.zeros(capacity, dtype=np.int32)
        self._rows = np.zeros((capacity, input_width), dtype=np.float32)
        self._positions = np.zeros(4 * capacity, dtype=np.int32)
        self._counts = np.ones(capacity, dtype=np.int32)
        self._sequences = np.zeros(capacity, dtype=np.int32)
        self._outputs = np.zeros(capacity, dtype=np.int8)
        size, start = self._sequences.itemsize, self._sequences.ctypes.data
        pointer = ctypes.POINTER(ctypes.c_int32)
        self._sequence_rows = (pointer * capacity)(
            *(ctypes.cast(start + size * i, pointer) for i in range(capacity))
        )
        self._struct = api.llama_batch(
            pos=_pointer(self._positions, ctypes.c_int32),
            n_seq_id=_pointer(self._counts, ctypes.c_int32),
            seq_id=self._sequence_rows,
            logits=_pointer(self._outputs, ctypes.c_int8),
        )
        self._token_pointer = _pointer(self._tokens, ctypes.c_int32)
        self._row_pointer = _pointer(self._rows, ctypes.c_float)

    def fill(
        self,
        tokens: Ids | None,
        rows: Rows | None,
        positions: Ids,
        sequences: Ids,
        outputs: NDArray[np.bool_],
    ) -> object:
        """The structure for llama_decode, of tokens or else of rows [n, width]; arrays have n elements."""
        count = len(positions)
        self._positions[:count] = positions
        self._sequences[:count] = sequences
        self._outputs[:count] = outputs
        if tokens is not None:
            self._tokens[:count] = tokens
            self._struct.token, self._struct.embd = self._token_pointer, None
        else:
            if rows is not None:
                # What follows a row in a wider input (deepstack) stays zero.
                self._rows[:count, : rows.shape[1]] = rows
            if self._four:
                self._positions[count : 4 * count] = np.concatenate(
                    (positions, positions, np.zeros_like(positions))
                )
            self._struct.token, self._struct.embd = None, self._row_pointer
        self._struct.n_tokens = count
        return self._struct


def _pointer(array: NDArray[np.generic], kind: type) -> object:
    return array.ctypes.data_as(ctypes.POINTER(kind))
