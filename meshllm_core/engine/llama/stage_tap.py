"""Puts hidden rows into a running graph and takes them out, by llama.cpp's public evaluation callback.

llama.cpp asks before each node of a graph whether it is of interest, and calls again once it is computed.
"""

import ctypes
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meshllm_core.engine.llama.library import api
from meshllm_core.models.stage_rules import StageShape

Rows = NDArray[np.float32]


def _ggml_base() -> Any:
    folder = Path(importlib.import_module("llama_cpp._ggml").__file__ or "").parent / "lib"
    lib: Any = importlib.import_module("llama_cpp._ctypes_extensions").load_shared_library(
        "ggml-base", folder
    )
    for name, result in (
        ("ggml_get_name", ctypes.c_char_p),
        ("ggml_nelements", ctypes.c_int64),
        ("ggml_nbytes", ctypes.c_size_t),
        ("ggml_is_contiguous", ctypes.c_bool),
    ):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, [ctypes.c_void_p]
    for name in ("ggml_backend_tensor_get", "ggml_backend_tensor_set"):
        function = getattr(lib, name)
        function.restype = None
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
    return lib


_ggml = _ggml_base()


class Tap:
    """What happens to the graph of one stage. `callback` goes into llama_context_params.cb_eval."""

    def __init__(self, shape: StageShape) -> None:
        self._shape = shape
        self._hook, self._restore = shape.hook.encode(), shape.restore.encode()
        self._leaves = shape.leaves.encode()
        self._names = {name for name in (self._hook, self._restore, self._leaves) if name}
        self._wanted: tuple[bytes, ...] = ()
        self._incoming: Rows | None = None
        self._original: tuple[int, Rows] | None = None
        self._outgoing: Rows | None = None
        self._fault = ""
        self._count = 0
        self.callback = api.ggml_backend_sched_eval_callback(self._call)

    @property
    def needed(self) -> bool:
        """Whether this stage touches the graph at all; if not, the callback would only cost time."""
        return bool(self._names)

    def begin(self, count: int, rows: Rows | None) -> None:
        """Before a decode of `count` positions. `rows` [count, width × streams] go in where the hook is."""
        self._count, self._fault = count, ""
        self._original = self._outgoing = None
        hooked = rows is not None and self._hook
        self._incoming = self._to_graph(rows) if hooked and rows is not None else None
        self._wanted = (self._hook,) if hooked else (self._leaves,) if self._leaves else ()

    def end(self) -> Rows | None:
        """After the decode: the rows that left. Raises RuntimeError in words when a tensor did not appear."""
        if not self._fault and self._wanted:
            self._fault = f"the graph has no tensor {self._wanted[0].decode()}"
        if self._fault:
            raise RuntimeError(self._fault)
        return None if self._outgoing is None else self._from_graph(self._outgoing)

    def _call(self, tensor: int, ask: bool, _data: object) -> bool:
        if ask:
            # One name after another, and each once: some names repeat in a graph.
            return bool(self._wanted) and _ggml.ggml_get_name(tensor) == self._wanted[0]
        return self._reached(tensor)

    def _reached(self, tensor: int) -> bool:
        """A wanted tensor is computed. False ends the graph early."""
        name = self._wanted[0]
        if name == self._restore and self._original is not None:
            address, original = self._original
            _ggml.ggml_backend_tensor_set(address, original.ctypes.data, 0, original.nbytes)
            self._wanted = (self._leaves,) if self._leaves else ()
            return True
        if not self._fits(tensor, name):
            return False
        if name == self._hook and self._incoming is not None:
            self._overwrite(tensor)
            return True
        self._outgoing, self._wanted = self._read(tensor), ()
        return False

    def _overwrite(self, tensor: int) -> None:
        rows = self._incoming
        assert rows is not None
        self._incoming = None
        if self._restore:
            original = np.empty(rows.size, dtype=np.float32)
            _ggml.ggml_backend_tensor_get(tensor, original.ctypes.data, 0, original.nbytes)
            self._original = (tensor, original)
        _ggml.ggml_backend_tensor_set(tensor, rows.ctypes.data, 0, rows.nbytes)
        self._wanted = (self._restore,) if self._restore else (self._leaves,) if self._leaves else ()

    def _fits(self, tensor: int, name: bytes) -> bool:
        """Whether a tensor holds what it must: f32, whole, a row for each position."""
        expected = self._count * self._shape.width * self._shape.streams
        elements, nbytes = _ggml.ggml_nelements(tensor), _ggml.ggml_nbytes(tensor)
        if elements == expected and nbytes == 4 * expected and _ggml.ggml_is_contiguous(tensor):
            return True
        self._fault = f"the tensor {name.decode()} has {elements} elements instead of {expected}"
        self._wanted = ()
        return False

    def _read(self, tensor: int) -> Rows:
        rows = np.empty(self._count * self._shape.width * self._shape.streams, dtype=np.float32)
        _ggml.ggml_backend_tensor_get(tensor, rows.ctypes.data, 0, rows.nbytes)
        return rows

    def _to_graph(self, rows: Rows) -> Rows:
        return np.ascontiguousarray(self._turned(rows, into=True), dtype=np.float32)

    def _from_graph(self, flat: Rows) -> Rows:
        return np.ascontiguousarray(self._turned(flat, into=False))

    def _turned(self, rows: Rows, *, into: bool) -> Rows:
        """Rows by position, or streams one after another where llama.cpp lays them out so."""
        shape = self._shape
        if not shape.streams_outside:
            return rows.reshape(self._count, shape.width * shape.streams)
        outer, inner = (self._count, shape.streams) if into else (shape.streams, self._count)
        turned = rows.reshape(outer, inner, shape.width).swapaxes(0, 1)
        return turned if into else turned.reshape(self._count, shape.streams * shape.width)


class Gather(Tap):
    """Takes the rows of several tensors out of one pass over an undivided model."""

    def __init__(self, shape: StageShape, names: Sequence[str]) -> None:
        """`names` in the order in which the graph computes them."""
        super().__init__(shape)
        self._asked = tuple(name.encode() for name in names)
        self.rows: list[Rows] = []
        """[count, width × streams] each, as many as there are names; of the last decode."""

    @property
    def needed(self) -> bool:
        """Always."""
        return True

    def begin(self, count: int, rows: Rows | None) -> None:
        """See Tap.begin; an undivided model gets no rows."""
        super().begin(count, None)
        self._wanted, self.rows = self._asked, []

    def end(self) -> Rows | None:
        """Of the last name. Raises RuntimeError in words when a tensor did not appear."""
        super().end()
        return self.rows[-1]

    def _reached(self, tensor: int) -> bool:
        if not self._fits(tensor, self._wanted[0]):
            return False
        self.rows.append(self._from_graph(self._read(tensor)))
        self._wanted = self._wanted[1:]
        return bool(self._wanted)
