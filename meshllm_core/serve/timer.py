"""A timer that is put off with every sign of life, thousands of times a second if need be."""

import asyncio
from collections.abc import Callable


class IdleTimer:
    """Calls back when an interval has passed since it was last restarted, at the price of a clock reading."""

    def __init__(self, interval: float, callback: Callable[[], None]) -> None:
        """`interval` is in seconds. Belongs to the running loop."""
        self.interval = interval
        """May be changed; it holds from the next restart."""
        self._loop = asyncio.get_running_loop()
        self._callback = callback
        self.due = False
        self.restart()
        self._handle = self._loop.call_at(self._deadline, self._ring)

    def restart(self) -> None:
        """Something happened: the interval begins anew."""
        self.due = False
        self._deadline = self._loop.time() + self.interval

    def cancel(self) -> None:
        """No more calls."""
        self._handle.cancel()

    def _ring(self) -> None:
        now = self._loop.time()
        if now >= self._deadline:
            self.due = True
            self._deadline = now + self.interval
            self._callback()
        self._handle = self._loop.call_at(self._deadline, self._ring)
