"""Running long commands: output to a log, a sign of life for the person, nothing left behind when stopped."""

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from installers.report import SetupError, duration, say

_NINJA_PROGRESS = re.compile(rb"\[(\d+)/(\d+)\]")
_TAIL_BYTES = 64 * 1024
_PIP_REMARKS = "error: subprocess-exited-with-error"


def run_logged(
    command: Sequence[str], *, log: Path, environ: Mapping[str, str], waiting: str, every: float = 20.0
) -> int:
    """Runs a command with its output appended to `log`; returns its exit code.

    Every `every` seconds a line tells that it still runs, and how far a build has come.
    The whole process group ends when this process is interrupted.
    """
    with log.open("ab") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environ),
            start_new_session=True,
        )
    began = said = time.monotonic()
    try:
        while True:
            try:
                return child.wait(timeout=0.5)
            except subprocess.TimeoutExpired:
                now = time.monotonic()
            if now - said >= every:
                said = now
                say(f"  {waiting}: {duration(now - began)}{_progress(log)}")
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait()


def log_tail(log: Path, lines: int) -> str:
    """The last lines of a log, indented and cut short; pip's own remarks after a failed build stay out."""
    text = _tail_bytes(log).decode(errors="replace").partition(_PIP_REMARKS)[0].rstrip()
    return "\n".join(f"  | {line[:200]}" for line in text.splitlines()[-lines:])


def _progress(log: Path) -> str:
    steps = _NINJA_PROGRESS.findall(_tail_bytes(log))
    return f", step {int(steps[-1][0])} of {int(steps[-1][1])}" if steps else ""


def _tail_bytes(log: Path) -> bytes:
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return stream.read(_TAIL_BYTES)
    except OSError:
        return b""


@contextmanager
def locked(path: Path, subject: str) -> Iterator[None]:
    """Holds an exclusive lock on a file; the system releases it even if this process is killed."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise SetupError(
            f"{path} cannot be written: {error.strerror}.",
            "run this as the owner of that folder, or set MESHLLM_VENV to a folder of your own.",
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Another set-up is working on {subject}; waiting for it to finish…")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def stop_on_signals() -> None:
    """Makes SIGTERM and SIGHUP unwind like Ctrl+C, so that temporary folders and child processes go."""

    def stop(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, stop)


def require_space(folder: Path, needed: int, purpose: str) -> None:
    """Raises SetupError when less than `needed` bytes are free where `folder` is or will be."""
    place = next(p for p in (folder, *folder.parents) if p.exists())
    status = os.statvfs(place)
    free = status.f_bavail * status.f_frsize
    if free < needed:
        raise SetupError(
            f"{purpose} needs {needed / 1e6:.0f} MB, but only {free / 1e6:.0f} MB are free at {place}.",
            "free some space there, or set MESHLLM_VENV and MESHLLM_WHEEL_CACHE to folders on another disk.",
        )
