"""Why an engine process ended, in words. Pure."""

import re
import signal
from typing import Literal

from meshllm_core.errors import EngineExited

Reason = Literal["signal", "out_of_memory", "bad_file", "exit"]

_MEMORY_WORDS = re.compile(
    r"bad_alloc|out of memory|failed to allocate|cannot allocate memory|unable to allocate|MemoryError", re.I
)


def classify(name: str, code: int, log_tail: tuple[str, ...], *, killed_for_memory: bool) -> EngineExited:
    """The error for a process that ended with `code` (negative: a signal, as in subprocess).

    `killed_for_memory`: the system's out-of-memory counter rose while it ran.
    """
    memory = killed_for_memory or any(_MEMORY_WORDS.search(line) for line in log_tail)
    if code < 0:
        try:
            what = signal.Signals(-code).name
        except ValueError:
            what = f"signal {-code}"
        if memory:
            return _out_of_memory(f"The engine of {name} was ended by {what}", log_tail)
        return EngineExited(
            f"The engine of {name} was ended by {what}.",
            reason="signal",
            log_tail=log_tail,
            hint="The last lines of its log follow." if log_tail else "",
        )
    if memory:
        return _out_of_memory(f"The engine of {name} exited with code {code}", log_tail)
    return EngineExited(
        f"The engine of {name} exited with code {code}.",
        reason="exit",
        log_tail=log_tail,
        hint="The last lines of its log follow." if log_tail else "",
    )


def _out_of_memory(text: str, log_tail: tuple[str, ...]) -> EngineExited:
    return EngineExited(
        f"{text}: out of memory.",
        reason="out_of_memory",
        log_tail=log_tail,
        hint="Use a smaller --ctx-size or fewer --lanes, a smaller model, or close other programs.",
    )
