# Shared by run.sh and test.sh; read with `.`, needs only a POSIX shell.
# Finds a Python that can set everything up, and hands over to the Python half of the installers.
# shellcheck shell=sh

# An empty HOME means "none": programs then ask the password database, instead of writing to the root folder.
[ -n "${HOME:-}" ] || unset HOME

say() {
    printf '%s\n' "$*" >&2
}

# fail MESSAGE NEXT_STEP
fail() {
    printf 'meshllm: %s\n  Next: %s\n' "$1" "$2" >&2
    exit 1
}

new_enough() {
    "$1" -E -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

makes_environments() {
    "$1" -E -c 'import venv, ensurepip, ssl' >/dev/null 2>&1
}

# The line that installs a Debian package, for whoever runs this.
apt_line() {
    if [ "$(id -u)" = 0 ]; then echo "apt-get install $1"; else echo "sudo apt-get install $1"; fi
}

# Prints the first Python 3.11+ that can make virtual environments; MESHLLM_PYTHON names one outright.
find_python() {
    incomplete=
    too_old=
    if [ -n "${MESHLLM_PYTHON:-}" ]; then
        set -- "$MESHLLM_PYTHON"
    else
        set -- python3 python3.14 python3.13 python3.12 python3.11 python
    fi
    for name in "$@"; do
        found=$(command -v "$name" 2>/dev/null) || continue
        if ! new_enough "$found"; then
            too_old=${too_old:-$found}
        elif ! makes_environments "$found"; then
            incomplete=${incomplete:-$found}
        else
            printf '%s\n' "$found"
            return 0
        fi
    done
    no_python "$too_old" "$incomplete"
}

# no_python TOO_OLD INCOMPLETE: says which Python is missing and how to get it.
no_python() {
    if [ -n "$2" ]; then
        version=$("$2" -E -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        fail "$2 (Python $version) cannot make virtual environments: its venv or ssl module is missing." \
            "$(apt_line "python$version-venv"), then run this again."
    fi
    if command -v apt-get >/dev/null 2>&1; then
        how="$(apt_line 'python3 python3-venv') (Debian 12 and Ubuntu 24.04 have 3.11 or newer)"
    else
        how="install Python 3.11 or newer from your system's packages (on a Mac: brew install python@3.13)"
    fi
    how="$how; or name one: MESHLLM_PYTHON=/path/to/python3.12 sh installers/run.sh"
    if [ -n "${MESHLLM_PYTHON:-}" ]; then
        fail "MESHLLM_PYTHON=$MESHLLM_PYTHON is not a Python 3.11 or newer." "$how"
    elif [ -n "$1" ]; then
        fail "Python 3.11 or newer is needed; $1 is $("$1" -V 2>&1 | head -n 1)." "$how"
    else
        fail "Python is not installed (looked for python3)." "$how"
    fi
}

# set_up CHECKOUT [--development]: leaves the environment's folder in $venv.
set_up() {
    checkout=$1
    shift
    venv=${MESHLLM_VENV:-$checkout/.venv}
    case $venv in /*) ;; *) venv=$PWD/$venv ;; esac
    python=$venv/bin/python
    if ! new_enough "$python"; then
        python=$(find_python) || exit 1
    fi
    "$python" -E "$checkout/installers" --venv "$venv" "$@" || exit $?
}
