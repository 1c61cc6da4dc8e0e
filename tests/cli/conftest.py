"""Runs the real command in a process of its own, against nodes that the test itself plays."""

import asyncio
import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from meshllm_core.api.record import NodeRecord, write_record
from meshllm_core.cli.main import main
from meshllm_core.ids import ModelId
from meshllm_core.paths import Paths, default_paths
from meshllm_core.state import events as ev
from tests.api.manage.conftest import TOKEN, Node, running

COMMAND = [sys.executable, "-m", "meshllm_core.cli.main"]
SECONDS = 30


@dataclass(frozen=True)
class Result:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Stdout as the one JSON document it must be."""
        return json.loads(self.out)


@pytest.fixture
def paths() -> Paths:
    """The folders of the command, all new."""
    return default_paths()


def run_here(arguments: tuple[str, ...], stdin: str = "") -> Result:
    """The command in this process: what it writes and its exit code, without the cost of a start."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            main(arguments)
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.stdin = before
    out, err = (stream.buffer.getvalue().decode() for stream in streams)
    assert isinstance(code, int)
    return Result(code, out, err)


def run_apart(*arguments: str, stdin: str = "", **environ: str) -> Result:
    """The command in a process of its own, as a person starts it."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
        env={**os.environ, **environ},
    )
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def meshllm(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs a command to its end; for those that need no node."""

    def run(*arguments: str, stdin: str = "", **environ: str) -> Result:
        with monkeypatch.context() as patched:
            for name, value in environ.items():
                patched.setenv(name, value)
            return run_here(arguments, stdin)

    return run


async def command(*arguments: str, stdin: str = "") -> Result:
    """Runs a command in a thread, while the node of the test answers it from the event loop."""
    async with asyncio.timeout(SECONDS):
        return await asyncio.to_thread(run_here, arguments, stdin)


def put_record(paths: Paths, url: str, *, api_url: str = "") -> None:
    """Makes this process look like a running node."""
    record = NodeRecord(pid=os.getpid(), api_url=api_url or url, console_url=url, started_at=1.0)
    write_record(paths, record)
    paths.token_file.write_text(TOKEN)


def start_events(url: str, *, api_url: str = "") -> list[ev.AnyEvent]:
    """What the log of a node with one ready model begins with."""
    model = ModelId("tiny")
    return [
        ev.NodeStarted(
            at=1.0,
            name="attic",
            version="0.1.0",
            pid=os.getpid(),
            api_url=api_url or url,
            console_url=url,
        ),
        ev.ModelRequested(at=2.0, model=model, ref="default"),
        ev.ModelReady(
            at=3.0,
            model=model,
            pid=1,
            architecture="llama",
            parameters=1000,
            context=2048,
            lanes=4,
            memory_measured=3 << 20,
            device="CPU",
            chat=True,
            embeddings=False,
            load_seconds=0.5,
            layers=30,
        ),
    ]


@contextlib.asynccontextmanager
async def playing(paths: Paths, *, api_url: str = "") -> AsyncIterator[Node]:
    """A node with one ready model that commands find by its record."""
    async with running() as node:
        put_record(paths, node.url, api_url=api_url)
        for event in start_events(node.url, api_url=api_url):
            node.backend.store.append(event)
        yield node


@pytest.fixture
async def node(paths: Paths) -> AsyncIterator[Node]:
    async with playing(paths) as played:
        yield played


def write_config(paths: Paths, text: str) -> Path:
    """Puts a config.toml where the command looks."""
    paths.config.mkdir(parents=True, exist_ok=True)
    paths.config_file.write_text(text, encoding="utf-8")
    return paths.config_file
