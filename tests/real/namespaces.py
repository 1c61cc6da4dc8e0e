"""Machines for a show: network namespaces on one bridge, each with its own address, home and docker0."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PREFIX = f"m{os.getpid() % 10_000}"


def tell(text: str) -> None:
    """A line of the show."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run(*command: str, check: bool = True) -> str:
    """Runs a command of the system; its output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


@dataclass
class Machine:
    """A namespace with a node, or none yet."""

    name: str
    address: str
    home: Path
    process: "subprocess.Popen[bytes] | None" = None
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        """Name of the namespace."""
        return f"{PREFIX}{self.name}"

    def command(self, *arguments: str) -> list[str]:
        """`meshllm …` in this namespace."""
        program = [sys.executable, "-m", "meshllm_core.cli.main", *arguments]
        return ["ip", "netns", "exec", self.namespace, *program]

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "MESHLLM_HOME": str(self.home),
            "PYTHONPATH": str(Path.cwd()),
            "MESHLLM_CALIBRATE": "false",
            **self.environment,
        }

    def meshllm(
        self, *arguments: str, stdin: str = "", check: bool = True
    ) -> "subprocess.CompletedProcess[str]":
        """Runs a command to its end."""
        done = subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=90,
            env=self._environment(),
        )
        if check and done.returncode:
            raise RuntimeError(
                f"{self.name}: meshllm {arguments[0]}: {done.returncode}\n{done.stdout}{done.stderr}"
            )
        return done

    def start(self, *arguments: str) -> None:
        """Starts `serve --headless` and waits until it answers."""
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / "stderr.txt").open("ab") as errors:
            self.process = subprocess.Popen(
                self.command(*(arguments or ("serve",)), "--headless"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=self._environment(),
            )
        wait(lambda: bool(self.snapshot()["started_at"]), f"{self.name} answers", 60)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Sends a signal to the node."""
        assert self.process is not None
        self.process.send_signal(number)

    def end(self) -> None:
        """Ends the node, if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None

    def get(self, url: str) -> Any:
        """GET from inside the namespace, as JSON."""
        return json.loads(run("ip", "netns", "exec", self.namespace, "curl", "-sf", "--max-time", "5", url))

    def snapshot(self) -> dict[str, Any]:
        """The node's snapshot."""
        found: dict[str, Any] = self.get("http://127.0.0.1:3131/api/snapshot")
        return found

    def replica(self, peer: str, model: str) -> bool:
        """Whether it sees that model ready on that peer."""
        offers = self.peers()[peer]["models"]
        return any(offer["id"] == model and offer["status"] == "ready" for offer in offers)

    def peers(self) -> dict[str, dict[str, Any]]:
        """The other members by name."""
        return {row["name"]: row for row in self.snapshot()["peers"]}


def wait(condition: Callable[[], bool], what: str, seconds: float = 30.0, step: float = 0.05) -> float:
    """Waits until `condition` holds; how long that took. Raises AssertionError."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        with contextlib.suppress(RuntimeError, KeyError, TypeError):
            if condition():
                return time.monotonic() - began
        time.sleep(step)
    raise AssertionError(f"not within {seconds} s: {what}")


@contextlib.contextmanager
def machines(
    names: Sequence[str], folder: Path, *, docker: bool = True, multicast: bool = True
) -> Iterator[list[Machine]]:
    """Namespaces on a bridge; all are removed at the end, with everything that runs in them."""
    bridge = f"{PREFIX}br"
    made = [Machine(name, f"10.77.0.{index + 2}", folder / name) for index, name in enumerate(names)]
    try:
        run("ip", "link", "add", bridge, "type", "bridge", "mcast_snooping", "0")
        run("ip", "link", "set", bridge, "up")
        for machine in made:
            _add(machine, bridge, docker=docker, multicast=multicast)
        yield made
    finally:
        for machine in made:
            machine.end()
        for machine in made:
            run("ip", "netns", "del", machine.namespace, check=False)
        run("ip", "link", "del", bridge, check=False)


def _add(machine: Machine, bridge: str, *, docker: bool, multicast: bool) -> None:
    space = machine.namespace
    inside = ("ip", "-n", space)
    outer = f"{PREFIX}v{machine.name}"
    run("ip", "netns", "add", space)
    run("ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
    run("ip", "link", "set", outer, "master", bridge, "up")
    run(*inside, "link", "set", "lo", "up")
    run(*inside, "addr", "add", f"{machine.address}/24", "dev", "eth0")
    run(*inside, "link", "set", "eth0", "up")
    run(*inside, "route", "add", "224.0.0.0/4", "dev", "eth0")
    if docker:
        run(*inside, "link", "add", "docker0", "type", "bridge")
        run(*inside, "addr", "add", "172.17.0.1/16", "dev", "docker0")
        run(*inside, "link", "set", "docker0", "up")
    if not multicast:
        firewall(machine, "ip daddr 224.0.0.0/4 drop", chain="output")
        firewall(machine, "ip daddr 224.0.0.0/4 drop", chain="input")


def firewall(machine: Machine, rule: str, *, chain: str = "input") -> None:
    """Adds an nft rule in the namespace."""
    inside = ("ip", "netns", "exec", machine.namespace, "nft")
    run(*inside, "add", "table", "ip", "show")
    run(*inside, "add", "chain", "ip", "show", chain, f"{{ type filter hook {chain} priority 0 ; }}")
    run(*inside, "add", "rule", "ip", "show", chain, *rule.split())
