"""The only writer to stderr, and the one place where an error becomes an exit code."""

import sys
from collections.abc import Callable

from meshllm_core.errors import ExitCode, MeshError


def say(text: str) -> None:
    """One line for the person at the terminal; data goes to stdout instead."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        # Nobody reads any more: what was to be said is lost, what was to be done is not.
        return


def report(error: MeshError) -> ExitCode:
    """Says what failed and what to do next; returns the exit code of that kind of failure."""
    say(f"error: {error.message}")
    if error.hint:
        say(f"  {error.hint}")
    return error.exit_code


def guarded(command: Callable[[], int]) -> int:
    """Runs a whole command. Errors of ours end in a line, not in a traceback; bugs keep theirs."""
    try:
        return command()
    except MeshError as error:
        return report(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of stdout has seen enough. What is still buffered must not raise again at exit.
        sys.stdout = None
        return ExitCode.OK
