"""The node's client for the dashboard: imported late, its token read when it is needed. No Textual here.

The HTTP library takes longer to import than a first paint may, and a node that is just being started
writes its token only after the dashboard is on the screen.
"""

import asyncio
import contextlib
import importlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from meshllm_core.state.events import LoggedEvent
from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.session import NodeClient

if TYPE_CHECKING:
    from meshllm_core.api.client import ChatDelta, ManagementClient

T = TypeVar("T")

TOKEN_LIMIT = 4096
"""Bytes of the token file that are read at most."""


async def open_client(console_url: str, api_url: str, token_file: Path) -> NodeClient:
    """A client of the node at `console_url`; does not connect yet."""
    await asyncio.to_thread(importlib.import_module, "httpx")
    return _OwnerClient(console_url, api_url, token_file)


def read_token(token_file: Path) -> str:
    """The management token, or nothing while there is none to read."""
    try:
        with token_file.open("rb") as file:
            return file.read(TOKEN_LIMIT).decode("ascii", "replace").strip()
    except OSError:
        return ""


class _OwnerClient:
    """A ManagementClient that is made again when the token file changes."""

    def __init__(self, console_url: str, api_url: str, token_file: Path) -> None:
        self._console_url = console_url
        self._api_url = api_url
        self._token_file = token_file
        self._token: str | None = None
        self._client: ManagementClient | None = None
        self._old: list[ManagementClient] = []

    def _current(self) -> "ManagementClient":
        from meshllm_core.api.client import ManagementClient

        token = read_token(self._token_file)
        if self._client is None or token != self._token:
            if self._client is not None:
                self._old.append(self._client)
            self._token = token
            self._client = ManagementClient(self._console_url, token=token, api_url=self._api_url)
        return self._client

    async def snapshot(self) -> NodeSnapshot:
        return await self._current().snapshot()

    def events(self, after: int) -> AsyncGenerator[LoggedEvent]:
        return self._current().events(after)

    async def act(self, name: str, /, **arguments: Any) -> Mapping[str, Any]:
        return await self._current().act(name, **arguments)

    async def ask(self, name: str, kind: type[T], /, **arguments: Any) -> T:
        return await self._current().ask(name, kind, **arguments)

    async def chat_stream(
        self, messages: Sequence[dict[str, str]], model: str
    ) -> "AsyncGenerator[ChatDelta]":
        pieces = self._current().chat_stream(messages, model)
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        for client in (*self._old, self._client):
            if client is not None:
                await client.close()
