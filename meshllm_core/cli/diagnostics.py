"""The only writer to stderr, and the one place where an error becomes an exit code."""

import errno
import os
import sys
from collections.abc import Callable

from meshllm_core.errors import ConfigError, ExitCode, MeshError

_THE_PATHS = (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.ELOOP, errno.EROFS)
"""What the system says of a path that a person named, not of a fault in here."""


def say(text: str) -> None:
    """One line for the person at the terminal; data goes to stdout instead."""
    _write(f"{text}\n")


class Progress:
    """How far something is: on a terminal one line that changes, else a line for every ten percent."""

    def __init__(self) -> None:
        self._said = -1
        self._open = False

    def show(self, text: str, percent: int) -> None:
        """`text` says the same as `percent`, in more words."""
        if sys.stderr.isatty():
            _write(f"\r\x1b[K{text}")
            self._open = True
        elif percent // 10 != self._said:
            self._said = percent // 10
            say(text)

    def end(self) -> None:
        """Ends the line that changes."""
        if self._open:
            say("")
            self._open = False


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        # Nobody reads any more: what was to be said is lost, what was to be done is not.
        return


def report(error: MeshError) -> ExitCode:
    """Says what failed and what to do next; returns the exit code of that kind of failure."""
    from meshllm_core.cli.output import clean

    # A message may quote a file, a hub or a peer.
    say(clean(f"error: {error.message}"))
    if error.hint:
        say(clean(f"  {error.hint}"))
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
    except OSError as error:
        if error.errno not in _THE_PATHS or error.filename is None:
            raise
        from meshllm_core.cli.output import clean

        path = clean(os.fsdecode(error.filename))
        return report(ConfigError(f"{path} cannot be used: {error.strerror}.", hint="Check the path."))
