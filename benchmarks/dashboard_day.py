"""The dashboard without a terminal: a day of events as fast as it takes them, or a node of hostile names.

    python -m benchmarks.dashboard_day --hours 24
    python -m benchmarks.dashboard_day --hostile 200000

Session, fold, pages and frames are the real ones; the clock is the day's own. Prints one JSON object.
"""

import argparse
import asyncio
import gc
import json
import random
import sys
import time
import tracemalloc
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import psutil
from textual import events
from textual.pilot import Pilot

from benchmarks.dashboard_app import MeasuredApp
from benchmarks.dashboard_mesh import a_day, beginning, changing, hostile
from meshllm_core.api.client import ChatDelta
from meshllm_core.errors import InvalidRequest
from meshllm_core.state.events import AnyEvent, LoggedEvent
from meshllm_core.state.reduce import reduce
from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.actions.pages import PAGES
from meshllm_tui.bridge import Throttle
from meshllm_tui.session import NodeClient

T = TypeVar("T")
MEMBERS = 20
HOUR = 3600
DRAW_SECONDS = 120
"""Of the day, between two frames for certain."""
PAGE_SECONDS = 300
"""Of the day, that a page is looked at."""
URLS = ("http://127.0.0.1:9337", "http://127.0.0.1:3131")
KEYS = ("t", "down", "down", "up", "end", "home", "t", "2", "1", "g", "escape", "tab", "t")
ROUNDS = 5
KEY_SECONDS = 30.0
SIZE = (120, 40)


class Told:
    """Implements the dashboard's seam NodeClient: tells the events that it is given, does nothing."""

    def __init__(self, state: NodeSnapshot, *, folds: bool = True) -> None:
        self.state = state
        self.folds = folds
        self._queue: asyncio.Queue[LoggedEvent] = asyncio.Queue(maxsize=4096)

    async def tell(self, event: AnyEvent) -> None:
        """Something happened; waits while the dashboard is behind. Only numbered if not `folds`."""
        if self.folds:
            self.state = reduce(self.state, event)
        else:
            self.state = msgspec.structs.replace(self.state, sequence=self.state.sequence + 1)
        await self._queue.put(LoggedEvent(sequence=self.state.sequence, event=event))

    async def taken(self) -> None:
        """Returns when the dashboard has taken all of it."""
        await self._queue.join()

    async def snapshot(self) -> NodeSnapshot:
        """The node as it stands."""
        return self.state

    async def events(self, after: int) -> AsyncGenerator[LoggedEvent]:
        """What happens, as it happens."""
        while True:
            logged = await self._queue.get()
            if logged.sequence > after:
                yield logged
            self._queue.task_done()

    async def act(self, name: str, /, **arguments: Any) -> Mapping[str, Any]:
        """Nothing is done."""
        raise InvalidRequest(f"This node only tells; it does not {name}.", hint="Use a real one.")

    async def ask(self, name: str, kind: type[T], /, **arguments: Any) -> T:
        """Nothing is answered."""
        raise InvalidRequest(f"This node only tells; it does not answer {name}.", hint="Use a real one.")

    async def chat_stream(self, messages: Sequence[dict[str, str]], model: str) -> AsyncGenerator[ChatDelta]:
        """Nobody chats."""
        raise InvalidRequest("This node only tells.", hint="Use a real one.")
        yield

    async def close(self) -> None:
        """There is nothing to give back."""


class Day:
    """The day's own clock, in seconds since the epoch."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def wall(self) -> float:
        """Now."""
        return self.now


def _app(node: Told, clock: Day) -> MeasuredApp:
    async def open_node() -> NodeClient:
        return node

    return MeasuredApp(open_node, wall=clock.wall)


def _started(members: int, at: float) -> NodeSnapshot:
    state = NodeSnapshot()
    for event in beginning(members, at, URLS, 4711):
        state = reduce(state, event)
    return state


async def a_days_memory(hours: int) -> dict[str, Any]:
    """What the process holds after each hour: traced by Python, and resident; in bytes."""
    clock = Day()
    start, began, told = clock.now, time.monotonic(), 0
    node = Told(_started(MEMBERS, start))
    app = _app(node, clock)
    # A frame for each piece of the day, however fast the day goes.
    app._throttle = Throttle(app._pass_on, interval=0.005)
    app.session._changed = app._throttle.poke
    frames = 0
    traced: list[int] = []
    resident: list[int] = []
    tracemalloc.start(1)
    async with app.run_test(size=SIZE) as pilot:
        await _live(app, pilot)
        for now, happened in a_day(MEMBERS, start):
            second = int(now - start)
            if second >= hours * HOUR:
                break
            clock.now = now
            for event in happened:
                await node.tell(event)
                told += 1
            if second % PAGE_SECONDS == 0:
                await app.open(PAGES[second // PAGE_SECONDS % len(PAGES)].name)
            if second % DRAW_SECONDS == 0:
                await node.taken()
                await pilot.pause()
                await asyncio.sleep(0.006)
                frames += len(app.notes.frames)
                app.notes.frames.clear()
                app.notes.lags.clear()
            if second % HOUR == 0:
                await _hold(app, pilot, traced, resident)
        await _hold(app, pilot, traced, resident)
    seconds = time.monotonic() - began
    held = {"traced": traced, "resident": resident}
    return {"events": told, "frames": frames, "seconds": round(seconds, 1), "hours": held}


async def _hold(app: MeasuredApp, pilot: Pilot[int], traced: list[int], resident: list[int]) -> None:
    """The same page is open each time: pages differ in what they hold while they are shown."""
    await app.open(PAGES[0].name)
    await pilot.pause()
    gc.collect()
    traced.append(tracemalloc.get_traced_memory()[0])
    resident.append(psutil.Process().memory_info().rss)


async def _live(app: MeasuredApp, pilot: Pilot[int]) -> None:
    while app.session.link != "live":
        await pilot.pause(0.01)
    await pilot.pause()


async def hostile_names(names: int) -> dict[str, Any]:
    """Keys on the page of the mesh: the snapshot holds so many members, and one member so many models."""
    clock = Day()
    state = _started(200, clock.now)
    evil = tuple(hostile(names, 1_000_000))
    node = Told(msgspec.structs.replace(state, peers=(*evil, *state.peers)), folds=False)
    app, chance = _app(node, clock), random.Random(3)
    first: list[float] = []
    found: list[float] = []
    async with app.run_test(size=SIZE) as pilot:
        await _live(app, pilot)
        feeding = asyncio.create_task(_change(node, clock, chance))
        app.page.go("mesh")
        await asyncio.sleep(1)
        for turn in range(ROUNDS):
            for key in KEYS:
                took = await _pressed(app, key)
                # The first time a page or the table is made; the others are what a person presses all day.
                (found if turn else first).append(took)
                await asyncio.sleep(0.1)
        words = _words(app)
        feeding.cancel()
    kept = {"first_ms": first, "keys_ms": found}
    return {**{name: [ms for ms in values if ms >= 0] for name, values in kept.items()}, "words": words}


async def _change(node: Told, clock: Day, chance: random.Random) -> None:
    """Twenty times a second the mesh is another one; not by the fold, which would not let so many in."""
    while True:
        await asyncio.sleep(0.05)
        clock.now += 0.05
        row = next(changing(200, clock.now, chance, 1))
        await node.tell(row)


async def _pressed(app: MeasuredApp, key: str) -> float:
    """Milliseconds until what a key did was painted; -1 where it did nothing."""
    before, at = app.state_of_keys(), time.monotonic()
    app.notes.frames.clear()
    pressed = events.Key(key, key if len(key) == 1 else None)
    pressed.set_sender(app)
    app.post_message(pressed)
    while time.monotonic() - at < KEY_SECONDS:
        shown = next((each for each in app.notes.frames if each.whole and each.state != before), None)
        if shown is not None:
            return 1000 * (shown.at - at)
        if time.monotonic() - at > 1 and app.state_of_keys() == before:
            return -1.0
        await asyncio.sleep(0.001)
    return 1000 * KEY_SECONDS


def _words(app: MeasuredApp) -> str:
    shown = "\n".join(
        "".join(part.text for part in strip) for strip in app.screen._compositor.render_strips()
    )
    return next((line.strip(" │╯╰─┃━") for line in shown.splitlines() if "listed" in line), "")


def main() -> None:
    """Measures one of both and prints it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard_day")
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--hostile", type=int, default=0, metavar="NAMES")
    options = parser.parse_args()
    measured = hostile_names(options.hostile) if options.hostile else a_days_memory(options.hours)
    sys.stdout.write(json.dumps(asyncio.run(measured)) + "\n")


if __name__ == "__main__":
    main()
