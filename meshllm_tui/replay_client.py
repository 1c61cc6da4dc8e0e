"""A node's client that plays a recording: paused, sped up, at any moment of it. No Textual here."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from meshllm_core.errors import NodeError
from meshllm_core.state.events import LoggedEvent
from meshllm_core.state.recording import SnapshotTaken
from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.recording_file import Recording

if TYPE_CHECKING:
    from meshllm_core.api.client import ChatDelta

T = TypeVar("T")

BATCH = 200
"""Frames that are folded before others on the event loop get their turn."""


class ReplayClient:
    """Implements session.NodeClient. Whatever would change the node, or ask it, is refused in words."""

    def __init__(
        self, recording: Recording, speed: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.recording = recording
        self.speed = speed
        self.paused = False
        self._clock = clock
        self._place = 1
        """Frames that were played."""
        self._state = recording.state(1)
        self._base = 0.0
        self._since = clock()
        self._moved = asyncio.Event()

    @property
    def position(self) -> float:
        """Seconds from the recording's beginning."""
        passed = 0.0 if self.paused else (self._clock() - self._since) * self.speed
        return min(self._base + passed, self.recording.index.seconds)

    @property
    def ended(self) -> bool:
        """All of it was played."""
        return self._place >= len(self.recording.index.times)

    def wall(self) -> float:
        """What time it was, seconds since the epoch."""
        return self.recording.index.header.at + self.position

    def pause(self, paused: bool) -> None:
        """Stop or go on; at the end going on begins anew."""
        if not paused and self.ended and self.position >= self.recording.index.seconds:
            self.seek(0.0)
        self._base, self._since = self.position, self._clock()
        self.paused = paused
        self._moved.set()

    def seek(self, seconds: float) -> None:
        """Go to a moment; the session asks for the snapshot there."""
        self._base = min(max(seconds, 0.0), self.recording.index.seconds)
        self._since = self._clock()
        self._place = max(self.recording.index.at(self._base), 1)
        self._state = self.recording.state(self._place)
        self._moved.set()

    async def snapshot(self) -> NodeSnapshot:
        """The node as it stood."""
        return self._state

    async def events(self, after: int) -> AsyncGenerator[LoggedEvent]:
        """What happened after event number `after`, in its time. Ends where events cannot tell it."""
        times = self.recording.index.times
        played = 0
        while after == self._state.sequence:
            if self.ended or times[self._place] > self.position:
                await self._wait(None if self.ended or self.paused else times[self._place] - self.position)
                continue
            frame = self.recording.frame(self._place)
            self._state = self.recording.next_state(self._state, self._place)
            self._place += 1
            if isinstance(frame, SnapshotTaken):
                return
            after = frame.sequence
            yield LoggedEvent(sequence=frame.sequence, event=frame.event)
            played += 1
            if played % BATCH == 0:
                await asyncio.sleep(0)

    async def _wait(self, seconds: float | None) -> None:
        """Until something was pressed, or so much of the recording has passed."""
        self._moved.clear()
        try:
            async with asyncio.timeout(None if seconds is None else max(seconds / self.speed, 0.001)):
                await self._moved.wait()
        except TimeoutError:
            return

    async def act(self, name: str, /, **_: Any) -> Mapping[str, Any]:
        """Refused."""
        raise _nothing()

    async def ask(self, name: str, kind: type[T], /, **_: Any) -> T:
        """Refused."""
        raise _nothing()

    async def chat_stream(
        self, messages: Sequence[dict[str, str]], model: str
    ) -> AsyncGenerator["ChatDelta"]:
        """Refused."""
        raise _nothing()
        yield

    async def close(self) -> None:
        """Nothing to give back: whoever opened the file closes it."""


def _nothing() -> NodeError:
    return NodeError(
        "This is a recording: no node is behind it.", hint="q leaves it; `meshllm` shows the real node."
    )
