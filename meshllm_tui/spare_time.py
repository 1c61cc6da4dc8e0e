"""What is done while nobody types: pages are read in before they are opened, and memory is looked through.

Python looks through all its objects now and then, which takes a tenth of a second here: a key that was
pressed at that moment would wait for it. So it is done in a pause between keys, and in the end in any case.
"""

import asyncio
import gc
import importlib
import time
from typing import Any

from textual import events
from textual.app import App

from meshllm_tui.actions.pages import PAGES
from meshllm_tui.screenshots import PicturedApp

LOOK_SECONDS = 1.0
PAUSE_SECONDS = 1.0
"""Without a key for so long, nobody is about to press the next."""
SELDOM_SECONDS, LATEST_SECONDS = 20.0, 120.0
"""Between two looks through memory: at least so long, and at most."""
_ROUNDS = 10
"""Collections of younger objects after which the old ones are worth a look; as many as Python takes."""
_NEVER = 1 << 30
_STEP_SECONDS = 0.05
SWITCH_SECONDS = 0.005
"""So long nothing is painted when another page comes up; Textual would wait for 50 ms."""


class SpareTime:
    """Begins with the app and ends with it; the collector is then as it was."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._touched = self._looked = time.monotonic()
        self._before: tuple[int, int, int] | None = None

    def begin(self) -> None:
        """After the first paint. What is there by then stays, so it is not looked through again."""
        self._before = gc.get_threshold()
        gc.set_threshold(self._before[0], self._before[1], _NEVER)
        gc.freeze()
        self._app.set_interval(LOOK_SECONDS, self._look)
        self._app.run_worker(self._read_pages(), group="spare", exit_on_error=False)

    def end(self) -> None:
        """Leave the process as it was."""
        if self._before is not None:
            gc.set_threshold(*self._before)
            gc.unfreeze()
            self._before = None

    def touched(self) -> None:
        """A key, or the mouse."""
        self._touched = time.monotonic()

    def _look(self) -> None:
        now = time.monotonic()
        since = now - self._looked
        if since < SELDOM_SECONDS or gc.get_count()[2] < _ROUNDS:
            return
        if now - self._touched >= PAUSE_SECONDS or since >= LATEST_SECONDS:
            self._looked = now
            gc.collect()

    async def _read_pages(self) -> None:
        """Each page's modules, one after the other, in a thread: keys go between."""
        for page in PAGES:
            await asyncio.sleep(_STEP_SECONDS)
            await asyncio.to_thread(
                importlib.import_module, f"meshllm_tui.pages.{page.made_by.partition(':')[0]}"
            )


class SparingApp(PicturedApp):
    """An app that uses its spare time, from its first paint to its end."""

    def on_mount(self) -> None:
        """Begin once something is on the screen."""
        self._spare_time = SpareTime(self)
        self.call_after_refresh(self._spare_time.begin)

    def on_unmount(self) -> None:
        """Leave the process as it was."""
        self._spare_time.end()

    def delay_update(self, delay: float = SWITCH_SECONDS) -> None:
        """Paint nothing for so many seconds, then all of it at once."""
        self._begin_batch()
        # Textual's timer of a few ms never comes when the process stands still as it is begun.
        asyncio.get_running_loop().call_later(min(delay, SWITCH_SECONDS), self.call_next, self._paint_again)

    def _paint_again(self) -> None:
        self._end_batch()
        if not self._batch_count:
            self.screen.refresh()
            # A screen that is new would wait for its first turn, another sixtieth of a second.
            self.screen._on_timer_update()

    async def on_event(self, event: events.Event) -> None:
        """Note that somebody is there."""
        if isinstance(event, events.InputEvent):
            self._spare_time.touched()
        await super().on_event(event)
