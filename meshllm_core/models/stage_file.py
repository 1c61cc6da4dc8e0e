"""What a stage's file consists of: which bytes of the source, which zeros, in which order.

Tensors are copied as they are, quantized or not; layers are renumbered from the window's first one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from meshllm_core.models.ggml_types import TensorType
from meshllm_core.models.gguf_file import Tensor
from meshllm_core.models.stage_entries import DUMMY_VOCABULARY, embedding_entry, stage_entries
from meshllm_core.models.stage_rules import StageRules, StageShape
from meshllm_core.models.stage_source import SourceFile, SourceTensor

_BLOCK = re.compile(r"blk\.(\d{1,4})\.(.+)")
_PER_LAYER_ROWS = "per_layer_model_proj.weight"
_PER_LAYER_COLUMNS = "per_layer_token_embd.weight"


@dataclass(frozen=True)
class Piece:
    """Bytes of the source: `count` runs of `length`, each `stride` behind the one before."""

    file: SourceFile
    offset: int
    length: int
    count: int = 1
    stride: int = 0


@dataclass(frozen=True)
class StageTensor:
    """A tensor of the stage's file."""

    name: str
    shape: tuple[int, ...]
    type: TensorType
    nbytes: int
    piece: Piece | None
    """None: zeros, which take no room on most disks."""


@dataclass(frozen=True)
class StageFile:
    """The whole file, before it is written."""

    shape: StageShape
    entries: tuple[bytes, ...]
    tensors: tuple[StageTensor, ...]
    alignment: int
    tail: StageTensor | None = None
    """The token embedding, behind all that llama.cpp reads: its rows are looked up one by one."""

    @property
    def copied_bytes(self) -> int:
        """Bytes of weights that come from the source."""
        return sum(tensor.nbytes for tensor in self.copied)

    @property
    def copied(self) -> tuple[StageTensor, ...]:
        """What comes from the source."""
        tail = (self.tail,) if self.tail else ()
        return (*(tensor for tensor in self.tensors if tensor.piece), *tail)


def plan_stage_file(rules: StageRules, start: int, end: int) -> StageFile:
    """The file of layers [start, end). Raises CutRefused; ModelFileInvalid where a layer is missing."""
    shape = rules.shape(start, end)
    _check_tables(rules)
    found = tuple(_tensors(rules, shape))
    _check_layers(rules, shape, found)
    vocabulary = next((t.shape[1] for t in found if t.name == "token_embd.weight"), DUMMY_VOCABULARY)
    entries = stage_entries(rules, shape, vocabulary=vocabulary)
    tail = _tail(rules) if shape.looked_up else None
    if tail is not None:
        entries.append(embedding_entry(rules, tail.type.name, tail.nbytes))
    return StageFile(shape, tuple(entries), found, rules.source.head.alignment, tail)


def _tail(rules: StageRules) -> StageTensor:
    found = rules.source.tensors.get("token_embd.weight")
    if found is None or found.tensor.shape != (rules.source.width, rules.source.vocabulary):
        raise rules.source.keys.invalid("it has no token embedding")
    return _copy(found, found.tensor.name)


def _check_tables(rules: StageRules) -> None:
    """Tables whose rows are counted must have some."""
    for name in ("token_embd.weight", "output.weight", "output.bias", _PER_LAYER_COLUMNS, _PER_LAYER_ROWS):
        found = rules.source.tensors.get(name)
        least = 1 if name.endswith(".bias") else 2
        if found is not None and (len(found.tensor.shape) < least or not found.tensor.elements):
            raise rules.source.keys.invalid(f"the tensor {name!r} has the shape {found.tensor.shape}")


def _check_layers(rules: StageRules, shape: StageShape, found: tuple[StageTensor, ...]) -> None:
    held = {match[1] for tensor in found if (match := _BLOCK.fullmatch(tensor.name))}
    for layer in range(shape.window_start, shape.window_end):
        if str(layer - shape.window_start) not in held:
            raise rules.source.keys.invalid(f"layer {layer} is missing")


def _tensors(rules: StageRules, shape: StageShape) -> Iterator[StageTensor]:
    for source in rules.source.tensors.values():
        match = _BLOCK.fullmatch(source.tensor.name)
        if match is None:
            made = _around(rules, shape, source)
        else:
            layer = int(match[1])
            if not shape.window_start <= layer < shape.window_end:
                continue
            name = f"blk.{layer - shape.window_start}.{match[2]}"
            made = _copy(source, name) if shape.start <= layer < shape.end else _zeros(source.tensor, name)
        if made is not None:
            yield made


def _copy(source: SourceTensor, name: str) -> StageTensor:
    tensor = source.tensor
    piece = Piece(source.file, source.offset, tensor.nbytes)
    return StageTensor(name, tensor.shape, tensor.type, tensor.nbytes, piece)


def _zeros(tensor: Tensor, name: str, rows: int = 0) -> StageTensor:
    """The same tensor full of zeros; `rows` not 0: with so many rows (its last dimension)."""
    shape = (*tensor.shape[:-1], rows) if rows else tensor.shape
    nbytes = tensor.nbytes // tensor.shape[-1] * rows if rows else tensor.nbytes
    return StageTensor(name, shape, tensor.type, nbytes, None)


def _around(rules: StageRules, shape: StageShape, source: SourceTensor) -> StageTensor | None:
    """A tensor that belongs to no layer."""
    tensor, rule = source.tensor, rules.rule
    match tensor.name:
        case "token_embd.weight":
            return _embedding(rules, shape, source)
        case "output.weight" | "output.bias" if not shape.last:
            return _zeros(tensor, tensor.name, _vocabulary(rules, shape))
        case "rope_freqs.weight" if shape.architecture == "gemma4":
            window = rules.windowed[shape.window_start : shape.window_end]
            return None if all(window) else _copy(source, tensor.name)
        case name if name == _PER_LAYER_ROWS:
            return _rows(rules, shape, source)
        case name if name == _PER_LAYER_COLUMNS:
            return _columns(rules, shape, source)
    if not shape.first and tensor.name in rule.drop:
        return None
    if not shape.first and tensor.name in rule.zero:
        return _zeros(tensor, tensor.name)
    return _copy(source, tensor.name)


def _vocabulary(rules: StageRules, shape: StageShape) -> int:
    """Rows of the token embedding that this stage's file says there are."""
    return rules.source.vocabulary if _reads_tokens(shape) or shape.last else DUMMY_VOCABULARY


def _reads_tokens(shape: StageShape) -> bool:
    return shape.sideband or (shape.first and not shape.looked_up)


def _embedding(rules: StageRules, shape: StageShape, source: SourceTensor) -> StageTensor:
    tied = shape.last and "output.weight" not in rules.source.tensors
    if _reads_tokens(shape) or tied:
        return _copy(source, source.tensor.name)
    return _zeros(source.tensor, source.tensor.name, _vocabulary(rules, shape))


def _rows(rules: StageRules, shape: StageShape, source: SourceTensor) -> StageTensor:
    """Of a projection with rows for each layer, those of the window."""
    tensor = source.tensor
    each = _share(rules, tensor, tensor.shape[-1])
    size = tensor.nbytes // tensor.shape[-1]
    count = each * (shape.window_end - shape.window_start)
    piece = Piece(source.file, source.offset + shape.window_start * each * size, count * size)
    return StageTensor(tensor.name, (tensor.shape[0], count), tensor.type, count * size, piece)


def _columns(rules: StageRules, shape: StageShape, source: SourceTensor) -> StageTensor:
    """Of a table whose rows hold a part for each layer, the parts of the window."""
    tensor = source.tensor
    each = _share(rules, tensor, tensor.shape[0])
    if each % tensor.type.block:
        raise rules.source.keys.invalid(f"a layer's part of {tensor.name} is not a whole number of blocks")
    size = each // tensor.type.block * tensor.type.size
    layers = shape.window_end - shape.window_start
    rows, length = tensor.shape[1], size * layers
    piece = Piece(
        source.file,
        source.offset + shape.window_start * size,
        length,
        count=rows,
        stride=tensor.nbytes // rows,
    )
    return StageTensor(tensor.name, (each * layers, rows), tensor.type, length * rows, piece)


def _share(rules: StageRules, tensor: Tensor, elements: int) -> int:
    """Elements for each layer. Prediction heads have none in these tables."""
    if len(tensor.shape) != 2 or not elements or elements % rules.layers:
        raise rules.source.keys.invalid(f"{tensor.name} has not one part for each of {rules.layers} layers")
    return elements // rules.layers
