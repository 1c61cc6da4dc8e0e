"""Units on their way between an engine child and a channel to another node, bounded both ways."""

import asyncio
import contextlib
from collections.abc import Callable

from meshllm_core.errors import LinkClosed, WireError
from meshllm_core.transport.link import Channel

QUEUE_UNITS = 256
"""Units that may wait for the network. A driver has a handful on their way; more means that it is stuck."""


class UnitPump:
    """Sends what an engine passes on, in order. `put` never waits: it is called from the engine's reader."""

    def __init__(self, on_lost: Callable[[str], None]) -> None:
        """`on_lost` is called once, when the next machine takes no more."""
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(QUEUE_UNITS)
        self._on_lost = on_lost
        self._task: asyncio.Task[None] | None = None
        self._channel: Channel | None = None
        self._idle = False
        """Nothing waits, and the task sleeps."""

    def put(self, unit: bytes) -> None:
        """One more."""
        try:
            if self._idle and self._channel is not None and self._channel.send_at_once(unit):
                return
            self._idle = False
            self._queue.put_nowait(unit)
        except LinkClosed as error:
            self._on_lost(f"the next machine is lost: {error.message}")
        except asyncio.QueueFull:
            self._on_lost(f"{QUEUE_UNITS} units wait for the next machine: it takes none")

    def start(self, channel: Channel) -> None:
        """From now on units go there."""
        self._channel = channel
        self._task = asyncio.create_task(self._run(channel), name="stage units")

    async def _run(self, channel: Channel) -> None:
        try:
            while True:
                self._idle = self._queue.empty()
                await channel.send(await self._queue.get())
        except LinkClosed as error:
            self._on_lost(f"the next machine is lost: {error.message}")

    async def close(self) -> None:
        """Gives the channel up."""
        if self._channel is not None:
            self._channel.abort()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


async def take_units(channel: Channel, deliver: Callable[[bytes], None], limit: int) -> str:
    """Passes every unit that comes on; returns why none come any more."""
    channel.limit = limit
    with contextlib.suppress(LinkClosed):
        try:
            await channel.pass_on(deliver)
        except WireError as error:
            return error.message
        return "the machine before this one has ended the channel"
    return "the machine before this one is lost"
