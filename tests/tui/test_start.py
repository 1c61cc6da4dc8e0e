"""The start: what is imported before the first paint, and the whole program in a real terminal."""

import contextlib
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from meshllm_tui import launch

ROOT = Path(__file__).resolve().parents[2]
LATE = ("httpx", "markdown_it", "pydantic", "fastapi", "uvicorn", "typer", "huggingface_hub", "llama_cpp")
TEXTUAL_FREE = (
    "actions",
    "bridge",
    "chat_models",
    "cleaning",
    "connect",
    "conversation",
    "invite_page",
    "join_source",
    "join_words",
    "member_facts",
    "mesh_rows",
    "mesh_words",
    "node_rows",
    "present",
    "rows",
    "session",
    "units",
    "welcome_words",
)

PROGRAM = """
import sys
from pathlib import Path
from meshllm_tui.launch import run
sys.exit(run(console_url=sys.argv[1], api_url="", token_file=Path(sys.argv[2]), started_by_us=True))
"""


def modules_after(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after `code`."""
    code += "; import sys, json; print(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_nothing_heavy_is_imported_before_the_first_paint() -> None:
    loaded = modules_after("import meshllm_tui.app")
    assert not loaded & set(LATE)
    assert "textual" in loaded


def test_the_way_in_imports_almost_nothing() -> None:
    loaded = modules_after("import meshllm_tui.launch")
    assert not loaded & {"textual", "rich", "asyncio", "msgspec", *LATE}


def test_the_first_line_needs_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not launch.paint_first(io.StringIO(), True)
    screen = Tty()
    monkeypatch.setenv("TERM", "dumb")
    assert not launch.paint_first(screen, True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "30")
    assert launch.paint_first(screen, False)
    assert screen.getvalue() == launch.ENTER + " meshllm  ◌ looking for the node…"[:30]


def test_a_failed_import_gives_the_screen_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    screen = Tty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "__stderr__", screen)
    monkeypatch.setitem(sys.modules, "meshllm_tui.app", None)
    with pytest.raises(ImportError):
        launch.run(console_url="", api_url="", token_file=tmp_path, started_by_us=True)
    assert screen.getvalue().endswith(launch.LEAVE)


class Tty(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_words_are_made_without_textual() -> None:
    loaded = modules_after("; ".join(f"import meshllm_tui.{name}" for name in TEXTUAL_FREE))
    assert not loaded & {"textual", "rich", *LATE}


class Terminal:
    """The dashboard as a child process in a pseudo-terminal of 100 by 30."""

    def __init__(self, arguments: list[str]) -> None:
        self.seen = b""
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", COLUMNS="100", LINES="30", COLORTERM="truecolor")
            os.chdir(ROOT)
            os.execv(sys.executable, [sys.executable, "-c", PROGRAM, *arguments])
        self.began = time.monotonic()

    def until(self, text: str, seconds: float = 15.0) -> float:
        """Read until `text` is written; seconds since the start."""
        while text.encode() not in self.seen:
            left = self.began + seconds - time.monotonic()
            ready, _, _ = select.select([self.descriptor], [], [], max(left, 0))
            assert ready, f"{text!r} did not come: {self.seen[-2000:]!r}"
            self.seen += os.read(self.descriptor, 65536)
        return time.monotonic() - self.began

    def send(self, keys: bytes) -> None:
        """Type."""
        os.write(self.descriptor, keys)

    def end(self, seconds: float = 10.0) -> int:
        """The exit code."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            with contextlib.suppress(OSError):
                if select.select([self.descriptor], [], [], 0.02)[0]:
                    os.read(self.descriptor, 65536)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        pytest.fail("the dashboard did not end")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A dashboard whose node never answers: port 9 of loopback is closed."""
    shown = Terminal(["http://127.0.0.1:9", str(tmp_path / "token")])
    yield shown
    os.close(shown.descriptor)


@pytest.mark.parametrize(("keys", "code"), [(b"\r", 0), (b"\x1b[C\r", 10)], ids=["node stays", "stop node"])
def test_in_a_real_terminal(terminal: Terminal, keys: bytes, code: int) -> None:
    terminal.until("starting the node")
    terminal.until("Models")
    terminal.send(b"\x11")
    terminal.until("Leave it running")
    terminal.send(keys)
    assert terminal.end() == code
