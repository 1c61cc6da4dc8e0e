"""Exit codes of the `meshllm` command; which error ends with which is said in `errors`."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the `meshllm` command."""

    OK = 0
    """Success."""
    FAILURE = 1
    """A fault inside meshllm: please report it with the log."""
    USAGE = 2
    """The command line or the configuration is wrong."""
    MODEL = 3
    """A model was not found, is damaged, does not fit, or cannot be downloaded or stored."""
    ENGINE = 4
    """The engine process ended or did not answer."""
    REQUEST = 5
    """The node refused the request."""
    NODE = 6
    """No node runs here, one runs already, or a port is taken."""
    CHECK = 7
    """`doctor`, `bench` or `package verify` found something that falls short."""
    MESH = 8
    """The mesh refused, could not be reached, or this node is in none."""
    INTERRUPTED = 130
    """Stopped by Ctrl+C."""
