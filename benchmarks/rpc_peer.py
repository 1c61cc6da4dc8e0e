"""llama.cpp's own split over RPC, for `meshllm bench split --rpc-bin DIR`: builds both programs, prints DIR.

    meshllm bench split --rpc-bin "$(python -m benchmarks.rpc_peer)"

They come from the very source package that the engine was built from, with -DGGML_RPC=ON, once into the
cache.
"""

import sys

from benchmarks.peer import build_programs
from benchmarks.programs import say
from meshllm_core.errors import MeshError, describe

TARGETS = ("llama-server", "ggml-rpc-server")
FLAGS = ("-DGGML_RPC=ON",)


def main() -> int:
    """Prints the directory; the exit code of what went wrong."""
    try:
        folder = build_programs(TARGETS, FLAGS, "build-rpc")
    except MeshError as error:
        say(describe(error))
        return int(error.exit_code)
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
