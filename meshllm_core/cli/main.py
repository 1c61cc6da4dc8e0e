"""The `meshllm` command. Imports only what the given command needs: the dashboard must paint at once."""

import os
import sys
from collections.abc import Sequence

from meshllm_core.cli.diagnostics import guarded

COMPLETION = "_MESHLLM_COMPLETE"
"""Set by the shell when it asks for completions."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with a code from ExitCode."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(int(guarded(lambda: run(given))))


def run(arguments: list[str]) -> int:
    """One command; raises MeshError. Returns an exit code."""
    completing = COMPLETION in os.environ
    if not arguments and not completing:
        from meshllm_core.cli.dashboard import dashboard

        return dashboard()
    from meshllm_core.cli.app import run_app

    return run_app(arguments, completing=completing)


if __name__ == "__main__":
    main()
