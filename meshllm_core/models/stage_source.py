"""A model to cut stages from: a GGUF, a split set or fragments of one, on this disk or read by ranges.

Key/values and tensors stay where they are; what is known of them is where their bytes are.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import SEEK_SET, RawIOBase
from pathlib import Path
from typing import BinaryIO, cast

from meshllm_core.errors import ModelFileInvalid
from meshllm_core.models.cursor import DAMAGED_HINT
from meshllm_core.models.gguf_file import GgufHead, SkippedArray, Tensor, parse_head
from meshllm_core.models.inspect import model_files
from meshllm_core.models.keys import MAX_LAYERS, Keys
from meshllm_core.models.split import MAX_MEMBERS

MAX_ARCHITECTURE = 64
"""Longest name of an architecture, in characters."""

_BLOCK = re.compile(r"blk\.(\d{1,60})\.")

Read = Callable[[int, int], bytes]
"""(offset, length) -> exactly that many bytes of a file. Raises a MeshError when it cannot."""


@dataclass(frozen=True)
class SourceFile:
    """One file of a model, wherever it is."""

    name: str
    size: int
    """Bytes."""
    read: Read


@dataclass(frozen=True)
class SourceTensor:
    """A tensor and where its bytes are."""

    tensor: Tensor
    file: SourceFile
    offset: int
    """Bytes from the beginning of the file."""


@dataclass(frozen=True)
class StageSource:
    """A model as its heads describe it."""

    files: tuple[SourceFile, ...]
    head: GgufHead
    """That of the first file: its key/values are the model's."""
    architecture: str
    keys: Keys
    tensors: Mapping[str, SourceTensor]

    @property
    def name(self) -> str:
        """The first file's name, for sentences."""
        return self.files[0].name

    @property
    def blocks(self) -> int:
        """Blocks of the file, prediction heads included."""
        return self.keys.number("block_count", least=1, most=MAX_LAYERS)

    @property
    def layers(self) -> int:
        """Layers of the trunk: what can be cut. Heads that predict further tokens (nextn) do not count."""
        ahead = self.keys.number("nextn_predict_layers", 0, most=MAX_LAYERS)
        if ahead >= self.blocks:
            raise self.keys.invalid(f"{ahead} of its {self.blocks} blocks are said to be prediction heads")
        return self.blocks - ahead

    @property
    def width(self) -> int:
        """Elements of a hidden row."""
        return self.keys.number("embedding_length", least=1)

    @property
    def vocabulary(self) -> int:
        """Rows of the token embedding; 0 when the files at hand do not hold it."""
        listed = self.keys.count("tokenizer.ggml.tokens") or self.keys.number("vocab_size", 0)
        found = self.tensors.get("token_embd.weight")
        return found.tensor.shape[1] if found and len(found.tensor.shape) > 1 else listed

    def present(self, key: str) -> bool:
        """Whether the model has a key, under its full name."""
        return key in self.head.values

    def is_array(self, key: str) -> bool:
        """Whether the value under a full name is an array."""
        return isinstance(self.head.values.get(key), tuple | SkippedArray)

    def entry(self, key: str) -> bytes:
        """A key with its type and value, as the file holds it."""
        first, end = self.head.spans[key]
        return self.files[0].read(first, end - first)


class _Ranges(RawIOBase):
    """A file that is read by ranges, as the reader of heads wants it."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._at = 0

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        """Only from the beginning."""
        self._at = offset
        return offset

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, fewer at the end."""
        count = min(size, self._file.size - self._at)
        data = self._file.read(self._at, count) if count > 0 else b""
        self._at += len(data)
        return data


def local_files(path: Path) -> tuple[SourceFile, ...]:
    """The files of a model on this disk, given any member. Raises ModelNotFound."""
    return tuple(local_file(file) for file in model_files(path))


def local_file(path: Path) -> SourceFile:
    """One file of this disk, whatever its name says. Raises ModelFileInvalid."""

    def read(offset: int, length: int) -> bytes:
        try:
            with path.open("rb") as stream:
                stream.seek(offset)
                data = stream.read(length)
        except OSError as error:
            raise _unreadable(path, error) from error
        if len(data) != length:
            raise ModelFileInvalid(f"{path.name} became shorter while it was read.", hint=DAMAGED_HINT)
        return data

    try:
        return SourceFile(path.name, path.stat().st_size, read)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> ModelFileInvalid:
    return ModelFileInvalid(
        f"{path} cannot be read: {error.strerror or error}.", hint="Check that it is a file you may read."
    )


def open_source(files: Sequence[SourceFile]) -> StageSource:
    """Reads the heads only. A tensor that several files hold counts once (fragments repeat the small ones).

    Raises ModelFileInvalid: damaged, a part of a split set missing, one name with two shapes.
    """
    if not 0 < len(files) <= MAX_MEMBERS + 2 * MAX_LAYERS:
        raise ModelFileInvalid(f"A model of {len(files)} files cannot be cut.", hint=DAMAGED_HINT)
    heads = [parse_head(cast(BinaryIO, _Ranges(file)), file.size, Path(file.name)) for file in files]
    architecture = heads[0].values.get("general.architecture")
    if not isinstance(architecture, str) or not 0 < len(architecture) <= MAX_ARCHITECTURE:
        raise ModelFileInvalid(
            f"{files[0].name} does not say its architecture.", hint="It is damaged, or not a language model."
        )
    keys = Keys(heads[0], architecture)
    parts = heads[0].values.get("split.count", 1)
    if isinstance(parts, int) and parts > 1 and parts != len(files):
        raise keys.invalid(f"{len(files)} of its {parts} parts are here")
    total, found = heads[0].values.get("split.tensors.count"), sum(len(head.tensors) for head in heads)
    if isinstance(parts, int) and parts > 1 and isinstance(total, int) and total != found:
        raise keys.invalid(f"its parts hold {found} tensors together instead of {total}")
    return StageSource(tuple(files), heads[0], architecture, keys, _tensors(files, heads, keys))


def _tensors(files: Sequence[SourceFile], heads: Sequence[GgufHead], keys: Keys) -> dict[str, SourceTensor]:
    found: dict[str, SourceTensor] = {}
    blocks = keys.number("block_count", least=1, most=MAX_LAYERS)
    for file, head in zip(files, heads, strict=True):
        for tensor in head.tensors:
            known = found.get(tensor.name)
            if known is None:
                _check_layer(tensor.name, blocks, keys)
                found[tensor.name] = SourceTensor(tensor, file, head.data_offset + tensor.offset)
            elif (known.tensor.shape, known.tensor.type) != (tensor.shape, tensor.type):
                raise keys.invalid(f"the tensor {tensor.name!r} is there twice, in two shapes")
    return found


def _check_layer(name: str, blocks: int, keys: Keys) -> None:
    """What llama.cpp would not find a place for must not be left out without a word."""
    number = match[1] if (match := _BLOCK.match(name)) else "0"
    if str(int(number)) != number or int(number) >= blocks:
        raise keys.invalid(f"the tensor {name!r} belongs to none of its {blocks} layers")
