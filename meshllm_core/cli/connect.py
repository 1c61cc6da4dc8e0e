"""Finds the node that a command is about, and talks to it."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from meshllm_core.api.client import ManagementClient
from meshllm_core.api.record import find_node, node_pid
from meshllm_core.api.token import read_token
from meshllm_core.config import Settings, base_url, load_settings
from meshllm_core.errors import ConfigError, NodeNotRunning
from meshllm_core.paths import Paths, default_paths

T = TypeVar("T")


def console_of(paths: Paths, settings: Settings, console: str = "") -> str:
    """Base URL of the management API: as given, of the running node, or where it would listen.

    Raises ConfigError for an address that is none, NodeNotRunning.
    """
    if console:
        return _given(console)
    found = find_node(paths)
    if found is not None:
        return found.console_url
    usual = base_url(settings.console_host, settings.console_port)
    if settings.console_port and node_pid(usual) is not None:
        return usual
    raise NodeNotRunning(
        f"No node is running here (looked at {usual}).", hint="Start one with `meshllm` or `meshllm serve`."
    )


def ask(question: Callable[[ManagementClient], Awaitable[T]], *, console: str = "") -> T:
    """Runs `question` with a client of the node. Raises MeshError."""
    paths = default_paths()
    settings = load_settings(paths, environ=os.environ)
    url = console_of(paths, settings, console)
    client = ManagementClient(url, token=read_token(paths.token_file), api_key=settings.api_key)

    async def asked() -> T:
        async with client:
            return await question(client)

    return asyncio.run(asked())


def _given(console: str) -> str:
    if console.isdecimal() and 0 < int(console[:6]) < 65_536:
        return base_url("127.0.0.1", int(console))
    if console.startswith(("http://", "https://")):
        return console.rstrip("/")
    raise ConfigError(
        f"--console {console[:80]!r} is neither a port nor an address.",
        hint="Use for example 3131 or http://127.0.0.1:3131.",
        param="--console",
    )
