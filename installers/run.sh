#!/bin/sh
# Sets everything up, then starts meshllm: the dashboard on a terminal, else a headless node in the foreground.
#
#   sh installers/run.sh                        dashboard, or node without a terminal
#   sh installers/run.sh --model auto           the same with options
#   sh installers/run.sh status                 any other command of meshllm
#
# MESHLLM_ACCELERATOR=cpu|cuda|rocm|vulkan|metal   what llama.cpp is built for (found out by itself)
# MESHLLM_VENV=FOLDER          where the virtual environment lives (.venv in the checkout)
# MESHLLM_WHEEL_CACHE=FOLDER   where the built engine is kept (~/.cache/meshllm/wheels)
# MESHLLM_PYTHON=PROGRAM       the Python to use (the first 3.11+ on PATH)
set -eu

checkout=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$checkout/installers/lib.sh"
set_up "$checkout"

case ${1:-} in
'')
    if [ ! -t 0 ] || [ ! -t 1 ]; then set -- serve --headless; fi
    ;;
-h | --help | --version) ;;
-*)
    # On a terminal `serve` opens the dashboard too.
    if [ -t 0 ] && [ -t 1 ]; then set -- serve "$@"; else set -- serve --headless "$@"; fi
    ;;
esac
exec "$venv/bin/meshllm" "$@"
