"""The program in a real terminal, drawn by tmux, over real nodes: sizes, suspending, leaving, other nodes.

Each test has a tmux server of its own, and a shell in it as a person has.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.support.default_model import require_default_model
from tests.support.nodes import QUIET, START_SECONDS, command, free_port

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "shell-is-here"
SHELL = f"env 'PS1={PROMPT} ' bash --norc --noprofile -i"
MODEL = "SmolLM2-135M-Instruct"

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Tmux:
    """A terminal of its own, with a shell in it."""

    def __init__(self, folder: Path, home: Path) -> None:
        self._socket = str(folder / "tmux")
        environ = {**os.environ, "MESHLLM_HOME": str(home), "PYTHONPATH": str(ROOT)}
        environ |= {"COLORTERM": "truecolor", "TZ": "UTC", "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        environ.pop("TMUX", None)
        start = ("-f", os.devnull, "new-session", "-d", "-s", "t", "-x", "120", "-y", "40", SHELL)
        subprocess.run(["tmux", "-S", self._socket, *start], env=environ, check=True, timeout=20)

    def tell(self, *words: str) -> str:
        """A command of tmux; what it answered."""
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words], capture_output=True, text=True, timeout=20, check=True
        )
        return done.stdout

    @property
    def screen(self) -> str:
        """What the terminal shows."""
        return self.tell("capture-pane", "-p", "-t", "t")

    def keys(self, *keys: str) -> None:
        """Presses keys, by tmux's names."""
        self.tell("send-keys", "-t", "t", *keys)

    def size(self, columns: int, rows: int) -> None:
        """Makes the terminal as large as this."""
        self.tell("resize-window", "-t", "t", "-x", str(columns), "-y", str(rows))

    def run(self, *arguments: str) -> None:
        """Types a command of meshllm into the shell."""
        self.tell("send-keys", "-t", "t", "-l", shlex.join(command(*arguments)))
        self.keys("Enter")

    def until(self, *texts: str, without: str = "", seconds: float = 60.0) -> str:
        """The screen once it has all the texts, and not `without`."""
        return self.when(
            lambda shown: all(text in shown for text in texts) and not (without and without in shown),
            f"{texts} without {without!r}",
            seconds,
        )

    def when(self, true: Callable[[str], bool], what: str, seconds: float = 60.0) -> str:
        """The screen once something is true of it."""
        end = time.monotonic() + seconds
        while not true(shown := self.screen):
            assert time.monotonic() < end, f"{what} did not come:\n{shown}"
            time.sleep(0.1)
        return shown

    @property
    def program(self) -> psutil.Process:
        """What runs in the shell."""
        (found,) = psutil.Process(int(self.tell("list-panes", "-t", "t", "-F", "#{pane_pid}"))).children()
        return found

    def close(self) -> None:
        """Ends this server, which hangs up what runs in it."""
        with contextlib.suppress(subprocess.CalledProcessError):
            self.tell("kill-server")


class Node:
    """A real node at given ports, with a home of its own."""

    def __init__(self, home: Path, name: str, ports: tuple[int, int], *arguments: str) -> None:
        self.console = f"http://127.0.0.1:{ports[1]}"
        # The questions of a first run are another test's.
        (home / "data").mkdir(parents=True, exist_ok=True)
        (home / "data" / "welcome-seen").touch()
        places = ("--port", str(ports[0]), "--console", str(ports[1]), "--node-name", name)
        self.process = subprocess.Popen(
            command("serve", "--headless", *places, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "MESHLLM_HOME": str(home), **QUIET},
        )
        end = time.monotonic() + START_SECONDS
        while not self._answers():
            assert time.monotonic() < end, "the node did not start"
            assert self.process.poll() is None, "the node ended"
            time.sleep(0.1)

    def _answers(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return bool(httpx.get(f"{self.console}/api/snapshot", timeout=2).json()["node"])
        return False

    def kill(self, how: int = signal.SIGKILL) -> None:
        """Ends it at once."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(30)


@pytest.fixture
def ports() -> tuple[int, int]:
    return free_port(), free_port()


@pytest.fixture
def start(ports: tuple[int, int], tmp_path: Path) -> Iterator[Callable[..., Node]]:
    started: list[Node] = []

    def begin(name: str, *arguments: str) -> Node:
        started.append(Node(tmp_path / name, name, ports, *arguments))
        return started[-1]

    yield begin
    for each in started:
        each.kill(signal.SIGTERM)


@pytest.fixture
def terminal(tmp_path: Path, start: Callable[..., Node]) -> Iterator[Tmux]:
    """A terminal whose meshllm finds the node `attic`."""
    # A socket's path must be short, and pytest's own folder is not.
    folder = Path(tempfile.mkdtemp(prefix="tmux-"))
    opened = Tmux(folder, tmp_path / "attic")
    try:
        opened.until(PROMPT)
        yield opened
    finally:
        opened.close()
    shutil.rmtree(folder, ignore_errors=True)


def test_pages_sizes_suspending_and_leaving(terminal: Tmux, start: Callable[..., Node]) -> None:
    node = start("attic", "--client")
    terminal.run()
    terminal.until("attic", "1 Mesh", "standby")
    _pages(terminal)
    _sizes(terminal)
    _suspending(terminal)
    _leaving(terminal)
    assert node.process.poll() is None


def _pages(terminal: Tmux) -> None:
    # Words of the pages themselves: their names stand on every page.
    for key, words in (
        ("2", "Running"), ("3", "No model is split"), ("4", "Candidates"), ("5", "Reviewed by others"),
        ("6", "Invite a machine"), ("7", "Conversations"), ("8", "No request"), ("9", "━ Activity ━"),
        ("0", "node_name"), ("1", "This node"),
    ):  # fmt: skip
        terminal.keys(key)
        terminal.until(words)
        if key == "7":
            # What is typed here is a prompt until one leaves it.
            terminal.keys("Escape")
            terminal.until(words, without="Enter Send")


def _sizes(terminal: Tmux) -> None:
    terminal.size(300, 80)
    wide = terminal.when(lambda shown: max(map(len, shown.splitlines())) > 250, "a screen of 300 columns")
    assert len(wide.splitlines()) > 70
    terminal.size(60, 20)
    narrow = terminal.until("attic", seconds=20)
    assert max(map(len, terminal.screen.splitlines())) <= 60, narrow
    terminal.size(50, 10)
    small = terminal.until("needs 60×20 characters")
    assert "standby" not in small
    terminal.size(120, 40)
    terminal.until("attic", "standby", "1 Mesh", without="needs 60×20")


def _suspending(terminal: Tmux) -> None:
    whole = terminal.until("attic", "1 Mesh", "standby", "? Help")
    _to_the_shell_and_back(terminal)
    # Every line is there again, not only those that change.
    terminal.when(lambda shown: _lines(shown) == _lines(whole), f"the screen of before:\n{whole}")
    terminal.keys("?")
    whole = terminal.until("Esc closes", "Anywhere")
    _to_the_shell_and_back(terminal)
    terminal.when(lambda shown: _lines(shown) == _lines(whole), f"the dialog of before:\n{whole}")
    terminal.keys("Escape")
    terminal.until("This node", without="Esc closes")
    terminal.keys("8")
    terminal.until("No request")
    terminal.keys("1")
    terminal.until("This node")


def _lines(shown: str) -> list[int]:
    """Which lines of a screen have something on them."""
    return [number for number, line in enumerate(shown.splitlines()) if line.strip()]


def _to_the_shell_and_back(terminal: Tmux) -> None:
    program = terminal.program
    program.send_signal(signal.SIGTSTP)
    # The shell is back on its own screen, in its own mode: what is typed there is shown.
    terminal.until("topped", PROMPT, without="1 Mesh")
    terminal.keys("-l", "clear; echo typed-$((40+2))")
    terminal.keys("Enter")
    terminal.until("typed-42")
    terminal.keys("fg", "Enter")
    shown = terminal.until("attic", "standby", without="typed-42")
    assert PROMPT not in shown
    assert terminal.program.pid == program.pid


def _leaving(terminal: Tmux) -> None:
    terminal.keys("C-c")
    terminal.keys("C-c")
    time.sleep(1)
    assert terminal.program.status() != psutil.STATUS_ZOMBIE
    terminal.until("This node", without="Leave the dashboard?")
    terminal.keys("C-q")
    terminal.until("Leave the dashboard?", "Leave it running", "Stop the node", "Cancel")
    terminal.keys("Escape")
    terminal.until("This node", without="Leave the dashboard?")
    terminal.keys("C-q")
    terminal.until("Leave it running")
    terminal.keys("Enter")
    shown = terminal.until("The node goes on at", PROMPT)
    assert "Traceback" not in shown


def test_a_node_that_is_killed_restarted_and_replaced(terminal: Tmux, start: Callable[..., Node]) -> None:
    node = start("attic", "--gguf", str(require_default_model()), "--ctx-size", "512", "--threads", "1")
    terminal.run()
    terminal.until("attic", MODEL, "ready")
    # Pages that ask the node, each with something of it.
    terminal.keys("0")
    terminal.until("node_name", "attic")
    terminal.keys("1")
    terminal.until(MODEL)

    node.kill()
    lost = terminal.until("lost the node")
    assert "attic" in lost
    again = start("attic", "--client")
    terminal.until("the node was started anew, as process", str(again.process.pid), "standby")
    terminal.when(lambda shown: not _model_rows(shown), "no row of a model that is gone")

    again.kill()
    terminal.until("lost the node")
    start("shed", "--client")
    shown = terminal.until("another node answers now: shed", "in place of attic")
    terminal.when(lambda shown: shown.splitlines()[0].find("shed") >= 0, "the other node's name above")
    terminal.keys("0")
    # The token of this node is not that of the other, whose questions it must not answer.
    shown = terminal.until("The node was started by another user or with another MESHLLM_HOME")
    assert "attic" not in shown
    terminal.keys("2")
    terminal.until("Running", without=MODEL)


def _model_rows(screen: str) -> list[str]:
    """Lines that show the model as something that is there; the log may tell of it."""
    return [line for line in screen.splitlines() if MODEL in line and "info" not in line]


def test_stopping_the_node_from_the_dashboard(terminal: Tmux, start: Callable[..., Node]) -> None:
    node = start("attic", "--client")
    terminal.run()
    terminal.until("attic", "standby")
    terminal.keys("C-q")
    terminal.until("Leave it running")
    terminal.keys("Right", "Enter")
    terminal.until("The node has stopped.")
    assert node.process.wait(20) == 0
