"""A grammar that takes too long for a token ends the process, and nothing else does."""

import subprocess
import sys

from meshllm_core.engine.exits import classify
from meshllm_core.engine.limit import EXIT_CODE

_PROGRAM = """
import time
from meshllm_core.engine import limit
limit.LIMIT_SECONDS = 0.2
guard = limit.GrammarLimit()
for _ in range(4):
    with guard:
        time.sleep(0.1)
time.sleep(0.4)
print("within", flush=True)
with guard:
    time.sleep({seconds})
print("after", flush=True)
"""


def _run(seconds: float) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(seconds=seconds)], capture_output=True, text=True, timeout=60
    )


def test_a_short_time_is_free() -> None:
    assert _run(0.0).stdout == "within\nafter\n"


def test_too_long_a_time_ends_the_process() -> None:
    ended = _run(30.0)
    assert (ended.returncode, ended.stdout) == (EXIT_CODE, "within\n")
    assert "grammar" in ended.stderr


def test_its_end_is_told_in_words() -> None:
    error = classify("m", EXIT_CODE, (), killed_for_memory=False)
    assert "grammar or JSON schema" in str(error)
    assert error.reason == "exit"
