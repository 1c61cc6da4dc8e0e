"""Real nodes on the two machines, used as a person's programs use them: commands, HTTP, nothing else."""

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from meshllm_core.bench.split_link import ADDRESS_A, ADDRESS_B, Link
from meshllm_core.errors import EngineTimeout, NodeError

MESHLLM = (sys.executable, "-m", "meshllm_core.cli.main")
START_SECONDS = 120.0
LOAD_SECONDS = 300.0
ANSWER_SECONDS = 30.0
MAX_ANSWER_BYTES = 8 << 20
_POLL_SECONDS = 0.1
T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """What every node of the benchmark is started with."""

    model: Path
    context: int
    lanes: int
    threads: int
    wire_dtype: str


@dataclass
class BenchNode:
    """A running node."""

    name: str
    link: Link
    on_b: bool
    process: "subprocess.Popen[bytes]"
    home: Path
    api_port: int = 0
    console_port: int = 0

    @property
    def url(self) -> str:
        """Of its OpenAI endpoint."""
        return f"http://127.0.0.1:{self.api_port}/v1"

    def get(self, path: str) -> dict[str, Any]:
        """GET from its management API. Raises NodeError."""
        return self._ask("GET", path, None)

    def act(self, action: str, **arguments: object) -> dict[str, Any]:
        """POST of an action. Raises NodeError with what the node said."""
        return self._ask("POST", f"/api/actions/{action}", arguments)

    def wait(self, what: str, found: Callable[[dict[str, Any]], T | None], seconds: float) -> T:
        """What `found` makes of a snapshot, once that is not None. Raises EngineTimeout, NodeError."""
        deadline = time.monotonic() + seconds
        while True:
            if (value := found(self.get("/api/snapshot"))) is not None:
                return value
            if time.monotonic() > deadline:
                raise EngineTimeout(f"{self.name}: {what} did not happen within {seconds:g} s.{self._log()}")
            time.sleep(_POLL_SECONDS)

    def load(self, settings: Settings, *, split: bool) -> str:
        """Loads the model; its name once it answers. Raises NodeError."""
        more: dict[str, object] = {"split": True, "wire_dtype": settings.wire_dtype} if split else {}
        self.act("load", model=str(settings.model), ctx_size=settings.context, lanes=settings.lanes, **more)

        def ready(snapshot: dict[str, Any]) -> str | None:
            for row in snapshot["models"]:
                if row["status"] == "failed":
                    raise NodeError(f"{self.name}: {row['error']}", hint=row.get("hint", ""))
                if row["status"] == "ready":
                    return str(row["id"])
            return None

        return self.wait("a ready model", ready, LOAD_SECONDS)

    def _ask(self, method: str, path: str, body: object) -> dict[str, Any]:
        headers = {"content-type": "application/json"}
        token = self.home / "data" / "management-token"
        if token.exists():
            headers["authorization"] = f"Bearer {token.read_text().strip()}"
        connection = http.client.HTTPConnection("127.0.0.1", self.console_port, timeout=ANSWER_SECONDS)
        try:
            with self._inside():
                connection.connect()
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read(MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise NodeError(f"{self.name} does not answer: {error}.{self._log()}") from error
        finally:
            connection.close()
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        if answer.status >= 400 or not isinstance(document, dict):
            words = text[:500].decode(errors="replace")
            raise NodeError(f"{self.name} refused {path}: {answer.status} {words}")
        return document

    def _inside(self) -> contextlib.AbstractContextManager[None]:
        return self.link.inside_b() if self.on_b else contextlib.nullcontext()

    def _log(self) -> str:
        return "\n" + tail(self.home / "stderr.txt")


def tail(log: Path) -> str:
    """The end of a log, for errors."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-8:])
    except OSError:
        return ""


@contextlib.contextmanager
def node(
    name: str, link: Link, folder: Path, settings: Settings, *, on_b: bool, memory: float
) -> Iterator[BenchNode]:
    """A node without a model. `memory`: bytes that models may use there; 0: all that is free."""
    home = folder / name
    home.mkdir(parents=True)
    config = home / "bench.toml"
    config.write_text("models = []\n")
    command = [
        *MESHLLM, "serve", "--headless", "--json", "--config", str(config), "--node-name", name,
        "--port", "0", "--console", "0", "--bind-ip", ADDRESS_B if on_b else ADDRESS_A,
        "--mesh-discovery-mode", "off", "--device", "CPU", "--threads", str(settings.threads),
        "--max-vram", f"{memory / 1e9:.6f}",
    ]  # fmt: skip
    inside = link.inside_b() if on_b else contextlib.nullcontext()
    with inside, (home / "stderr.txt").open("wb") as errors, (home / "stdout.txt").open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=_environment(home)
        )
    with ending(process):
        made = BenchNode(name, link, on_b, process, home)
        record = _record(made)
        made.api_port = int(record["api_url"].rsplit(":", 1)[1])
        made.console_port = int(record["console_url"].rsplit(":", 1)[1])
        yield made


@contextlib.contextmanager
def ending(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Ends a program with the context: SIGTERM, after 20 s SIGKILL."""
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment(home: Path) -> dict[str, str]:
    """This process's, without settings of a node that runs here otherwise.

    No node measures itself meanwhile: that would disturb what is measured of it.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MESHLLM_")}
    return {**kept, "MESHLLM_HOME": str(home), "MESHLLM_CALIBRATE": "false"}


def _record(made: BenchNode) -> dict[str, str]:
    """What `serve --json` writes once the node answers. Raises NodeError, EngineTimeout."""
    deadline = time.monotonic() + START_SECONDS
    output = made.home / "stdout.txt"
    while time.monotonic() < deadline:
        with contextlib.suppress(ValueError):
            record: dict[str, str] = json.loads(output.read_text())
            return record
        if made.process.poll() is not None:
            raise NodeError(f"The node {made.name} ended.\n{tail(made.home / 'stderr.txt')}")
        time.sleep(_POLL_SECONDS)
    raise EngineTimeout(f"The node {made.name} did not answer within {START_SECONDS:g} s.")


def join(coordinator: BenchNode, other: BenchNode) -> None:
    """Brings `other` into the coordinator's mesh. Raises NodeError, EngineTimeout."""
    other.act("join", token=coordinator.act("invite")["token"])
    coordinator.wait("a peer that lends memory", lambda s: True if s["peers"] else None, START_SECONDS)


def resident(pid: int) -> int:
    """Bytes that a process holds now. Raises NodeError when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError as error:
        raise NodeError(f"The process {pid} has ended.") from error
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))
