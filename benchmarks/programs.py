"""Starting and stopping the programs that are measured: free ports, readiness, logs, an end for sure."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from meshllm_core.bench.completion import complete, find_target
from meshllm_core.bench.endpoint import parse_endpoint
from meshllm_core.errors import EngineTimeout, MeshError

MESHLLM = (sys.executable, "-m", "meshllm_core.cli.main")
_POLL_SECONDS = 0.25


def say(line: str) -> None:
    """One line about the progress, on stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def end_orderly_on_sigterm() -> None:
    """Lets SIGTERM unwind the stack, so that what was started is ended too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody has at this moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def wait_for_quiet(share: float, *, seconds: float = 600.0) -> None:
    """Returns when the machine used less than `share` of its processor for a second, or after `seconds`."""
    deadline = time.monotonic() + seconds
    while share < 1 and psutil.cpu_percent(interval=1.0) > share * 100 and time.monotonic() < deadline:
        pass


@contextlib.contextmanager
def program(command: Sequence[str], log: Path, environ: Mapping[str, str] | None = None) -> Iterator[int]:
    """A running program; its pid. It gets SIGTERM on leaving, and SIGKILL with its children 15 s later."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environ or {})},
            start_new_session=True,
        )
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            say(f"{command[0]} ({process.pid}) did not end; it is killed.")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until_it_answers(url: str, *, seconds: float, log: Path) -> None:
    """Returns once a completion of one token works. Raises EngineTimeout with the end of the log."""

    async def once() -> None:
        target = await find_target(parse_endpoint(url), None, timeout=10)
        await complete(target, " Hello", 1)

    deadline = time.monotonic() + seconds
    while True:
        try:
            asyncio.run(once())
        except MeshError as error:
            if time.monotonic() > deadline:
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-12:])
                raise EngineTimeout(f"{url} is not ready after {seconds:g} s: {error}\n{tail}") from error
            time.sleep(_POLL_SECONDS)
        else:
            return
