"""From many calls to few: however often something changes, it is passed on at most ten times a second."""

import asyncio
from collections.abc import Callable

REPAINT_SECONDS = 0.1
"""Shortest time between two repaints of what the node sends."""


class Throttle:
    """Calls `send` soon after `poke`, the first time at once, then at most every `interval` seconds.

    Must be used on the event loop's thread.
    """

    def __init__(self, send: Callable[[], None], interval: float = REPAINT_SECONDS) -> None:
        self._send = send
        self._interval = interval
        self._last = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def poke(self) -> None:
        """Something changed."""
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        wait = self._last + self._interval - loop.time()
        if wait <= 0:
            self._fire()
        else:
            self._timer = loop.call_later(wait, self._fire)

    def stop(self) -> None:
        """Forget a call that is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._last = asyncio.get_running_loop().time()
        self._send()
