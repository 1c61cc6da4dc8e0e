"""Why an engine process ended, in words. Pure."""

import re
import signal
from typing import Literal

from meshllm_core.engine.limit import EXIT_CODE, LIMIT_SECONDS
from meshllm_core.errors import EngineExited

Reason = Literal["signal", "out_of_memory", "bad_file", "exit"]

_MEMORY_WORDS = re.compile(
    r"bad_alloc|out of memory|failed to allocate|cannot allocate memory|unable to allocate|MemoryError", re.I
)


def classify(name: str, code: int, log_tail: tuple[str, ...], *, killed_for_memory: bool) -> EngineExited:
    """The error for a process that ended with `code` (negative: a signal, as in subprocess).

    `killed_for_memory`: the system's out-of-memory counter rose while it ran.
    """
    how = f"was ended by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"
    text = f"The engine of {name} {how}"
    if code == EXIT_CODE:
        return EngineExited(
            f"{text}: a grammar or JSON schema took more than {LIMIT_SECONDS:.0f} s for one token.",
            log_tail=log_tail,
            hint="Do not let parts that fit the same text follow each other, as in `(a* a*)*`.",
        )
    if killed_for_memory or any(_MEMORY_WORDS.search(line) for line in log_tail):
        return EngineExited(
            f"{text}: out of memory.",
            reason="out_of_memory",
            log_tail=log_tail,
            hint="Use a smaller --ctx-size or fewer --lanes, a smaller model, or close other programs.",
        )
    return EngineExited(
        f"{text}.",
        reason="signal" if code < 0 else "exit",
        log_tail=log_tail,
        hint="`meshllm status` tells whether it runs again, `meshllm logs` what it said last.",
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
