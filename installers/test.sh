#!/bin/sh
# The whole gate, from nothing: sets up like run.sh, adds the development tools, then checks and tests.
# Stops at the first step that fails. Arguments go to pytest: sh installers/test.sh -k installers
set -eu

checkout=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$checkout/installers/lib.sh"
began=$(date +%s)
set_up "$checkout" --development
cd -- "$checkout"

# check NAME COMMAND...
check() {
    name=$1
    shift
    started=$(date +%s)
    say "== $name"
    code=0
    "$@" || code=$?
    took=$(($(date +%s) - started))
    if [ "$code" -ne 0 ]; then
        say "== $name FAILED after $took s (exit code $code): $*"
        exit "$code"
    fi
    say "== $name passed in $took s"
}

bin=$venv/bin
say "== set-up took $(($(date +%s) - began)) s"
check "ruff check" "$bin/ruff" check .
check "ruff format" "$bin/ruff" format --check .
check "mypy --strict" "$bin/mypy"
check "import-linter" "$bin/lint-imports"
check "pytest, warnings as errors" "$bin/python" -m pytest "$@"
say "== all passed in $(($(date +%s) - began)) s"
