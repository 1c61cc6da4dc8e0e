"""A real node in a process of its own, on free ports, with a home of its own."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

START_SECONDS = 90.0
"""Generous: other programs may use the machine."""


QUIET = {"MESHLLM_CALIBRATE": "false"}
"""A node's measurement of itself would disturb what is measured of it."""


@dataclass
class RunningNode:
    """A node under test."""

    process: "subprocess.Popen[bytes]"
    api: str
    console: str
    home: Path
    stderr: Path

    def status(self) -> dict[str, Any]:
        """`/api/status`."""
        answer: dict[str, Any] = httpx.get(f"{self.console}/api/status", timeout=10).json()
        return answer

    def snapshot(self) -> dict[str, Any]:
        """`/api/snapshot`."""
        answer: dict[str, Any] = httpx.get(f"{self.console}/api/snapshot", timeout=10).json()
        return answer

    def act(self, name: str, **arguments: object) -> httpx.Response:
        """POST an action with the node's token."""
        token = (self.home / "data" / "management-token").read_text().strip()
        return httpx.post(
            f"{self.console}/api/actions/{name}",
            json=arguments,
            headers={"authorization": f"Bearer {token}"},
            timeout=30,
        )

    def wait(
        self, condition: Callable[[dict[str, Any]], bool], seconds: float = START_SECONDS
    ) -> dict[str, Any]:
        """The snapshot once `condition` holds for it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            snapshot = self.snapshot()
            if condition(snapshot):
                return snapshot
            time.sleep(0.05)
        raise AssertionError(f"not in {seconds} s: {self.snapshot()}\n{self.stderr.read_text()}")

    def ready(self) -> str:
        """Waits for the first model; its name."""
        snapshot = self.wait(lambda s: any(m["status"] in ("ready", "failed") for m in s["models"]))
        assert snapshot["models"][0]["status"] == "ready", snapshot["models"]
        return str(snapshot["models"][0]["id"])


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def command(*arguments: str) -> list[str]:
    """The `meshllm` command of this environment."""
    return [sys.executable, "-m", "meshllm_core.cli.main", *arguments]


@contextlib.contextmanager
def running_node(
    folder: Path, *arguments: str, environment: dict[str, str] | None = None
) -> Iterator[RunningNode]:
    """Starts `meshllm serve --headless` with small settings; ends it by SIGTERM."""
    home, stderr = folder / "home", folder / "stderr.txt"
    port, console = free_port(), free_port()
    options = ["--port", str(port), "--console", str(console), "--threads", "1", *arguments]
    if "--ctx-size" not in arguments:
        options += ["--ctx-size", "1024"]
    with stderr.open("wb") as errors:
        process = subprocess.Popen(
            command("serve", "--headless", *options),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**os.environ, "MESHLLM_HOME": str(home), **QUIET, **(environment or {})},
        )
    node = RunningNode(process, f"http://127.0.0.1:{port}", f"http://127.0.0.1:{console}", home, stderr)
    try:
        _wait_for_health(node)
        yield node
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_health(node: RunningNode) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if node.process.poll() is not None:
            raise AssertionError(f"the node ended: {node.stderr.read_text()}")
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{node.api}/health", timeout=1).status_code == 200:
                return
        time.sleep(0.05)
    raise AssertionError(f"no health in {START_SECONDS} s: {node.stderr.read_text()}")
