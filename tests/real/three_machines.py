"""Show 1: A founds, B joins by token, C by the QR picture of A's terminal; one client asks for all models.

`python -m tests.real.three_machines MODEL_A.gguf MODEL_B.gguf MODEL_C.gguf` as root.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.real.namespaces import Machine, machines, wait
from tests.real.terminal_picture import picture_of

TMUX_SIZE = ("80", "24")


def terminal_of(machine: Machine, *arguments: str) -> str:
    """What an 80x24 terminal shows after a command, by tmux."""
    session = f"show{machine.namespace}"
    program = " ".join(machine.command(*arguments))
    environment = f"MESHLLM_HOME={machine.home} PYTHONPATH={Path.cwd()} NO_COLOR=1"
    subprocess.run(
        [
            "tmux",
            "new-session",
            "-d",
            "-s",
            session,
            "-x",
            TMUX_SIZE[0],
            "-y",
            TMUX_SIZE[1],
            f"env {environment} {program}; sleep 30",
        ],
        check=True,
    )
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
    """The whole show; every figure is printed."""
    with machines(["a", "b", "c"], folder) as (a, b, c):
        for machine, model in zip((a, b, c), models, strict=True):
            serve(machine, model)
        for machine in (a, b, c):
            wait(lambda m=machine: m.snapshot()["models"][0]["status"] == "ready", "ready", 90)  # type: ignore[misc]
        json.loads(a.meshllm("invite", "--json").stdout)["token"]
        time.monotonic()
        first = {view["id"] for view in b.snapshot()["models"]}
        wait(lambda: {m["id"] for m in a.peers()["B"]["models"]} == first, "A sees B's model", 10)
        picture_of(terminal_of(a, "invite", "--qr"), folder / "terminal.png")
        wait(
            lambda: all(p["status"] == "alive" for p in a.peers().values()) and len(a.peers()) == 2, "all", 10
        )
        wait(lambda: all(p["models"] for p in a.peers().values()), "models", 10)
        wait(lambda: len(b.peers()) == 2, "B sees C", 10)
        time.monotonic()
        b.kill()
        for status in ("suspect", "down"):
            wait(lambda s=status: a.peers()["B"]["status"] in (s, "down"), status, 15, 0.02)  # type: ignore[misc]
        wait(lambda: c.peers()["B"]["status"] == "down", "C knows too", 15, 0.02)


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
