"""Rows of a model's token embedding, without the model: the file is mapped, only those rows unpacked."""

import importlib
import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meshllm_core.errors import CutRefused, InvalidRequest
from meshllm_core.models.ggml_types import TENSOR_TYPES
from meshllm_core.models.stage_rules import StageRules
from meshllm_core.models.stage_source import local_files, open_source

_CODES = {kind.name: code for code, kind in TENSOR_TYPES.items()}


class EmbeddingLookup:
    """The token embedding of a model on this disk."""

    def __init__(self, path: Path) -> None:
        """`path`: the model, or any member of its split set. Raises CutRefused where rows cannot stand for
        tokens, ModelFileInvalid, ModelNotFound."""
        rules = StageRules(open_source(local_files(path)))
        found, scale = rules.source.tensors.get("token_embd.weight"), rules.lookup_scale
        if found is None or len(found.tensor.shape) != 2 or found.tensor.shape[0] != rules.source.width:
            raise rules.source.keys.invalid("it has no token embedding")
        if scale is None:
            raise CutRefused(
                f"{rules.source.name} ({rules.architecture}) does more with a token than look its row up.",
                hint="Give its first stage the tokens.",
            )
        self._scale = np.float32(scale)
        tensor = found.tensor
        self.width, self.vocabulary = tensor.shape
        self._kind: Any = importlib.import_module("gguf.constants").GGMLQuantizationType(
            _CODES[tensor.type.name]
        )
        self._unpack: Any = importlib.import_module("gguf.quants").dequantize
        row_bytes = tensor.nbytes // self.vocabulary
        with path.with_name(found.file.name).open("rb") as stream:
            self._map = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        table = np.frombuffer(self._map, dtype=np.uint8, count=tensor.nbytes, offset=found.offset)
        self._table = table.reshape(self.vocabulary, row_bytes)

    def rows(self, tokens: NDArray[np.int32]) -> NDArray[np.float32]:
        """[n, width] f32, scaled as the architecture does for tokens. Raises InvalidRequest for an id that
        is none."""
        if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < self.vocabulary:
            raise InvalidRequest(
                f"A token id is outside the vocabulary of {self.vocabulary}.",
                hint="Ids come from this model's own tokenizer.",
                param="prompt",
            )
        unpacked = np.asarray(self._unpack(self._table[tokens], self._kind), dtype=np.float32)
        return unpacked.reshape(len(tokens), self.width) * self._scale

    def close(self) -> None:
        """Unmap the file."""
        del self._table
        self._map.close()
