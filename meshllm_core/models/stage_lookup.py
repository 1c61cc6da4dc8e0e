"""Rows of the token embedding that a first stage's file ends with: mapped, only those rows unpacked."""

import importlib
import mmap
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from meshllm_core.errors import InvalidRequest, ModelFileInvalid
from meshllm_core.models.ggml_types import TENSOR_TYPES
from meshllm_core.models.gguf_file import GgufHead, read_head
from meshllm_core.models.stage_entries import EMBEDDING_KEY, EmbeddingPlace

_TYPES = {kind.name: (code, kind) for code, kind in TENSOR_TYPES.items()}


class EmbeddingLookup:
    """The token embedding of one stage's file."""

    def __init__(self, path: Path, width: int) -> None:
        """`width`: elements of a row. Raises ModelFileInvalid where the file holds no embedding of it."""
        head = read_head(path)
        place = _place(head, width)
        self._scale = np.float32(place.scale)
        self.width, self.vocabulary = width, place.rows
        self._kind: Any = importlib.import_module("gguf.constants").GGMLQuantizationType(
            _TYPES[place.type][0]
        )
        self._unpack: Any = importlib.import_module("gguf.quants").dequantize
        with path.open("rb") as stream:
            self._map = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        start = head.file_bytes - place.nbytes
        table = np.frombuffer(self._map, dtype=np.uint8, count=place.nbytes, offset=start)
        self._table = table.reshape(place.rows, -1)

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


def _place(head: GgufHead, width: int) -> EmbeddingPlace:
    text = head.values.get(EMBEDDING_KEY)
    try:
        place = msgspec.json.decode(text if isinstance(text, str) else "", type=EmbeddingPlace)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _damaged(head) from error
    _, kind = _TYPES.get(place.type, (0, None))
    used = head.data_offset + max((tensor.offset + tensor.nbytes for tensor in head.tensors), default=0)
    if kind is None or width % kind.block or place.rows < 1:
        raise _damaged(head)
    if (
        place.nbytes != place.rows * (width // kind.block * kind.size)
        or place.nbytes > head.file_bytes - used
    ):
        raise _damaged(head)
    return place


def _damaged(head: GgufHead) -> ModelFileInvalid:
    return ModelFileInvalid(
        f"The stage {head.path.name} does not end with its token embedding.",
        hint="Remove it: it is made again from the model.",
    )
