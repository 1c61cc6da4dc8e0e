"""Packages as Mesh LLM would publish them: written byte by byte from the format's description, not by our
builder, so that a mistake of the builder is not repeated here.
"""

import hashlib
import json
import random
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

LAYERS = 4
WIDTH = 32
VOCABULARY = 40
Tensor = tuple[str, tuple[int, ...], bytes]
"""Name, shape (fastest first), f32 values."""
Change = Callable[[dict[str, Any]], object]

_U32, _I32, _F32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_random = random.Random(5)


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key: str, value: object) -> bytes:
    """One key with its value; whole numbers are u32."""
    start = text(key)
    match value:
        case bool():
            return start + struct.pack("<I?", _BOOL, value)
        case int():
            return start + struct.pack("<II", _U32, value)
        case float():
            return start + struct.pack("<If", _F32, value)
        case str():
            return start + struct.pack("<I", _STRING) + text(value)
        case list():
            head = struct.pack("<IIQ", _ARRAY, _STRING if isinstance(value[0], str) else _F32, len(value))
            items = (text(v) if isinstance(v, str) else struct.pack("<f", v) for v in value)
            return start + head + b"".join(items)
    raise TypeError(key)


def write_gguf(
    entries: Sequence[bytes],
    tensors: Sequence[Tensor],
    *,
    version: int = 3,
    alignment: int = 32,
    types: Mapping[str, int] = {},
) -> bytes:
    """A whole file; an alignment of its own must be among the entries. `types` of those that are not f32."""
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries)) + b"".join(entries)
    data = b""
    for name, shape, content in tensors:
        out += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        out += struct.pack("<IQ", types.get(name, 0), len(data))
        data += content + bytes(-len(content) % alignment)
    return out + bytes(-len(out) % alignment) + data


def key_values(**more: object) -> list[bytes]:
    """Of a llama; `more` replaces or adds keys of the architecture."""
    values: dict[str, object] = {
        "block_count": LAYERS,
        "context_length": 256,
        "embedding_length": WIDTH,
        "feed_forward_length": 2 * WIDTH,
        "attention__head_count": 2,
        "attention__head_count_kv": 2,
        "attention__layer_norm_rms_epsilon": 1e-6,
    } | more
    tokens = [f"token{number} 模型" for number in range(VOCABULARY)]
    return [
        entry("general.architecture", "llama"),
        entry("general.name", "tïny 模型"),
        *(entry(f"llama.{key.replace('__', '.')}", value) for key, value in values.items()),
        entry("tokenizer.ggml.tokens", tokens),
    ]


def tensors() -> list[Tensor]:
    """All of the model; `rope_freqs.weight` belongs to every fragment."""
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (WIDTH, VOCABULARY), "rope_freqs.weight": (8,)}
    for layer in range(LAYERS):
        shapes[f"blk.{layer}.attn_norm.weight"] = (WIDTH,)
        shapes |= {f"blk.{layer}.attn_{part}.weight": (WIDTH, WIDTH) for part in ("q", "k", "v", "output")}
    shapes |= {"output_norm.weight": (WIDTH,), "output.weight": (WIDTH, VOCABULARY)}
    return [(name, shape, _values(shape)) for name, shape in shapes.items()]


def _values(shape: Sequence[int]) -> bytes:
    count = 1
    for size in shape:
        count *= size
    return struct.pack(f"<{count}f", *(_random.gauss(0, 0.1) for _ in range(count)))


def _part(name: str) -> str:
    if found := re.match(r"blk\.(\d+)\.", name):
        return found[1]
    ends = {"token_embd.weight": "embeddings", "output.weight": "output", "output_norm.weight": "output"}
    return ends.get(name, "all")


class ForeignPackage:
    """A package in a folder that a test changes before it writes the manifest."""

    def __init__(self, folder: Path, entries: Sequence[bytes], paths: Mapping[int, str] = {}) -> None:
        """`paths` of layers that are not called as usual."""
        self.folder = folder
        self.entries = list(entries)
        self.tensors = tensors()
        shared = {
            "metadata": self.add("shared/metadata.gguf", "metadata", 0, (0, 0)),
            "embeddings": self.add("shared/embeddings.gguf", "embeddings", 1, (0, 0)),
            "output": self.add("shared/output.gguf", "output", 2, (LAYERS, LAYERS)),
        }
        layers = []
        for layer in range(LAYERS):
            path = paths.get(layer, f"layers/layer-{layer:03d}.gguf")
            artifact = self.add(path, str(layer), 1000 + layer, (layer, layer + 1))
            layers.append({"layer_index": layer, **artifact})
        self.manifest: dict[str, Any] = {
            "schema_version": 1,
            "model_id": "owner/模型",
            "format": "layer-package",
            "source_model": {
                "path": "/elsewhere/model.gguf",
                "sha256": "ab" * 32,
                "repo": None,
                "canonical_ref": "hf:owner/model",
                "distribution_id": "x",
                "files": [],
            },
            "layer_count": LAYERS,
            "activation_width": WIDTH,
            "generation": {"later": [None, {"than": "this"}]},
            "shared": shared,
            "layers": layers,
            "projectors": [],
            "skippy_abi_version": "0.1.53",
            "created_at_unix_secs": 1_700_000_000,
        }

    def add(self, path: str, part: str, index: int, layers: tuple[int, int]) -> dict[str, Any]:
        """Writes one fragment and returns its artifact."""
        chosen = [tensor for tensor in self.tensors if _part(tensor[0]) in (part, "all")]
        first, end = layers
        own = [
            entry("general.alignment", 32),
            *(
                text(f"skippy.slice.{key}") + struct.pack("<Ii", _I32, value)
                for key, value in (("stage_index", index), ("layer_start", first), ("layer_end", end))
            ),
            entry("skippy.slice.include_embeddings", part == "embeddings"),
            entry("skippy.slice.include_output", part == "output"),
        ]
        return self.put(path, write_gguf([*self.entries, *own], chosen), chosen)

    def put(self, path: str, data: bytes, held: Sequence[Tensor]) -> dict[str, Any]:
        """Writes a file and returns what a manifest says of it."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        return {
            "path": path,
            "tensor_count": len(held),
            "tensor_bytes": sum(len(content) for _, _, content in held),
            "artifact_bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }

    def finish(self) -> Path:
        """Writes the manifest."""
        document = json.dumps(self.manifest, ensure_ascii=False)
        (self.folder / "model-package.json").write_text(document, encoding="utf-8")
        return self.folder
