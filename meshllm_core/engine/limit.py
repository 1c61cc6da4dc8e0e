"""A bound on the time that a grammar may take for one token.

llama.cpp follows every reading of a grammar at once and cannot be interrupted in there: `[^x]?` two hundred
times over keeps it busy for hours, and every other request of the engine with it. Nothing but the end of
the process ends such a step, so this ends it, soon, with an exit code that tells why.
"""

import os
import sys
import threading
import time

LIMIT_SECONDS = 20.0
"""An enumeration of thousands of values takes a few seconds on a slow machine."""
EXIT_CODE = 86


class GrammarLimit:
    """Enter it around what llama.cpp does with a grammar. For one thread."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._watching = False

    def __enter__(self) -> None:
        self._began = time.monotonic()
        if not self._watching:
            self._watching = True
            threading.Thread(target=self._watch, name="grammar-limit", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._began = None

    def _watch(self) -> None:
        while True:
            time.sleep(LIMIT_SECONDS / 20)
            began = self._began
            if began is not None and time.monotonic() - began > LIMIT_SECONDS:
                sys.stderr.write(f"a grammar took more than {LIMIT_SECONDS:.0f} s for a token\n")
                os._exit(EXIT_CODE)
