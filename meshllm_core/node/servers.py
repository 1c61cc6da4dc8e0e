"""Listening sockets and the HTTP servers on them."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI

from meshllm_core.errors import NodeError, PortTaken

BACKLOG = 512
GRACE_SECONDS = 5
"""How long running requests may go on after a stop was asked for."""


def listen(host: str, port: int, flag: str) -> socket.socket:
    """A listening TCP socket. Raises PortTaken, or NodeError for an address that is not ours.

    Bound before anything else starts, so that a port that is taken is known in the first instant.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((host, port))
        server.listen(BACKLOG)
    except OSError as error:
        server.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(
                f"Port {port} on {host} is in use by another program.",
                hint=f"End that program, or choose another port with {flag}.",
            ) from error
        if error.errno == errno.EACCES:
            raise NodeError(
                f"This user may not listen on port {port}.", hint=f"Choose one above 1023 with {flag}."
            ) from error
        raise NodeError(
            f"Cannot listen on {host}:{port}: {error.strerror or error}.",
            hint="Use 127.0.0.1, or an address of this machine.",
        ) from error
    server.setblocking(False)
    return server


class HttpServer(uvicorn.Server):
    """uvicorn inside our loop: the node handles signals, not the server."""

    def __init__(self, app: FastAPI, sock: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="httptools",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        self._sock = sock
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """No signal handlers of its own."""
        yield

    async def start(self) -> None:
        """Returns when requests are answered."""
        self._task = asyncio.create_task(self.serve(sockets=[self._sock]), name="http-server")
        while not self.started:
            if self._task.done():
                await self._task
                raise NodeError("The HTTP server ended while it started.", hint="See the node's log.")
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """Take no new connections, let running requests end (GRACE_SECONDS), then close."""
        self.should_exit = True
        if self._task is not None:
            await self._task
        self._sock.close()
