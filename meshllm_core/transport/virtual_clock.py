"""An event loop whose time jumps to the next timer when nothing is ready: minutes of a mesh in a second.

    with asyncio.Runner(loop_factory=virtual_loop) as runner:
        runner.run(hours_of_work())

Sockets work, but virtual time does not wait for them; so work that is done elsewhere (threads,
processes, other machines) does not belong into such a loop together with timers.
"""

import asyncio
import selectors
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

PATIENCE = 10.0
"""Real seconds without any timer after which the loop gives up: nothing would ever happen again."""


class _JumpingSelector(selectors.BaseSelector):
    """Never sleeps while a timer is set: it moves the clock instead."""

    def __init__(self) -> None:
        self.now = 0.0
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now; if nothing is, so much time has passed."""
        ready = self._real.select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            ready = self._real.select(PATIENCE)
            if not ready:
                raise RuntimeError("Nothing is ready and no timer is set: the tasks wait for each other.")
            return ready
        self.now += max(0.0, timeout)
        return []

    def register(
        self, fileobj: "FileDescriptorLike", events: int, data: object = None
    ) -> selectors.SelectorKey:
        """As the real one."""
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        """As the real one."""
        return self._real.unregister(fileobj)

    def modify(
        self, fileobj: "FileDescriptorLike", events: int, data: object = None
    ) -> selectors.SelectorKey:
        """As the real one."""
        return self._real.modify(fileobj, events, data)

    def get_key(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        """As the real one."""
        return self._real.get_key(fileobj)

    def get_map(self) -> "Mapping[FileDescriptorLike, selectors.SelectorKey]":
        """As the real one."""
        return self._real.get_map()

    def close(self) -> None:
        """As the real one."""
        self._real.close()


class VirtualClockLoop(asyncio.SelectorEventLoop):
    """`time()` is virtual; it begins at 0."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Virtual seconds."""
        return self._jumping.now


def virtual_loop() -> VirtualClockLoop:
    """A factory for `asyncio.Runner`."""
    return VirtualClockLoop()


class VirtualClock:
    """A `link.Clock` that reads an event loop's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, epoch: float = 1_800_000_000.0) -> None:
        """`epoch`: seconds since 1970 at the loop's time 0."""
        self._loop = loop
        self._epoch = epoch

    def monotonic(self) -> float:
        """The loop's seconds."""
        return self._loop.time()

    def time(self) -> float:
        """Seconds since the epoch."""
        return self._epoch + self._loop.time()
