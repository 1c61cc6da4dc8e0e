"""Run as a program: the buffer sizes that llama.cpp logs for a model, as JSON. A child, as it may abort."""

import ctypes
import json
import re
import sys

import llama_cpp

LINES: list[str] = []


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def keep(level: int, text: bytes, data: object) -> None:
    """Collects llama.cpp's log."""
    LINES.append(text.decode(errors="replace"))


def total(what: str) -> float:
    """MiB of all buffers of a kind logged so far."""
    return sum(float(size) for size in re.findall(rf"{what} buffer size\s*=\s*([\d.]+)", "".join(LINES)))


def main(path: str, cases: list[list[int]]) -> None:
    """Opens a context for each (context, lanes) as the engine does."""
    llama_cpp.llama_log_set(keep, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    settings = llama_cpp.llama_model_default_params()
    settings.n_gpu_layers = 0
    model = llama_cpp.llama_model_load_from_file(path.encode(), settings)
    weights = total("model")
    found = []
    for context, lanes in cases:
        LINES.clear()
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = context * lanes
        params.n_batch = params.n_ubatch = 512
        params.n_seq_max = params.n_outputs_max = lanes
        params.kv_unified = True
        params.swa_full = False
        opened = llama_cpp.llama_init_from_model(model, params)
        sizes = {"kv": total("KV"), "compute": total("compute"), "output": total("output")}
        found.append({"model": weights, **sizes})
        llama_cpp.llama_free(opened)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
