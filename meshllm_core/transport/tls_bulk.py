"""An event loop in a thread of its own, where files travel: it may be busy, the node's loop may not."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

from meshllm_core.errors import LinkClosed
from meshllm_core.transport.tls_connection import TlsChannel

T = TypeVar("T")

_ENDED = "The transfers of this node have ended."


class BulkLoop:
    """Started by the node's loop, which asks it to do things."""

    def __init__(self) -> None:
        self._started: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
        self._stop = asyncio.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="meshllm transfers", daemon=True)

    @staticmethod
    async def start() -> "BulkLoop":
        """One that runs."""
        bulk = BulkLoop()
        bulk._thread.start()
        await asyncio.wrap_future(bulk._started)
        return bulk

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs `coroutine` there. When this is cancelled, it returns once the coroutine has ended.

        Raises LinkClosed when the loop ends or has ended.
        """
        result: concurrent.futures.Future[T] = concurrent.futures.Future()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            tasks.append(asyncio.get_running_loop().create_task(coroutine))
            tasks[0].add_done_callback(lambda task: _hand_over(task, result))

        if self._closing:
            coroutine.close()
            raise LinkClosed(_ENDED)
        self._started.result().call_soon_threadsafe(begin)
        waiting = asyncio.wrap_future(result)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            self.call(lambda: _cancel(tasks[0]))
            await asyncio.wait([waiting])
            raise

    def call(self, work: Callable[[], None]) -> None:
        """Runs `work` there, soon; nothing when the loop has ended."""
        if not self._closing:
            self._started.result().call_soon_threadsafe(work)

    async def close(self) -> None:
        """Ends the loop, cancels what runs there and waits for the thread."""
        self.call(self._stop.set)
        self._closing = True
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._started.set_result(asyncio.get_running_loop())
        await self._stop.wait()


def _cancel(task: "asyncio.Task[T]") -> None:
    task.cancel()


def _hand_over(task: "asyncio.Task[T]", result: "concurrent.futures.Future[T]") -> None:
    """What a task ended with, for the other loop."""
    if task.cancelled():
        result.set_exception(LinkClosed(_ENDED))
    elif (error := task.exception()) is not None:
        result.set_exception(error)
    else:
        result.set_result(task.result())


class BulkChannel:
    """A channel of the other loop, used from the node's. Implements `transport.link.Channel`."""

    path: Literal["quic", "tls", "memory"] = "tls"

    def __init__(self, bulk: BulkLoop, inner: TlsChannel) -> None:
        self.bulk = bulk
        self.inner = inner
        self.kind = inner.kind

    @property
    def limit(self) -> int:
        """See `Channel.limit`."""
        return self.inner.limit

    @limit.setter
    def limit(self, value: int) -> None:
        self.inner.limit = value

    async def send(self, body: bytes) -> None:
        """See `Channel.send`."""
        await self.bulk.run(self.inner.send(body))

    def send_at_once(self, body: bytes) -> bool:
        """See `Channel.send_at_once`: nothing reaches another loop at once."""
        return False

    async def receive(self) -> bytes | None:
        """See `Channel.receive`."""
        return await self.bulk.run(self.inner.receive())

    async def pass_on(self, deliver: Callable[[bytes], None]) -> None:
        """See `Channel.pass_on`."""
        while (frame := await self.receive()) is not None:
            deliver(frame)

    async def finish(self) -> None:
        """See `Channel.finish`."""
        await self.bulk.run(self.inner.finish())

    def abort(self) -> None:
        """See `Channel.abort`."""
        self.bulk.call(self.inner.abort)
