"""Random models of some megabytes of any architecture that llama.cpp knows.

The names and shapes of their tensors come from llama.cpp itself, which is asked to make a model from
key/values alone (`llama_model_init_from_user`); the file is then written with the gguf package, in f32.
"""

import ctypes
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from meshllm_core.engine.llama.library import api
from meshllm_core.engine.llama.stage_tap import _ggml_base
from tests.support.tiny_architecture_keys import Value, layer_count, model_keys


class _Tensor(ctypes.Structure):
    """The leading fields of ggml_tensor."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("buffer", ctypes.c_void_p),
        ("ne", ctypes.c_int64 * 4),
    )


class _InitParams(ctypes.Structure):
    """gguf_init_params."""

    _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p))


def write_tiny(path: Path, architecture: str, variant: str = "", *, seed: int = 7) -> Path:
    """Writes a model of `architecture`; `variant` names one of several shapes of it."""
    keys = model_keys(architecture, variant)
    # llama.cpp cannot make up a prediction head from keys; it is added to the plain model.
    plain = model_keys(architecture) if variant == "nextn" else keys
    shapes = _shapes(path.with_suffix(".keys"), architecture, plain)
    if variant == "tied":
        del shapes["output.weight"]
    if variant == "nextn":
        shapes |= _prediction_head(shapes, layer_count(architecture))
    random = np.random.default_rng(seed)
    writer = _writer(path, architecture, keys)
    for name, shape in shapes.items():
        writer.add_tensor(name, _values(random, name, shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _prediction_head(shapes: dict[str, tuple[int, ...]], layer: int) -> dict[str, tuple[int, ...]]:
    """One more block with what predicts the token after the next."""
    before, own = f"blk.{layer - 1}.", f"blk.{layer}."
    # The scales of quantized weights are optional, and not read in this block.
    head = {
        own + name.removeprefix(before): shape
        for name, shape in shapes.items()
        if name.startswith(before) and not name.endswith("scale")
    }
    (width,) = shapes["output_norm.weight"]
    head |= {f"{own}nextn.{name}.weight": (width,) for name in ("enorm", "hnorm")}
    return head | {f"{own}nextn.eh_proj.weight": (width, 2 * width)}


def _values(random: np.random.Generator, name: str, shape: tuple[int, ...]) -> Any:
    values = random.normal(0, 0.1, shape).astype(np.float32)
    if "ssm_a" in name:
        return -np.abs(values)
    if name.endswith("norm.weight"):
        return (1 + values).astype(np.float32)
    if name.startswith("rope_"):
        return (1 + np.abs(values)).astype(np.float32)
    if "tid2eid" in name:
        return random.integers(0, 2, shape).astype(np.int32)
    return values


def _writer(path: Path, architecture: str, keys: dict[str, Value]) -> Any:
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_tokenizer_model("none")
    for key, value in keys.items():
        match value:
            case bool():
                writer.add_bool(key, value)
            case int():
                writer.add_uint32(key, value)
            case float():
                writer.add_float32(key, value)
            case str():
                writer.add_string(key, value)
            case list():
                writer.add_array(key, value)
    return writer


def _shapes(path: Path, architecture: str, keys: dict[str, Value]) -> dict[str, tuple[int, ...]]:
    """Names and shapes (numpy's order) of every tensor that llama.cpp makes for these keys."""
    writer = _writer(path, architecture, keys)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    lib = _ggml_base()
    lib.gguf_init_from_file.restype = ctypes.c_void_p
    lib.gguf_init_from_file.argtypes = [ctypes.c_char_p, _InitParams]
    lib.gguf_free.argtypes = [ctypes.c_void_p]
    metadata = lib.gguf_init_from_file(str(path).encode(), _InitParams(True, None))
    path.unlink()
    found: dict[str, tuple[int, ...]] = {}

    @api.llama_model_set_tensor_data_t  # type: ignore[untyped-decorator]
    def note(address: int, _data: object) -> None:
        sizes = list(_Tensor.from_address(address).ne)
        while len(sizes) > 1 and sizes[-1] == 1:
            sizes.pop()
        found[lib.ggml_get_name(address).decode()] = tuple(reversed(sizes))

    params = api.llama_model_default_params()
    params.n_gpu_layers = 0
    model = api.llama_model_init_from_user(metadata, note, None, params)
    lib.gguf_free(metadata)
    if not model:
        raise ValueError(f"llama.cpp makes no {architecture} of these keys")
    api.llama_model_free(model)
    return found
