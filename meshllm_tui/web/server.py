"""Serves the dashboard to browsers: a process of its own for each tab, joined to it by a WebSocket."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import textual_serve
from aiohttp import WSMsgType, web
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager
from textual_serve.server import Server

from meshllm_tui.web.guard import Guard

SESSIONS = 8
"""Tabs at once; another one is refused."""
MESSAGE_LIMIT = 1 << 20
"""Bytes of one message of the browser: a paste, not a file."""
LARGEST = (1000, 500)
"""Columns and rows of the largest terminal."""
STOP_SECONDS = 5.0
"""So long a tab's process may take to end when its tab is closed."""
_STATIC = Path(textual_serve.__file__).parent / "static"


@dataclass(frozen=True)
class Served:
    """What is served, and under which addresses."""

    command: str
    """Of the shell, that shows the dashboard; for each tab anew."""
    urls: tuple[str, ...]
    """Scheme, host and port, the printed one first."""
    token: str


class WebDashboard:
    """The web application."""

    def __init__(self, served: Served) -> None:
        self._command = served.command
        self._guard = Guard(served.urls, served.token)
        # Only its downloads are used: its page loads a font from elsewhere, its messages have no bounds.
        self._files = Server(served.command)
        self._downloads: DownloadManager = self._files.download_manager
        self._sockets: set[web.WebSocketResponse] = set()
        self._page = Template(resources.files(__package__).joinpath("page.html").read_text("utf-8"))

    def application(self) -> web.Application:
        """Its routes, all behind the guard."""

        @web.middleware
        async def guard(request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
            return await self._guard.check(request, handler)

        made = web.Application(middlewares=[guard])
        made.add_routes(
            [
                web.get("/", self._index),
                web.get("/page.css", self._asset("page.css", "text/css")),
                web.get("/page.js", self._asset("page.js", "text/javascript")),
                web.get("/ws", self._socket),
                web.get("/download/{key}", self._files.handle_download),
                web.static("/static", _STATIC),
            ]
        )
        made.on_shutdown.append(self._close_all)
        return made

    async def _index(self, request: web.Request) -> web.Response:
        origin = self._guard.origin(request)
        socket = origin.replace("http", "ws", 1)
        text = self._page.substitute(socket=f"{socket}/ws", font_size=_font_size(request))
        return web.Response(text=text, content_type="text/html")

    def _asset(self, name: str, kind: str) -> Callable[[web.Request], Any]:
        text = resources.files(__package__).joinpath(name).read_text("utf-8")

        async def asset(_: web.Request) -> web.Response:
            return web.Response(text=text, content_type=kind)

        return asset

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        size = _size(request.query.get("width", "80"), request.query.get("height", "24"))
        if size is None:
            return web.Response(status=400, text="width and height must be a terminal's.\n")
        if len(self._sockets) >= SESSIONS:
            raise web.HTTPServiceUnavailable(text=f"{SESSIONS} tabs are open: close one, then reload.\n")
        socket = web.WebSocketResponse(heartbeat=15, max_msg_size=MESSAGE_LIMIT)
        self._sockets.add(socket)
        try:
            await socket.prepare(request)
            await self._session(socket, size)
        finally:
            self._sockets.discard(socket)
        return socket

    async def _close_all(self, _: web.Application) -> None:
        """The server ends: every tab is told, and its process ends."""
        await asyncio.gather(*(socket.close() for socket in tuple(self._sockets)))

    async def _session(self, socket: web.WebSocketResponse, size: tuple[int, int]) -> None:
        """One tab, until it is closed or its dashboard ends."""
        shown = AppService(
            self._command,
            write_bytes=_if_open(socket, socket.send_bytes),
            write_str=_if_open(socket, socket.send_str),
            close=_closing(socket),
            download_manager=self._downloads,
        )
        await shown.start(*size)
        assert shown._task is not None
        # Where it cannot start, or crashes, the tab must not wait for it.
        shown._task.add_done_callback(lambda _: asyncio.ensure_future(socket.close()))
        try:
            await _pass_on(socket, shown)
        finally:
            await _end(shown)


async def _pass_on(socket: web.WebSocketResponse, shown: AppService) -> None:
    """What the browser says: keys, sizes, focus. Anything else is left out."""
    async for message in socket:
        if message.type is not WSMsgType.TEXT:
            continue
        try:
            what, *rest = json.loads(message.data)
        except (ValueError, TypeError):
            continue
        match what, rest:
            case "stdin", [str(keys)]:
                await shown.send_bytes(keys.encode("utf-8", "replace"))
            case "resize", [{"width": width, "height": height}]:
                size = _size(width, height)
                if size is not None:
                    await shown.set_terminal_size(*size)
            case "ping", [mark]:
                await socket.send_json(["pong", mark])
            case "blur", _:
                await shown.blur()
            case "focus", _:
                await shown.focus()


async def _end(shown: AppService) -> None:
    """Ask the process to end, and end it where it does not."""
    process = shown._process
    try:
        await asyncio.wait_for(shown.stop(), STOP_SECONDS)
    except (TimeoutError, ConnectionError):
        if process is not None and process.returncode is None:
            process.kill()
    if process is not None:
        await process.wait()


def _if_open(socket: web.WebSocketResponse, send: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What is still drawn for a tab that was closed goes nowhere."""

    async def sending(data: Any) -> None:
        if not socket.closed:
            with contextlib.suppress(ConnectionError):
                await send(data)

    return sending


def _closing(socket: web.WebSocketResponse) -> Callable[[], Any]:
    async def closing() -> None:
        await socket.close()

    return closing


def _size(width: object, height: object) -> tuple[int, int] | None:
    """Columns and rows, if they can be those of a terminal."""
    try:
        columns, rows = int(str(width)), int(str(height))
    except ValueError:
        return None
    return (columns, rows) if 0 < columns <= LARGEST[0] and 0 < rows <= LARGEST[1] else None


def _font_size(request: web.Request) -> int:
    given = request.query.get("fontsize", "16")
    return min(max(int(given), 6), 64) if given.isdecimal() and len(given) < 4 else 16
