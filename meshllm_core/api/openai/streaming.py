"""Writes server-sent events: at once, with a sign of life when there is nothing to write, and no longer
than somebody reads.

One task computes, one watches the connection; what is computed while the socket is busy leaves in one
write. The wait for the first event decides the status: a refusal before it is an ordinary error answer.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from meshllm_core.api.openai.errors import envelope, internal_error
from meshllm_core.errors import MeshError, describe
from meshllm_core.serve.timer import IdleTimer

KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"
MAX_PENDING_BYTES = 256 * 1024
"""When the client reads so slowly that this much waits for it, computing waits too."""

_log = logging.getLogger(__name__)
_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


def error_event(error: MeshError) -> bytes:
    """The last event of a stream that failed; OpenAI's SDK raises APIError on it."""
    return b"data: " + envelope(error) + b"\n\n"


async def client_gone(receive: Receive) -> None:
    """Return when the client has closed the connection (or the answer is complete)."""
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """An answer made of the pieces that `events` yields, each one or more whole events.

    Raises what `events` raises before its first piece; later errors become `failure(error)` in the stream.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        *,
        keep_alive_seconds: float,
        failure: Callable[[MeshError], bytes] = error_event,
        headers: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """`headers` is called when they are sent: with the first piece, or with the first sign of life."""
        self.status_code = 200
        self.background = None
        self.init_headers(_HEADERS)
        self._events = events
        self._interval = keep_alive_seconds
        self._failure = failure
        self._more_headers = headers
        self._pending: list[bytes] = []
        self._size = 0
        self._wake = asyncio.Event()
        self._room = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        computing = asyncio.create_task(self._compute())
        watching = asyncio.create_task(client_gone(receive))
        for task in (computing, watching):
            task.add_done_callback(lambda _: self._wake.set())
        timer = IdleTimer(self._interval, self._wake.set)
        try:
            await self._write(send, computing, watching, timer)
        finally:
            timer.cancel()
            await cancel(computing, watching)

    async def _compute(self) -> None:
        async with aclosing(self._events) as events:
            async for piece in events:
                self._pending.append(piece)
                self._size += len(piece)
                self._wake.set()
                if self._size > MAX_PENDING_BYTES:
                    self._room.clear()
                    await self._room.wait()

    async def _write(
        self, send: Send, computing: asyncio.Task[None], watching: asyncio.Task[None], timer: IdleTimer
    ) -> None:
        started = False
        while not watching.done():
            ended = computing.done()
            body = self._take()
            if ended and not body:
                error = computing.exception()
                if error is not None and not started:
                    raise error
                body = self._last(error)
                if not started:
                    await self._start(send)
                await send({"type": "http.response.body", "body": body, "more_body": False})
                return
            if body or timer.due:
                if not started:
                    await self._start(send)
                    started = True
                timer.restart()
                await send({"type": "http.response.body", "body": body or KEEP_ALIVE, "more_body": True})
                continue
            await self._wake.wait()
            self._wake.clear()

    def _take(self) -> bytes:
        pending = self._pending
        if not pending:
            return b""
        body = pending[0] if len(pending) == 1 else b"".join(pending)
        pending.clear()
        self._size = 0
        self._room.set()
        return body

    def _last(self, error: BaseException | None) -> bytes:
        if error is None:
            return b""
        if isinstance(error, MeshError):
            return self._failure(error)
        _log.error("A stream failed: %s", describe(error), exc_info=error)
        return self._failure(internal_error())

    async def _start(self, send: Send) -> None:
        more = [(name.encode(), value.encode()) for name, value in self._more_headers().items()]
        await send({"type": "http.response.start", "status": 200, "headers": [*self.raw_headers, *more]})


async def cancel(*tasks: "asyncio.Task[object] | asyncio.Task[None]") -> None:
    """Cancel tasks and wait until they have ended, however they do."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
