"""The link to a node: the latest snapshot, kept so by events; reconnects by itself. No Textual here."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

from meshllm_core.errors import MeshError, NodeNotRunning, describe
from meshllm_core.state.events import LoggedEvent, NoticeLevel
from meshllm_core.state.reduce import reduce
from meshllm_core.state.snapshot import NodeSnapshot, Notice
from meshllm_tui.bounds import bounded, bounded_event
from meshllm_tui.cleaning import clean
from meshllm_tui.conversation import ChatClient
from meshllm_tui.present import Link, NodeView
from meshllm_tui.rtt_history import RttHistory

T = TypeVar("T")

QUIET_SECONDS = 5.0
"""Without an event for so long, the node is asked whether it is still there."""
ANSWER_SECONDS = 3.0
"""So long a question to the node may take."""
RETRY_FIRST = 0.15
RETRY_LONGEST = 3.0
LOCAL_NOTICES_KEPT = 100


class NodeClient(ChatClient, Protocol):
    """What the dashboard asks of a node. Every method raises MeshError when the node does not do it."""

    async def snapshot(self) -> NodeSnapshot:
        """The node as it stands."""

    def events(self, after: int) -> AsyncGenerator[LoggedEvent]:
        """What happened after event number `after`, as it happens. Ends when the node closes the stream."""

    async def act(self, name: str, /, **arguments: Any) -> Mapping[str, Any]:
        """Run one of the node's actions."""

    async def ask(self, name: str, kind: type[T], /, **arguments: Any) -> T:
        """Ask one of the node's questions, whose answer is a `kind`."""

    async def close(self) -> None:
        """Give the connections back."""


class Session:
    """Follows one node. `changed` is called after each change, in the task that runs `run`."""

    def __init__(
        self,
        open_client: Callable[[], Awaitable[NodeClient]],
        changed: Callable[[], None],
        *,
        started_by_us: bool = False,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._open_client = open_client
        self._client: NodeClient | None = None
        self.snapshot: NodeSnapshot | None = None
        self.link: Link = "connecting"
        self._changed = changed
        self._started_by_us = started_by_us
        self._clock = clock
        self._wall = wall
        self._heard = clock()
        self._trouble = ""
        self._rtts = RttHistory()
        self._met: tuple[str, str, int, float] | None = None
        """Id, name, process and start of the node that answered last, once it has told its id."""
        self._local: deque[Notice] = deque(maxlen=LOCAL_NOTICES_KEPT)

    @property
    def client(self) -> NodeClient:
        """The node's client. Raises NodeNotRunning in the first moments, before there is one."""
        if self._client is None:
            raise NodeNotRunning("The node has not answered yet.", hint="Try again in a moment.")
        return self._client

    def view(self) -> NodeView:
        """Everything the panes are drawn from, now; round trips are noted as they are looked at."""
        wall = self._wall()
        if self.snapshot is not None and self.link == "live":
            self._rtts.take(self.snapshot, wall)
        return NodeView(
            snapshot=self.snapshot,
            link=self.link,
            silent_for=self._clock() - self._heard,
            trouble=self._trouble,
            started_by_us=self._started_by_us,
            local=tuple(self._local),
            wall=wall,
            rtts=self._rtts,
        )

    async def act(self, name: str, /, **arguments: Any) -> Mapping[str, Any]:
        """Run one of the node's actions. Raises MeshError."""
        return await self.client.act(name, **arguments)

    def note(self, level: NoticeLevel, text: str) -> None:
        """Put a line of the dashboard's own into the log."""
        self._local.append(Notice(at=self._wall(), level=level, source="dashboard", text=clean(text)))
        self._changed()

    async def run(self) -> None:
        """Follow the node until cancelled: snapshot, events, and again after each loss."""
        self._client = await self._open_client()
        delay = RETRY_FIRST
        try:
            while True:
                try:
                    await self._follow(self._client)
                    delay = RETRY_FIRST
                except (MeshError, OSError, TimeoutError) as error:
                    self._lost(error)
                await asyncio.sleep(delay)
                delay = min(delay * 1.6, RETRY_LONGEST)
        finally:
            await self._client.close()

    async def _follow(self, client: NodeClient) -> None:
        """One connection: returns when the node ends the stream, raises when the node is gone."""
        snapshot = await self._ask()
        if self.link == "lost":
            self.link = "live"
            self.note("info", "the node answers again")
        self._adopt(snapshot)
        tasks = {
            asyncio.create_task(self._read(client.events(snapshot.sequence))),
            asyncio.create_task(self._probe()),
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, events: AsyncGenerator[LoggedEvent]) -> None:
        async with aclosing(events):
            async for logged in events:
                await self._take(logged)

    async def _probe(self) -> None:
        """Ask a quiet node whether it is still there: a frozen process keeps its connections open."""
        while True:
            await asyncio.sleep(QUIET_SECONDS)
            if self._clock() - self._heard >= QUIET_SECONDS:
                self._adopt(await self._ask())

    async def _ask(self) -> NodeSnapshot:
        return bounded(await asyncio.wait_for(self.client.snapshot(), ANSWER_SECONDS))

    async def _take(self, logged: LoggedEvent) -> None:
        """Fold an event; a gap in the numbers means that something was missed, so ask anew."""
        current = self.snapshot
        if current is None or logged.sequence > current.sequence + 1:
            self._adopt(await self._ask())
        elif logged.sequence == current.sequence + 1:
            self._adopt(reduce(current, bounded_event(logged.event)))
        else:
            self._heard = self._clock()

    def _adopt(self, snapshot: NodeSnapshot) -> None:
        self._heard = self._clock()
        self._trouble = ""
        if snapshot != self.snapshot or self.link != "live":
            self.snapshot, self.link = snapshot, "live"
            self._meet(snapshot)
            self._changed()

    def _meet(self, snapshot: NodeSnapshot) -> None:
        """Say when another process answers than before, and whether it is another node."""
        met = (snapshot.node, snapshot.name, snapshot.pid, snapshot.started_at)
        if not snapshot.node or met == self._met:
            return
        known, self._met = self._met, met
        if known is None:
            return
        if known[0] != met[0]:
            self._rtts = RttHistory()
            old, new = (f"{clean(name, 60)} ({node[:10]})" for node, name, *_ in (known, met))
            self.note("warning", f"another node answers now: {new}, in place of {old}")
        elif known[2:] != met[2:]:
            self.note("info", f"the node was started anew, as process {snapshot.pid}")

    def _lost(self, error: Exception) -> None:
        self._trouble = "it took too long to answer" if isinstance(error, TimeoutError) else describe(error)
        if self.link == "live":
            self.link = "lost"
            self.note("warning", f"lost the node: {self._trouble}")
        self._changed()
