"""Loads llama.cpp's shared library and lists its devices."""

import ctypes
import importlib
import importlib.metadata
import importlib.util
import sys
from types import ModuleType
from typing import Any

from meshllm_core.errors import EngineError
from meshllm_core.state.events import Device

_KINDS = {0: "cpu", 1: "gpu", 2: "integrated_gpu", 3: "accelerator"}


def _binding() -> Any:
    """The module `llama_cpp.llama_cpp` without its package's own __init__.

    That __init__ imports the high-level API with numpy, jinja2 and a disk cache: 0.3 s and 20 MB
    in every engine process for code that is never called here.
    """
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or spec.submodule_search_locations is None:
        raise EngineError("llama-cpp-python is not installed.", hint="Run `sh installers/run.sh`.")
    if "llama_cpp" not in sys.modules:
        package = ModuleType("llama_cpp")
        package.__path__ = list(spec.submodule_search_locations)
        package.__spec__ = spec
        sys.modules["llama_cpp"] = package
    return importlib.import_module("llama_cpp.llama_cpp")


api: Any = _binding()
"""The binding's functions and structures, named as in llama.h."""


def version() -> str:
    """Version of the binding; it names the llama.cpp source it was built from."""
    return importlib.metadata.version("llama-cpp-python")


class _DeviceProps(ctypes.Structure):
    """The leading fields of ggml_backend_dev_props (ggml-backend.h)."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("description", ctypes.c_char_p),
        ("memory_free", ctypes.c_size_t),
        ("memory_total", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


def _ggml() -> Any:
    lib: Any = importlib.import_module("llama_cpp._ggml").libggml
    lib.ggml_backend_dev_count.restype = ctypes.c_size_t
    lib.ggml_backend_dev_get.restype = ctypes.c_void_p
    lib.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
    lib.ggml_backend_dev_get_props.restype = None
    lib.ggml_backend_dev_get_props.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    return lib


def device_handles() -> list[tuple[Device, int]]:
    """llama.cpp's devices with the pointers that llama_model_params.devices takes."""
    api.llama_backend_init()
    lib = _ggml()
    found = []
    for index in range(lib.ggml_backend_dev_count()):
        handle = lib.ggml_backend_dev_get(index)
        props = _DeviceProps()
        lib.ggml_backend_dev_get_props(handle, ctypes.byref(props))
        device = Device(
            name=props.name.decode(errors="replace"),
            description=(props.description or b"").decode(errors="replace"),
            kind=_KINDS.get(props.type, "accelerator"),  # type: ignore[arg-type]
            memory_total=props.memory_total,
            memory_free=props.memory_free,
        )
        found.append((device, handle))
    return found
