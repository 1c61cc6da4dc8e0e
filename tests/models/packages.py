"""A model of several layers with weights that differ, and packages of it."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from meshllm_core.models.package_build import BuiltPackage, build_package
from meshllm_core.models.package_manifest import MANIFEST_NAME

LAYERS = 6
WIDTH = 64
VOCABULARY = 300


def write_model(path: Path, *, tied: bool = False, layers: int = LAYERS, architecture: str = "llama") -> Path:
    """A model of some hundred kilobytes; `tied`: it reads out by its embeddings."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(layers)
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(2 * WIDTH)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_token_list([f"token{number} grüße" for number in range(VOCABULARY)])
    writer.add_token_scores([0.0] * VOCABULARY)
    random = np.random.default_rng(5)
    shapes = {
        "token_embd.weight": (VOCABULARY, WIDTH),
        "output_norm.weight": (WIDTH,),
        "rope_freqs.weight": (8,),
    }
    shapes |= {} if tied else {"output.weight": (VOCABULARY, WIDTH)}
    for layer in range(layers):
        shapes |= {f"blk.{layer}.{part}_norm.weight": (WIDTH,) for part in ("attn", "ffn")}
        shapes |= {f"blk.{layer}.attn_{part}.weight": (WIDTH, WIDTH) for part in ("q", "k", "v", "output")}
        shapes |= {f"blk.{layer}.ffn_{part}.weight": (2 * WIDTH, WIDTH) for part in ("gate", "up")}
        shapes[f"blk.{layer}.ffn_down.weight"] = (WIDTH, 2 * WIDTH)
    for name, shape in shapes.items():
        writer.add_tensor(name, random.normal(0, 0.1, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def build(path: Path, folder: Path) -> BuiltPackage:
    """A package of a model, made at a fixed time."""
    return build_package(path, folder, created_at=1_700_000_000)


def files_of(folder: Path) -> dict[str, bytes]:
    """A folder as a hub's repository."""
    return {str(p.relative_to(folder).as_posix()): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def tensors_of(path: Path) -> dict[str, tuple[tuple[int, ...], bytes]]:
    """Shape and bytes of every tensor, as the reference library reads them."""
    reader = gguf.GGUFReader(path)
    return {t.name: (tuple(int(n) for n in t.shape), t.data.tobytes()) for t in reader.tensors}


def change_manifest(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Rewrites the manifest as `change` leaves it."""
    path = folder / MANIFEST_NAME
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")


def sha256(data: bytes) -> str:
    """In hex."""
    return hashlib.sha256(data).hexdigest()
