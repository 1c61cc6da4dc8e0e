"""How long it takes from the wish to join to the first token that another machine computed.

    python -m benchmarks.join --model FILE.gguf [--runs 10]

Two nodes on loopback: one holds the model, loaded, the other joins as a client and asks for it at once, again
and again until it is answered. By a token with its address, and by a token without one, where multicast DNS
has to find the node. Ends with 7 when a median is over two seconds.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import IO, Any

import httpx

from benchmarks.programs import say
from meshllm_core.bench.machine import machine_facts
from meshllm_core.discovery.token import decode, encode
from meshllm_core.errors import ExitCode

BOUND_SECONDS = 2.0
START_SECONDS = 60.0
_RESULTS = Path(__file__).parent / "results"


@dataclass
class Node:
    """A node of its own home."""

    api: str
    console: str
    home: Path

    def act(self, name: str, **arguments: object) -> dict[str, Any]:
        """An action of the management API."""
        token = (self.home / "data" / "management-token").read_text().strip()
        headers = {"authorization": f"Bearer {token}"}
        answer = httpx.post(f"{self.console}/api/actions/{name}", json=arguments, headers=headers, timeout=30)
        answer.raise_for_status()
        result: dict[str, Any] = answer.json()
        return result

    def snapshot(self) -> dict[str, Any]:
        """The node as it is."""
        result: dict[str, Any] = httpx.get(f"{self.console}/api/snapshot", timeout=10).json()
        return result


@contextlib.contextmanager
def node(folder: Path, *arguments: str) -> Iterator[Node]:
    """Starts one on free ports; the context ends it."""
    program = [sys.executable, "-m", "meshllm_core.cli.main", *arguments, "--headless", "--json"]
    ports = ["--port", "0", "--console", "0", "--bind-ip", "127.0.0.1"]
    with (folder.parent / f"{folder.name}.txt").open("wb") as errors:
        process = subprocess.Popen(
            [*program, *ports],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "MESHLLM_HOME": str(folder), "MESHLLM_CALIBRATE": "false"},
        )
    try:
        assert process.stdout is not None
        record: dict[str, str] = json.loads(_document(process.stdout))
        yield Node(record["api_url"], record["console_url"], folder)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _document(stream: IO[bytes]) -> str:
    """The one JSON document of `--json`, which is printed over several lines."""
    text = ""
    for line in stream:
        text += line.decode()
        if line.startswith(b"}"):
            return text
    raise RuntimeError(f"the node ended: {text}")


def first_token(client: Node, model: str, began: float) -> float:
    """Seconds from `began` to the first token; asks until somebody answers."""
    body = {"model": model, "prompt": "One, two,", "max_tokens": 2, "temperature": 0, "stream": True}
    while time.monotonic() - began < START_SECONDS:
        with httpx.stream("POST", f"{client.api}/v1/completions", json=body, timeout=30) as answer:
            if answer.status_code == 200:
                for line in answer.iter_lines():
                    if line.startswith("data: ") and json.loads(line[6:])["choices"][0]["text"]:
                        return time.monotonic() - began
        time.sleep(0.01)
    raise RuntimeError("nobody answered")


def measure(options: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of each run, by way of joining."""
    seconds: dict[str, list[float]] = {"token": [], "mdns": []}
    with tempfile.TemporaryDirectory(prefix="meshllm-join-") as folder:
        serving = ("serve", "--gguf", str(options.model), "--ctx-size", "512", "--threads", "1")
        with node(Path(folder) / "a", *serving) as host, node(Path(folder) / "b", "client") as guest:
            while host.snapshot()["models"][0]["status"] != "ready":
                time.sleep(0.1)
            model = host.snapshot()["models"][0]["id"]
            host.act("invite")
            for run in range(options.runs):
                for way in ("token", "mdns") if run % 2 else ("mdns", "token"):
                    invite = decode(str(host.act("invite", role="client")["token"]))
                    token = encode(invite if way == "token" else replace(invite, addresses=()))
                    began = time.monotonic()
                    guest.act("join", token=token)
                    seconds[way].append(first_token(guest, model, began))
                    time.sleep(0.5)
                    guest.act("leave")
    return seconds


def main() -> int:
    """Measures, prints the table, keeps the raw figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    seconds = measure(options)
    raw = _RESULTS / f"{time.strftime('%Y-%m-%dT%H%MZ', time.gmtime())}-join.jsonl"
    with raw.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"machine": machine_facts()}, default=str) + "\n")
        for way, values in seconds.items():
            file.write(json.dumps({"way": way, "seconds": values}) + "\n")
    for way, values in seconds.items():
        shown = f"median {median(values):.2f} s, {min(values):.2f} to {max(values):.2f} s"
        sys.stdout.write(f"{way:6} to the first routed token: {shown} ({len(values)} runs)\n")
    say(f"raw figures: {raw}")
    return int(ExitCode.OK if all(median(v) <= BOUND_SECONDS for v in seconds.values()) else ExitCode.CHECK)


if __name__ == "__main__":
    sys.exit(main())
