"""Fragments of a layer package: which tensor belongs to which, and the exact bytes of each.

A fragment is a GGUF v3 with the source's key/values copied raw and its tensors under their own, global names.
Its bytes follow from the source alone: two machines that package one file make one and the same package.

    role        stage_index  tensors
    metadata    0            those that belong to every fragment
    embeddings  1            token_embd.weight, per_layer_token_embd.weight
    output      2            output.*, output_norm.*
    layer i     1000 + i     blk.i.*, cache_…_l<i>

A tensor with none of these names (rope_freqs.weight, position_embd.weight …) is in every fragment.
"""

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from meshllm_core.errors import ModelFileInvalid
from meshllm_core.models.cursor import DAMAGED_HINT
from meshllm_core.models.ggml_types import TYPE_CODES
from meshllm_core.models.gguf_file import Tensor
from meshllm_core.models.keys import MAX_LAYERS
from meshllm_core.models.stage_source import SourceFile, SourceTensor, StageSource

ALIGNMENT_KEY = "general.alignment"
SLICE_PREFIX = "skippy.slice."
"""Of the keys that say which part of a model a fragment is."""
SPLIT_KEYS = frozenset({"split.no", "split.count", "split.tensors.count"})
"""Keys that belong to a file of a split set, not to the model."""
CHUNK = 1 << 20
"""Bytes that are held at a time."""

_LAYER = re.compile(r"blk\.(\d{1,9})\..+|cache_.+_l(\d{1,9})")
_EMBEDDINGS = frozenset({"token_embd.weight", "per_layer_token_embd.weight"})
_OUTPUT = frozenset({"output.weight", "output.bias", "output_norm.weight", "output_norm.bias"})
_U32, _I32, _BOOL = 4, 5, 7


@dataclass(frozen=True, order=True)
class Role:
    """Which fragment; in the order in which fragments are joined."""

    stage_index: int

    @property
    def layer(self) -> int | None:
        """The layer that it holds, if it is a layer's."""
        return self.stage_index - 1000 if self.stage_index >= 1000 else None

    @property
    def title(self) -> str:
        """For a person and for the name of a file."""
        names = {0: "metadata", 1: "embeddings", 2: "output"}
        return names.get(self.stage_index) or f"layer-{self.stage_index - 1000:03d}"


METADATA, EMBEDDINGS, OUTPUT = Role(0), Role(1), Role(2)


def layer_role(layer: int) -> Role:
    """The fragment of one layer, counted from 0."""
    return Role(1000 + layer)


def role_of(tensor: str) -> Role | None:
    """The fragment that a tensor belongs to by its name; None: every one."""
    if found := _LAYER.fullmatch(tensor):
        return layer_role(int(found[1] or found[2]))
    if tensor in _EMBEDDINGS:
        return EMBEDDINGS
    return OUTPUT if tensor in _OUTPUT else None


def count_layers(tensors: Iterable[str], name: str) -> int:
    """The highest layer's number plus one, each layer there. Raises ModelFileInvalid."""
    layers = {role.layer for tensor in tensors if (role := role_of(tensor)) and role.layer is not None}
    count = max((layer for layer in layers if layer is not None), default=-1) + 1
    if not 0 < count <= MAX_LAYERS:
        raise ModelFileInvalid(
            f"{name} cannot be cut into layers: it has {count} of them by its tensors' names.",
            hint=f"Models of 1 to {MAX_LAYERS} layers can be packaged.",
        )
    if missing := sorted(set(range(count)) - {layer for layer in layers if layer is not None}):
        raise ModelFileInvalid(f"{name} has no tensors of layer {missing[0]}.", hint=DAMAGED_HINT)
    return count


@dataclass(frozen=True)
class Copy:
    """Bytes that are taken from a file."""

    file: SourceFile
    offset: int
    length: int


@dataclass(frozen=True)
class GgufPlan:
    """A GGUF that can be written: bytes that are known and bytes from elsewhere. Planning reads no tensor."""

    head: tuple[bytes, ...]
    """What stands before the tensors, in pieces: plans of one model share its key/values."""
    data: tuple[Copy | int, ...]
    """The tensors; a number stands for that many zero bytes."""
    size: int
    """Bytes in all."""
    tensors: tuple[Tensor, ...]

    @property
    def tensor_bytes(self) -> int:
        """Bytes of the tensors, without padding."""
        return sum(tensor.nbytes for tensor in self.tensors)

    def chunks(self) -> Iterator[bytes]:
        """The file's bytes, in parts of at most CHUNK but for the head. Raises what the source raises."""
        yield from self.head
        for part in self.data:
            if isinstance(part, int):
                yield bytes(part)
                continue
            for at in range(0, part.length, CHUNK):
                yield part.file.read(part.offset + at, min(CHUNK, part.length - at))


class Fragments:
    """A model seen as the fragments that it would be cut into."""

    def __init__(self, source: StageSource) -> None:
        self.source = source
        self._key_values = _key_values(source)

    def plan(self, role: Role, layers: int) -> GgufPlan:
        """One fragment of a model of `layers` layers."""
        places = [place for name, place in self.source.tensors.items() if role_of(name) in (role, None)]
        layer = role.layer
        start = {OUTPUT: layers}.get(role, 0) if layer is None else layer
        extra = {
            f"{SLICE_PREFIX}stage_index": _pack(_I32, role.stage_index),
            f"{SLICE_PREFIX}layer_start": _pack(_I32, start),
            f"{SLICE_PREFIX}layer_end": _pack(_I32, start if layer is None else layer + 1),
            f"{SLICE_PREFIX}include_embeddings": _pack(_BOOL, role == EMBEDDINGS),
            f"{SLICE_PREFIX}include_output": _pack(_BOOL, role == OUTPUT),
        }
        return self._gguf(places, extra)

    def _gguf(self, places: Sequence[SourceTensor], extra: dict[str, bytes]) -> GgufPlan:
        alignment = self.source.head.alignment
        count, key_values = self._key_values
        if not self.source.present(ALIGNMENT_KEY):
            extra = {ALIGNMENT_KEY: _pack(_U32, alignment)} | extra
        rows, data, offset = [], list[Copy | int](), 0
        for place in places:
            rows.append(_row(place.tensor, offset))
            padded = -(-place.tensor.nbytes // alignment) * alignment
            data += [Copy(place.file, place.offset, place.tensor.nbytes), padded - place.tensor.nbytes]
            offset += padded
        start = b"GGUF" + struct.pack("<IQQ", 3, len(rows), count + len(extra))
        rest = b"".join([*(_text(key) + value for key, value in extra.items()), *rows])
        rest += bytes(-(len(start) + len(key_values) + len(rest)) % alignment)
        head = (start, key_values, rest)
        tensors = tuple(place.tensor for place in places)
        return GgufPlan(head, tuple(data), sum(map(len, head)) + offset, tensors)


def _key_values(source: StageSource) -> tuple[int, bytes]:
    """How many key/value pairs the model itself has, and their raw bytes."""
    spans = source.head.spans.items()
    kept = [span for key, span in spans if key not in SPLIT_KEYS and not key.startswith(SLICE_PREFIX)]
    if not kept:
        return 0, b""
    first = min(start for start, _ in kept)
    raw = source.files[0].read(first, max(end for _, end in kept) - first)
    return len(kept), b"".join(raw[start - first : end - first] for start, end in kept)


def _row(tensor: Tensor, offset: int) -> bytes:
    shape = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
    return _text(tensor.name) + shape + struct.pack("<IQ", TYPE_CODES[tensor.type.name], offset)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _pack(kind: int, value: int) -> bytes:
    return struct.pack("<I?" if kind == _BOOL else "<Ii" if kind == _I32 else "<II", kind, value)
