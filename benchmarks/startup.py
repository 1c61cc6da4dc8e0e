"""How long a person waits: for the dashboard's first full screen, and for a node's first answer.

    python -m benchmarks.startup --model FILE.gguf

- health: from starting `meshllm serve` until GET /health answers 200, and the slowest later answer until the
  model is ready ("whatever the model does").
- paint: from starting bare `meshllm` in a pseudo-terminal of 120 x 40, with no node running, until bytes for
  nine tenths of the screen's cells and some words have arrived.

Each run has a home of its own. The first run reads more from the disk than the others; all are shown. On a
machine that others use, `--quiet 0.1` waits before each run until they rest.
"""

import argparse
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.programs import MESHLLM, end_orderly_on_sigterm, free_ports, program, say, wait_for_quiet
from meshllm_core.bench.stats import summarize
from meshllm_core.errors import EngineTimeout, ExitCode, MeshError, describe

COLUMNS, ROWS = 120, 40
_GIVE_UP_SECONDS = 60.0
_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[PX^_\]].*?(?:\x07|\x1b\\)|[ -/]*[0-~])", re.DOTALL)
_ENTER_SCREEN = b"\x1b[?1049h"


def main() -> int:
    """Measures and prints; CHECK when a bound is not kept."""
    options = _parser().parse_args()
    end_orderly_on_sigterm()
    try:
        health: list[tuple[float, float]] = []
        paint: list[float] = []
        for _ in range(options.runs):
            wait_for_quiet(options.quiet)
            if "health" in options.only:
                health.append(_health(options.model))
            wait_for_quiet(options.quiet)
            if "paint" in options.only:
                paint.append(_paint())
    except MeshError as error:
        say(describe(error))
        return int(error.exit_code)
    figures = {
        "health_s": ([first for first, _ in health], options.max_health),
        "slowest_health_while_loading_s": ([slowest for _, slowest in health], options.max_health),
        "first_paint_s": (paint, options.max_paint),
    }
    good, document = True, {}
    for name, (values, bound) in figures.items():
        summary = summarize(values)
        if summary is None:
            continue
        met = summary.median <= bound
        good = good and met
        document[name] = {**summary.as_json(), "runs": [round(value, 3) for value in values], "bound": bound}
        shown = " ".join(f"{value:.3f}" for value in values)
        say(f"{name:32} median {summary.median:.3f}  ≤ {bound:g} {'ok' if met else 'SHORT'}   ({shown})")
    sys.stdout.write(json.dumps(document) + "\n")
    return int(ExitCode.OK if good else ExitCode.CHECK)


def _health(model: Path) -> tuple[float, float]:
    """Seconds until /health answers, and the slowest answer from then until the model is ready."""
    port, console = free_ports(2)
    with tempfile.TemporaryDirectory(prefix="meshllm-bench-") as home:
        command = [*MESHLLM, "serve", "--headless", "--gguf", str(model)]
        command += ["--port", str(port), "--console", str(console)]
        began = time.perf_counter()
        with program(command, Path(home) / "log", {"MESHLLM_HOME": home}):
            while not _get(port, "/health").startswith("HTTP/1.1 200"):
                _check_patience(began, "/health")
                time.sleep(0.005)
            first = time.perf_counter() - began
            return first, _slowest_until_ready(port, began)


def _slowest_until_ready(port: int, began: float) -> float:
    slowest = 0.0
    while '"ready"' not in _get(port, "/v1/models"):
        _check_patience(began, "a ready model")
        asked = time.perf_counter()
        if not _get(port, "/health").startswith("HTTP/1.1 200"):
            raise EngineTimeout("/health stopped answering while the model was loading.")
        slowest = max(slowest, time.perf_counter() - asked)
        time.sleep(0.02)
    return slowest


def _get(port: int, path: str) -> str:
    """The answer, or nothing when nobody listens."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
            connection.sendall(head.encode())
            with connection.makefile("rb") as answer:
                return answer.read(1 << 20).decode(errors="replace")
    except OSError:
        return ""


def _paint() -> float:
    """Seconds until the dashboard's first full screen. The node that it starts is stopped again."""
    port, console = free_ports(2)
    with tempfile.TemporaryDirectory(prefix="meshllm-bench-") as home:
        environ = {
            **os.environ,
            "MESHLLM_HOME": home, "MESHLLM_PORT": str(port), "MESHLLM_CONSOLE_PORT": str(console),
            "TERM": "xterm-256color", "COLORTERM": "truecolor", "MESHLLM_CALIBRATE": "false",
        }  # fmt: skip
        environ.pop("NO_COLOR", None)
        try:
            with _terminal() as (master, slave):
                began = time.perf_counter()
                dashboard = subprocess.Popen(
                    MESHLLM, stdin=slave, stdout=slave, stderr=slave, env=environ, start_new_session=True
                )
                try:
                    return _first_screen(master, began) - began
                finally:
                    dashboard.terminate()
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        dashboard.wait(5)
                    dashboard.kill()
                    dashboard.wait()
        finally:
            _stop_node(environ, port)


def _first_screen(master: int, began: float) -> float:
    """Instant of the first full screen. Raises EngineTimeout with what came instead."""
    received = bytearray()
    while True:
        if time.perf_counter() - began > _GIVE_UP_SECONDS:
            raise EngineTimeout(
                f"No full screen within {_GIVE_UP_SECONDS:g} s; got {bytes(received[-300:])!r}"
            )
        if not select.select([master], [], [], 0.5)[0]:
            continue
        received += os.read(master, 1 << 16)
        now = time.perf_counter()
        _, entered, screen = bytes(received).partition(_ENTER_SCREEN)
        text = _ESCAPE.sub(b"", screen).decode(errors="ignore")
        if entered and len(text) >= 0.9 * COLUMNS * ROWS and sum(c.isalpha() for c in text) >= 20:
            return now


@contextlib.contextmanager
def _terminal() -> Iterator[tuple[int, int]]:
    master, slave = pty.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        yield master, slave
    finally:
        os.close(master)
        os.close(slave)


def _stop_node(environ: dict[str, str], port: int) -> None:
    """Ends the node that the dashboard started; it may still be on its way up."""
    deadline = time.monotonic() + 15
    while not _get(port, "/health") and time.monotonic() < deadline:
        time.sleep(0.1)
    subprocess.run([*MESHLLM, "stop"], env=environ, capture_output=True, timeout=60, check=False)


def _check_patience(began: float, what: str) -> None:
    if time.perf_counter() - began > _GIVE_UP_SECONDS:
        raise EngineTimeout(f"No {what} within {_GIVE_UP_SECONDS:g} s.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description="Start-up times.")
    parser.add_argument("--model", type=Path, required=True, help="the .gguf that the node loads")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--quiet", type=float, default=1.0, help="begin each run below this processor load (0-1)"
    )
    parser.add_argument("--only", nargs="+", default=["health", "paint"], choices=["health", "paint"])
    parser.add_argument("--max-health", type=float, default=2.0, help="seconds (default 2)")
    parser.add_argument("--max-paint", type=float, default=0.5, help="seconds (default 0.5)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
