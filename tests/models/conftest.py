"""Tiny GGUF files written on the spot, a local hub, and the real models where they are."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter

from meshllm_core.models.embedded import embedded_model
from meshllm_core.models.hub import Hub
from meshllm_core.paths import Paths
from tests.support.hub import LocalHub, serve_hub

WriteGguf = Callable[..., Path]


def write_gguf(path: Path, *, architecture: str = "llama", layers: int = 2, **more: object) -> Path:
    """A tiny model with random-free weights; `more` adds or replaces key/values of the architecture."""
    writer = GGUFWriter(path, architecture)
    values: dict[str, object] = {
        "block_count": layers,
        "context_length": 4096,
        "embedding_length": 64,
        "feed_forward_length": 128,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
    } | {key.replace("__", "."): value for key, value in more.items()}
    for key, value in values.items():
        _add(writer, f"{architecture}.{key}", value)
    writer.add_file_type(0)
    writer.add_token_list([f"token{number}" for number in range(300)])
    writer.add_token_scores([0.0] * 300)
    writer.add_chat_template("{{ messages }}")
    writer.add_tensor("token_embd.weight", np.zeros((300, 64), dtype=np.float32))
    for layer in range(layers):
        writer.add_tensor(f"blk.{layer}.attn_q.weight", np.zeros((64, 64), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: GGUFWriter, key: str, value: object) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, list):
        writer.add_array(key, value)
    elif value is not None:
        raise TypeError(key)


@pytest.fixture
def gguf(tmp_path: Path) -> WriteGguf:
    """Writes a tiny GGUF of the given name into the test's folder."""

    def write(name: str = "tiny.gguf", **more: object) -> Path:
        return write_gguf(tmp_path / name, **more)  # type: ignore[arg-type]

    return write


@pytest.fixture
def tiny(tmp_path: Path) -> bytes:
    """Bytes of a tiny GGUF."""
    return write_gguf(tmp_path / "tiny-source.gguf").read_bytes()


@pytest.fixture
def local_hub() -> Iterator[LocalHub]:
    """A hub on loopback."""
    with serve_hub() as hub:
        yield hub


@pytest.fixture
def hub(local_hub: LocalHub) -> Hub:
    """A client of the local hub that does not wait long."""
    return Hub(endpoint=local_hub.address, connect_timeout=2, read_timeout=2, retry_wait=0.01)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """A user's folders below the test's own."""
    home = tmp_path / "home"
    return Paths(home / "config", home / "data", home / "cache", home / "logs")


@pytest.fixture(scope="session")
def real_model() -> Path:
    """SmolLM2-135M-Instruct: named by MESHLLM_TEST_MODEL, else the installed package's."""
    named = os.environ.get("MESHLLM_TEST_MODEL")
    return Path(named) if named else embedded_model()
