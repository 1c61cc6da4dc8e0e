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
if [ "$#" -gt 0 ]; then
    check "pytest, warnings as errors" "$bin/python" -m pytest "$@"
else
    # The dashboard's tests are many and take one core each; the others start nodes and engines, and some take
    # times: they have the machine for themselves.
    check "pytest, the dashboard on all cores" "$bin/python" -m pytest \
        -n logical --maxprocesses 4 --dist loadfile tests/tui
    check "pytest, the rest one by one" "$bin/python" -m pytest --ignore tests/tui
fi
say "== all passed in $(($(date +%s) - began)) s"
