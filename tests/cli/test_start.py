"""The dashboard's way in: imports stay light, a real terminal shows it, ports are looked at first."""

import asyncio
import os
import pty
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from meshllm_core.cli import dashboard, spawn
from meshllm_core.config import Settings
from meshllm_core.errors import ExitCode, NodeError, PortTaken
from meshllm_core.paths import Paths
from meshllm_tui.preferences import Preferences
from tests.api.manage.conftest import Node
from tests.api.openai.conftest import scripted, serving
from tests.cli.conftest import COMMAND, playing
from tests.support.nodes import free_port

HEAVY = ("typer", "fastapi", "starlette", "pydantic", "huggingface_hub", "httpx", "uvicorn", "numpy", "rich")


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("meshllm_core.cli.main, meshllm_core.cli.dashboard", HEAVY),
        ("meshllm_core.api.client, meshllm_core.api.schema", HEAVY),
        ("meshllm_core.config, meshllm_core.paths, meshllm_core.log", (*HEAVY, "msgspec", "asyncio")),
    ],
)
def test_what_the_first_paint_waits_for_is_light(modules: str, heavy: tuple[str, ...]) -> None:
    code = f"import sys, {modules}; print(*(set(sys.modules) & set({heavy!r})))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.split() == []


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self.shown = ""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", COLUMNS="120", LINES="40")
            os.execv(COMMAND[0], [*COMMAND, *arguments])

    def wait_for(self, text: str, seconds: float = 25) -> None:
        """Reads until `text` was shown."""
        deadline = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} was never shown: {self.shown[-2000:]!r}"
            self._read(0.1)

    def type(self, keys: str) -> None:
        """Presses keys."""
        os.write(self._fd, keys.encode())

    def end(self, seconds: float = 20) -> int:
        """Reads until the command has ended; its exit code."""
        deadline = time.monotonic() + seconds
        while self._read(0.1):
            assert time.monotonic() < deadline, f"it did not end: {self.shown[-2000:]!r}"
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self, seconds: float) -> bool:
        if not select.select([self._fd], [], [], seconds)[0]:
            return True
        try:
            piece = os.read(self._fd, 65_536)
        except OSError:
            return False
        self.shown += piece.decode("utf-8", "replace")
        return bool(piece)

    def close(self) -> None:
        """Ends what is left."""
        os.close(self._fd)
        try:
            if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
        except ChildProcessError:
            return


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_terminal(*arguments: str) -> Terminal:
        opened.append(Terminal(*arguments))
        return opened[-1]

    yield open_terminal
    for each in opened:
        each.close()


async def test_bare_meshllm_attaches_to_the_running_node(
    node: Node, terminal: Callable[..., Terminal]
) -> None:
    screen = terminal()
    await asyncio.to_thread(screen.wait_for, "attic")
    screen.type("\x11")
    await asyncio.to_thread(screen.wait_for, "Leave it running")
    screen.type("\r")
    code = await asyncio.to_thread(screen.end)
    assert (code, node.backend.asked) == (0, [])
    assert f"The node goes on at {node.url}/v1" in screen.shown


async def test_options_are_refused_where_a_node_runs_already(
    node: Node, terminal: Callable[..., Terminal]
) -> None:
    screen = terminal("serve", "--lanes", "2")
    assert await asyncio.to_thread(screen.end) == ExitCode.NODE
    assert "A node runs already" in screen.shown


async def test_a_conversation_on_a_terminal(paths: Paths, terminal: Callable[..., Terminal]) -> None:
    async with serving({"tiny": scripted("Hello", " you")}) as endpoint, playing(paths, api_url=endpoint.url):
        screen = terminal("chat")
        await asyncio.to_thread(screen.wait_for, "You: ")
        screen.type("Hi\r")
        await asyncio.to_thread(screen.wait_for, "tokens")
        assert "Assistant: Hello you" in screen.shown
        screen.type("\x04")
        assert await asyncio.to_thread(screen.end) == 0


async def test_a_dumb_terminal_gets_lines(
    node: Node, terminal: Callable[..., Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "COMMAND", ["/usr/bin/env", "TERM=dumb", *COMMAND])
    screen = terminal()
    await asyncio.to_thread(screen.wait_for, "Changes follow")
    node.backend.store.close()
    screen.type("\x03")
    assert await asyncio.to_thread(screen.end) == ExitCode.INTERRUPTED
    assert "\x1b" not in screen.shown
    assert "attic" in screen.shown


def test_a_taken_port_is_named_before_anything_starts(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(dashboard, "start_node", lambda *arguments: started.append(arguments))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=str(port)) as caught:
            dashboard._start_and_show(paths, Settings(port=port), Preferences(), (), first_run=False)
    assert "--port" in caught.value.hint
    assert started == []


def test_a_node_that_cannot_start_says_why(paths: Paths) -> None:
    process = spawn.start_node(paths, ["--lanes", "0"])
    with pytest.raises(NodeError) as caught:
        spawn.wait_for_node(paths, process)
    assert caught.value.message == "--lanes: lanes is 0, outside its range."
    assert caught.value.exit_code is ExitCode.USAGE
    assert process.wait() == ExitCode.USAGE


def test_the_dashboard_does_not_wait_for_a_node_that_could_not_start(
    paths: Paths, terminal: Callable[..., Terminal]
) -> None:
    paths.data.mkdir(parents=True)
    paths.token_file.write_text("no token", encoding="utf-8")
    screen = terminal("serve", "--port", str(free_port()), "--console", str(free_port()))
    assert screen.end(15) == ExitCode.NODE
    assert "does not hold a token" in screen.shown


def test_a_full_disk_is_named_before_a_node_is_started_whose_words_would_be_lost(paths: Paths) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(NodeError, match="Cannot write") as caught:
            spawn.start_node(paths, ["--lanes", "0"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "Free some space" in caught.value.hint


def test_a_node_starts_in_a_session_of_its_own(paths: Paths, tmp_path: Path) -> None:
    process = spawn.start_node(paths, ["--config", str(tmp_path / "missing.toml")])
    try:
        assert os.getsid(process.pid) == process.pid
    finally:
        process.wait(30)
    assert "missing.toml" in spawn.output_file(paths).read_text(encoding="utf-8")
