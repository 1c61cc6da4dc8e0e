"""Models that come from the hub without being loaded: one after the other, to be paused, resumed, ended.

A paused download keeps what has arrived; so does one that ends with the node: asked for again, it goes on.
"""

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from meshllm_core.errors import InvalidRequest, MeshError, ModelError, NodeError, describe
from meshllm_core.ids import ModelId
from meshllm_core.models.cache import Cache
from meshllm_core.models.hub import Hub
from meshllm_core.models.library import discard
from meshllm_core.models.locate import Located, locate
from meshllm_core.models.memory import read_memory
from meshllm_core.models.resolve import fetch
from meshllm_core.state.download_events import DownloadChanged, DownloadRemoved, DownloadRow
from meshllm_core.state.events import AnyEvent

OPEN_LIMIT = 16
"""Downloads that are not done: those that wait, run, are paused or failed. More are refused."""
DONE_KEPT = 5
"""Downloads that are listed although they are done; the oldest goes."""
PROGRESS_SECONDS = 0.5
RATE_SECONDS = 3.0
"""Over so long the speed is averaged."""
SILENCE_SECONDS = 5.0
"""Without a byte for so long, the speed of before says nothing."""

replace = msgspec.structs.replace


@dataclass
class _Download:
    """One download and the thread that works on it."""

    row: DownloadRow
    stop: threading.Event = field(default_factory=threading.Event)
    wish: Literal["", "pause", "cancel"] = ""
    """What somebody asked for while it ran."""
    folder: Path | None = None
    told_at: float = 0.0
    rate_from: tuple[float, int] = (0.0, -1)
    """When the average began, and the bytes that were here then."""
    silence: asyncio.TimerHandle | None = None
    """Takes the speed back when no more bytes come."""


@dataclass
class Downloads:
    """Owned by the node's loop. Its rows are in the snapshot; every change is an event."""

    cache: Cache
    hub: Hub
    append: Callable[[AnyEvent], None]
    free_memory: Callable[[], int] = lambda: read_memory().available
    _all: dict[str, _Download] = field(default_factory=dict)
    _running: _Download | None = None
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    _closed: bool = False

    def start(self, ref: str, *, any_size: bool = False) -> DownloadRow:
        """Begin or queue a download; one of the same model that was paused or failed goes on.

        `any_size`: also what this machine's memory cannot hold. Raises NodeError when it is on its way
        already or too many are.
        """
        same = next((one for one in self._all.values() if one.row.ref == ref), None)
        if same is not None and same.row.state in ("waiting", "downloading", "stopping"):
            raise NodeError(f"{ref} is on its way already.", hint="Its row shows how far it is.")
        if same is not None:
            if same.row.state == "done":
                self._remove(same, "")
            else:
                same.row = replace(same.row, any_size=any_size)
                return self._queue(same)
        if sum(one.row.state != "done" for one in self._all.values()) >= OPEN_LIMIT:
            raise NodeError(
                f"{OPEN_LIMIT} downloads wait or are paused; that is the limit.",
                hint="Cancel one that is not needed, or wait until one is done.",
            )
        row = DownloadRow(
            id=secrets.token_hex(8), ref=ref, state="waiting", since=time.time(), any_size=any_size
        )
        return self._queue(_Download(row))

    def pause(self, download: str) -> DownloadRow:
        """Stop it and keep what has arrived. Raises InvalidRequest, NodeError."""
        one = self._known(download)
        if one.row.state == "waiting":
            self._set(one, state="paused")
        elif one.row.state in ("downloading", "stopping"):
            self._stop(one, "pause")
        elif one.row.state != "paused":
            raise NodeError(f"{one.row.ref} cannot be paused: it is {one.row.state}.")
        return one.row

    def resume(self, download: str) -> DownloadRow:
        """Let it go on where it stopped. Raises InvalidRequest, NodeError."""
        one = self._known(download)
        if one.row.state == "stopping":
            raise NodeError(f"{one.row.ref} is just stopping.", hint="Try again in a moment.")
        return self._queue(one) if one.row.state in ("paused", "failed") else one.row

    async def cancel(self, download: str) -> DownloadRow:
        """End it and remove what arrived; of one that is done only the row goes. Raises InvalidRequest."""
        one = self._known(download)
        if one.row.state in ("downloading", "stopping"):
            self._stop(one, "cancel")
        elif one.row.state == "done":
            self._remove(one, "")
        else:
            await self._discarded(one)
        return one.row

    async def close(self) -> None:
        """Stop what runs; what has arrived is kept."""
        self._closed = True
        if self._running is not None:
            self._stop(self._running, "pause")
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Inside -----------------------------------------------------------------------------------------

    def _known(self, download: str) -> _Download:
        one = self._all.get(download)
        if one is None:
            raise InvalidRequest(
                f"There is no download {download[:64]}.",
                hint="`downloads` of the snapshot lists them.",
                param="download",
            )
        return one

    def _stop(self, one: _Download, wish: Literal["pause", "cancel"]) -> None:
        # Whoever asked to cancel does not get a pause instead.
        one.wish = "cancel" if "cancel" in (wish, one.wish) else wish
        one.stop.set()
        self._set(one, state="stopping", bytes_per_second=0.0)

    def _queue(self, one: _Download) -> DownloadRow:
        one.wish, one.stop = "", threading.Event()
        # At the end of those that wait.
        self._all.pop(one.row.id, None)
        self._all[one.row.id] = one
        self._set(one, state="waiting", message="", hint="", bytes_per_second=0.0)
        self._next()
        return one.row

    def _next(self) -> None:
        if self._running is not None or self._closed:
            return
        one = next((one for one in self._all.values() if one.row.state == "waiting"), None)
        if one is not None:
            self._running = one
            one.rate_from = (0.0, -1)
            self._set(one, state="downloading")
            self._begin(self._run(one))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="download")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, one: _Download) -> None:
        loop = asyncio.get_running_loop()
        try:
            note = await asyncio.to_thread(self._fetch, one, loop)
        except MeshError as error:
            await self._ended(one, error)
        else:
            total = one.row.bytes_total
            self._set(one, state="done", message=note, hint="", bytes_done=total, bytes_per_second=0.0)
            self._forget_old()
        finally:
            if one.silence is not None:
                one.silence.cancel()
            self._running = None
            self._next()

    def _fetch(self, one: _Download, loop: asyncio.AbstractEventLoop) -> str:
        """In a thread. Returns what a person should know of the choice. Raises a ModelError."""
        memory = None if one.row.any_size else self.free_memory()
        located = locate(one.row.ref, cache=self.cache, hub=self.hub, memory_available=memory)
        loop.call_soon_threadsafe(self._found, one, located)

        def on_progress(done: int, total: int) -> None:
            now = time.monotonic()
            if now - one.told_at >= PROGRESS_SECONDS:
                one.told_at = now
                loop.call_soon_threadsafe(self._progressed, one, done, total)

        fetch(located, cache=self.cache, hub=self.hub, on_progress=on_progress, cancelled=one.stop.is_set)
        return located.note if located.remote is not None else "It was here already."

    def _found(self, one: _Download, located: Located) -> None:
        size = located.download_bytes
        if located.remote is not None:
            one.folder = self.cache.folder_for(located.remote.repo, located.remote.model)
        else:
            size = sum(file.stat().st_size for file in located.files if file.exists())
        self._set(one, model=ModelId(located.id), bytes_total=size)

    def _progressed(self, one: _Download, done: int, total: int) -> None:
        if one.row.state != "downloading" or self._running is not one:
            return
        now, (began, before) = time.monotonic(), one.rate_from
        rate = one.row.bytes_per_second
        if before < 0 or done < before:
            one.rate_from = (now, done)
        elif now > began:
            rate = (done - before) / (now - began)
            if now - began > RATE_SECONDS:
                one.rate_from = (now, done)
        self._set(one, bytes_done=done, bytes_total=total, bytes_per_second=rate)
        if one.silence is not None:
            one.silence.cancel()
        one.silence = asyncio.get_running_loop().call_later(SILENCE_SECONDS, self._silent, one)

    def _silent(self, one: _Download) -> None:
        if one.row.state == "downloading" and one.row.bytes_per_second:
            one.rate_from = (0.0, -1)
            self._set(one, bytes_per_second=0.0)

    async def _ended(self, one: _Download, error: MeshError) -> None:
        if one.wish == "cancel":
            await self._discarded(one)
        elif one.wish == "pause":
            self._set(one, state="paused", bytes_per_second=0.0)
        else:
            told = {"message": error.message, "hint": error.hint}
            self._set(one, state="failed", bytes_per_second=0.0, **told)

    async def _discarded(self, one: _Download) -> None:
        reason = "the download was cancelled, what had arrived is removed"
        if one.folder is not None:
            try:
                await asyncio.to_thread(discard, self.cache, one.folder)
            except ModelError as error:
                reason = f"the download was cancelled, but what had arrived stays: {describe(error)}"
        self._remove(one, reason)

    def _forget_old(self) -> None:
        done = [one for one in self._all.values() if one.row.state == "done"]
        for one in done[:-DONE_KEPT]:
            self._remove(one, "")

    def _remove(self, one: _Download, reason: str) -> None:
        if self._all.pop(one.row.id, None) is not None:
            self.append(DownloadRemoved(at=time.time(), id=one.row.id, reason=reason))

    def _set(self, one: _Download, **changes: Any) -> None:
        now = time.time()
        if changes.get("state", one.row.state) != one.row.state:
            changes["since"] = now
        one.row = replace(one.row, **changes)
        if one.row.id in self._all:
            self.append(DownloadChanged(at=now, download=one.row))
