"""What the installers say, all of it on standard error, and the one error they end with."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class SetupError(Exception):
    """Set-up cannot go on. `message` says what failed, `next_step` what the person should do now."""

    def __init__(self, message: str, next_step: str) -> None:
        super().__init__(f"{message}\n  Next: {next_step}")
        self.message = message
        self.next_step = next_step


def say(text: str) -> None:
    """One line for the person."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def duration(seconds: float) -> str:
    """Seconds in words: `8 s`, `3 min 05 s`."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


@contextmanager
def step(name: str, doing: str) -> Iterator[None]:
    """Announces a step, and its time when it went well."""
    say(f"{name}: {doing}")
    began = time.monotonic()
    yield
    say(f"{name}: done in {duration(time.monotonic() - began)}")
