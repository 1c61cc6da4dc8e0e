"""llama.cpp's own way to use a second machine, for comparison: its RPC server there, llama-server here."""

import contextlib
import http.client
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from meshllm_core.bench.split_link import ADDRESS_B, Link
from meshllm_core.bench.split_nodes import Settings, ending, tail
from meshllm_core.errors import ConfigError, EngineTimeout, NodeError

SERVER, WORKER = "llama-server", "ggml-rpc-server"
PORT = 50052
START_SECONDS = 120.0
_POLL_SECONDS = 0.1


def check_programs(folder: Path) -> None:
    """Raises ConfigError when a program is missing."""
    for name in (SERVER, WORKER):
        if not os.access(folder / name, os.X_OK):
            raise ConfigError(
                f"--rpc-bin: there is no program {name} in {str(folder)!r}.",
                hint="`python -m benchmarks.rpc_peer` builds both and prints where they are.",
                param="--rpc-bin",
            )


@contextlib.contextmanager
def rpc_pair(
    link: Link, folder: Path, logs: Path, settings: Settings, layers: int
) -> Iterator[tuple[str, list[int]]]:
    """Base URL of a llama-server on A that has `layers` on B, and the pids of both programs.

    Raises EngineTimeout, NodeError with the end of a log.
    """
    worker_log, server_log = logs / "rpc-server.txt", logs / "llama-server.txt"
    worker = [str(folder / WORKER), "-H", ADDRESS_B, "-p", str(PORT), "-t", str(settings.threads)]
    port = _free_port()
    server = [
        str(folder / SERVER), "-m", str(settings.model), "--alias", "rpc", "--host", "127.0.0.1",
        "--port", str(port), "--rpc", f"{ADDRESS_B}:{PORT}", "-ngl", str(layers), "-t", str(settings.threads),
        "-c", str(settings.context * settings.lanes), "-np", str(settings.lanes),
        "--no-ui", "--cache-ram", "0",
    ]  # fmt: skip
    with contextlib.ExitStack() as stack:
        with link.inside_b():
            first = _start(stack, worker, worker_log)
        _until(first, _worker_listens, worker_log)
        second = _start(stack, server, server_log)
        _until(second, lambda: _loaded(port), server_log)
        yield f"http://127.0.0.1:{port}/v1", [first.pid, second.pid]


def _start(stack: contextlib.ExitStack, command: list[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    stack.enter_context(ending(process))
    return process


def _until(process: "subprocess.Popen[bytes]", ready: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise NodeError(f"A program of --rpc-bin ended with {process.returncode}.\n{tail(log)}")
        if ready():
            return
        time.sleep(_POLL_SECONDS)
    raise EngineTimeout(f"A program of --rpc-bin is not ready after {START_SECONDS:g} s.\n{tail(log)}")


def _worker_listens() -> bool:
    with contextlib.suppress(OSError), socket.create_connection((ADDRESS_B, PORT), timeout=1):
        return True
    return False


def _loaded(port: int) -> bool:
    """Whether the server answers, which it does not while it loads."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
