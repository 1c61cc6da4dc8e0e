"""A program on a pseudo-terminal: its output with the instant each piece came, keys, and an end for sure."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from meshllm_core.errors import EngineTimeout

COLUMNS, ROWS = 120, 40
GIVE_UP_SECONDS = 30.0
_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[PX^_\]].*?(?:\x07|\x1b\\)|[ -/]*[0-~])", re.DOTALL)


class Terminal:
    """What a program writes to its terminal, read by a thread of its own as soon as it is there."""

    def __init__(self, master: int, process: "subprocess.Popen[bytes]", began: float) -> None:
        self._master = master
        self.process = process
        self.began = began
        """When the program was started, on the monotonic clock."""
        self.pieces: list[tuple[float, bytes]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        _raise(threading.get_native_id(), 2)
        with contextlib.suppress(OSError):
            while True:
                if select.select([self._master], [], [], 0.2)[0]:
                    piece = os.read(self._master, 1 << 16)
                    self.pieces.append((time.monotonic(), piece))

    def type(self, keys: bytes) -> float:
        """Presses keys; when."""
        at = time.monotonic()
        os.write(self._master, keys)
        return at

    def when(self, *texts: str, seconds: float = GIVE_UP_SECONDS) -> float:
        """Seconds from the start until one of the texts had been written. Raises EngineTimeout."""
        wanted = [text.encode() for text in texts]
        while True:
            written, last = b"", 0.0
            for at, piece in tuple(self.pieces):
                written, last = written + piece, at
                shown = _ESCAPE.sub(b"", written)
                if any(text in shown for text in wanted):
                    return last - self.began
            if time.monotonic() - self.began > seconds:
                raise EngineTimeout(f"{texts} was not written within {seconds:g} s; got {written[-300:]!r}")
            time.sleep(0.005)


def _raise(thread: int, by: int) -> None:
    """With real-time priority: the program goes before the node that feeds it, its reader before both.

    Among equals each would wait until another has had its turn of 100 ms.
    """
    if os.sched_getscheduler(0) in (os.SCHED_RR, os.SCHED_FIFO):
        priority = os.sched_getparam(os.getpid()).sched_priority + by
        os.sched_setparam(thread, os.sched_param(priority))


@contextlib.contextmanager
def on_terminal(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[Terminal]:
    """The program, running on a terminal of COLUMNS by ROWS; ended on leaving."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    full = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **environ}
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        full.pop(name, None)
    began = time.monotonic()
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=full, start_new_session=True
    )
    os.close(slave)
    _raise(process.pid, 1)
    terminal = Terminal(master, process, began)
    try:
        yield terminal
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.kill()
        process.wait()
        os.close(master)
