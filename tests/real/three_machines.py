"""Show 1: A founds, B joins by token, C by the QR picture of A's terminal; one client asks for all models.

`python -m tests.real.three_machines MODEL_A.gguf MODEL_B.gguf MODEL_C.gguf` as root.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.real.namespaces import Machine, machines, tell, wait
from tests.real.terminal_picture import picture_of

TMUX_SIZE = ("80", "24")


def terminal_of(machine: Machine, *arguments: str) -> str:
    """What an 80x24 terminal shows after a command, by tmux."""
    session = f"show{machine.namespace}"
    program = " ".join(machine.command(*arguments))
    environment = f"MESHLLM_HOME={machine.home} PYTHONPATH={Path.cwd()} NO_COLOR=1"
    width, height = TMUX_SIZE
    size = ["-x", width, "-y", height]
    shell = f"env {environment} {program}; sleep 30"
    subprocess.run(["tmux", "new-session", "-d", "-s", session, *size, shell], check=True)
    try:
        wait(lambda: "▀" in _captured(session), "the code is on the screen", 20)
        time.sleep(0.5)
        return _captured(session)
    finally:
        subprocess.run(["tmux", "kill-session", "-t", session], check=False)


def _captured(session: str) -> str:
    return subprocess.run(
        ["tmux", "capture-pane", "-p", "-t", session, "-S", "-40"], capture_output=True, text=True, check=True
    ).stdout


def serve(machine: Machine, model: str) -> None:
    """Starts a node with one model and a small context."""
    machine.start(
        "serve", "--gguf", model, "--ctx-size", "512", "--threads", "1", "--node-name", machine.name.upper()
    )


def show(models: Sequence[str], folder: Path) -> None:
    """The whole show; every figure is told."""
    with machines(["a", "b", "c"], folder) as (a, b, c):
        for machine, model in zip((a, b, c), models, strict=True):
            serve(machine, model)
        for machine in (a, b, c):
            wait(partial(is_ready, machine), f"{machine.name} is ready", 90)
        token = json.loads(a.meshllm("invite", "--json").stdout)["token"]
        began = time.monotonic()
        joined = b.meshllm("join", "-", stdin=token)
        tell(f"B$ meshllm join -\n{joined.stderr}{joined.stdout}")
        first = b.snapshot()["models"][0]["id"]
        wait(lambda: bool(a.replica("B", first)), "A sees B's model", 10)
        tell(f"A lists B's model {time.monotonic() - began:.2f} s after B's command began")
        screen = terminal_of(a, "invite", "--qr")
        tell(f"A$ meshllm invite --qr\n{screen}")
        picture = picture_of(screen, folder / "terminal.png")
        joined = c.meshllm("join", str(picture))
        tell(f"C$ meshllm join terminal.png\n{joined.stderr}{joined.stdout}")
        for machine in (a, b, c):
            wait(partial(knows_all, machine), f"{machine.name} knows the others and their models", 10)
        tell(f"A$ meshllm members\n{a.meshllm('members').stdout}")
        tell(ask(a))
        killed(a, b, c)
        tell(f"A$ meshllm members\n{a.meshllm('members').stdout}")
        tell(ask(a))


def killed(a: Machine, b: Machine, c: Machine) -> None:
    """Kills B without a word and tells what A and C show, and when."""
    began = time.monotonic()
    b.kill()
    wait(lambda: a.peers()["B"]["status"] != "alive", "A suspects B", 15, 0.02)
    tell(f"A shows B as {a.peers()['B']['status']} {time.monotonic() - began:.2f} s after kill -9")
    wait(lambda: a.peers()["B"]["status"] == "down", "A gives B up", 15, 0.02)
    tell(f"A shows B as down {time.monotonic() - began:.2f} s after kill -9")
    wait(lambda: c.peers()["B"]["status"] == "down", "C knows too", 15, 0.02)
    tell(f"C shows B as down {time.monotonic() - began:.2f} s after kill -9")


def is_ready(machine: Machine) -> bool:
    """Whether its model answers."""
    return bool(machine.snapshot()["models"][0]["status"] == "ready")


def knows_all(machine: Machine) -> bool:
    """Whether it sees both others alive, each with its model."""
    peers = machine.peers().values()
    return len(peers) == 2 and all(peer["status"] == "alive" and peer["models"] for peer in peers)


def ask(machine: Machine) -> str:
    """Runs the client in the machine's namespace."""
    done = subprocess.run(
        [
            "ip",
            "netns",
            "exec",
            machine.namespace,
            sys.executable,
            "-m",
            "tests.real.ask",
            "http://127.0.0.1:9337",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout + done.stderr[-2000:]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="meshllm-show-") as temporary:
        show(sys.argv[1:4], Path(temporary))
