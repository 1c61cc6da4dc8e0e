"""The one mutable cell of a node: appends events, folds them, wakes whoever waits for news."""

import asyncio
import contextlib
import threading
import time
from collections import deque
from itertools import islice

from meshllm_core.ids import Sequence
from meshllm_core.state.events import AnyEvent, LoggedEvent, NoticeLogged
from meshllm_core.state.reduce import reduce
from meshllm_core.state.snapshot import NodeSnapshot

EVENTS_KEPT = 4096
"""Events that a client can still ask for; one that is further behind takes a new snapshot."""
PENDING_LIMIT = 1024
"""Events from other threads that may wait for the loop; more are dropped, counted and reported."""


class EventStore:
    """Events, and the snapshot they fold to. Make it inside the running event loop it belongs to."""

    def __init__(self, snapshot: NodeSnapshot | None = None, *, keep: int = EVENTS_KEPT) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._snapshot = snapshot or NodeSnapshot()
        self._ring: deque[LoggedEvent] = deque(maxlen=keep)
        self._waiters: set[asyncio.Future[None]] = set()
        self._closed = False
        self._lock = threading.Lock()
        self._pending: deque[AnyEvent] = deque()
        self._dropped = 0

    @property
    def snapshot(self) -> NodeSnapshot:
        """The node after the last event."""
        return self._snapshot

    @property
    def closed(self) -> bool:
        """True once no more events will come: streams end."""
        return self._closed

    def append(self, event: AnyEvent) -> None:
        """Folds one event in. Only from the thread of the loop; other threads use `append_soon`."""
        if threading.get_ident() != self._thread:
            raise RuntimeError("EventStore.append was called from another thread; use append_soon")
        self._snapshot = reduce(self._snapshot, event)
        self._ring.append(LoggedEvent(sequence=self._snapshot.sequence, event=event))
        self._wake()

    def append_soon(self, event: AnyEvent) -> None:
        """Folds one event in at the loop's next turn; from any thread, in the order of the calls."""
        with self._lock:
            if len(self._pending) >= PENDING_LIMIT:
                self._dropped += 1
                return
            self._pending.append(event)
            first = len(self._pending) == 1
        if first:
            # A loop that is closed by now has nobody left to tell.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._drain)

    def events_after(self, sequence: int) -> list[LoggedEvent] | None:
        """Events later than `sequence`, oldest first; None when that place in the log is not known.

        Either it is further back than EVENTS_KEPT, or it lies ahead: then the client counted another
        node's events. In both cases it needs a new snapshot.
        """
        last = self._snapshot.sequence
        if sequence > last or sequence < last - len(self._ring):
            return None
        return list(islice(self._ring, len(self._ring) - (last - sequence), None))

    async def wait_after(self, sequence: int, timeout: float) -> bool:
        """Waits for an event later than `sequence`; False after `timeout` seconds or on closing."""
        if self._snapshot.sequence <= sequence and not self._closed:
            waiter = self._loop.create_future()
            self._waiters.add(waiter)
            try:
                async with asyncio.timeout(timeout):
                    await waiter
            except TimeoutError:
                return False
            finally:
                self._waiters.discard(waiter)
        return self._snapshot.sequence > sequence

    def close(self) -> None:
        """Ends all waits and streams; events may still be appended and read."""
        self._closed = True
        self._wake()

    @property
    def sequence(self) -> Sequence:
        """Index of the last event."""
        return Sequence(self._snapshot.sequence)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _drain(self) -> None:
        with self._lock:
            events, self._pending = self._pending, deque()
            dropped, self._dropped = self._dropped, 0
        for event in events:
            self.append(event)
        if dropped:
            text = f"{dropped} events came faster than they could be taken and were dropped"
            self.append(NoticeLogged(at=time.time(), level="warning", source="node", text=text))
