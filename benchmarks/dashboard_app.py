"""The dashboard as it is, and a note of each frame that it paints: when, and what the keys had done by then.

    python -m benchmarks.dashboard_app CONSOLE_URL API_URL TOKEN_FILE NOTES_FILE

Runs on the terminal that it is given. The notes are lines of JSON, written at the end.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path, PurePath
from typing import Any, ClassVar, cast

import msgspec
from rich.console import RenderableType
from textual._compositor import LayoutUpdate
from textual.screen import Screen

import meshllm_tui
from meshllm_tui.app import MeshApp
from meshllm_tui.connect import open_client
from meshllm_tui.pages.page import Page
from meshllm_tui.session import NodeClient

LAG_STEP = 0.01
"""Seconds between two looks at how late the event loop is."""


class Frame(msgspec.Struct, frozen=True):
    """One frame: its end on the monotonic clock, what keys had done to the screen, whether that is in it."""

    at: float
    state: tuple[str, ...]
    whole: bool
    """The frame has the widget with the keyboard, or all of a new layout; else it is of other widgets."""


class Notes(msgspec.Struct):
    """Everything that was noted."""

    frames: list[Frame]
    lags: list[float]
    """Seconds by which the event loop woke up too late, once each LAG_STEP."""


class MeasuredApp(MeshApp):
    """Notes its frames; everything else is the dashboard's."""

    CSS_PATH: ClassVar[str | PurePath | list[str | PurePath] | None] = [
        Path(meshllm_tui.__file__).parent / str(path) for path in cast("list[str]", MeshApp.CSS_PATH)
    ]

    def __init__(self, open_node: Callable[[], Awaitable[NodeClient]], **others: Any) -> None:
        super().__init__(open_node, **others)
        self.notes = Notes([], [])

    def on_mount(self) -> None:
        """Watches the event loop too."""
        self.run_worker(self._watch(), group="lag")

    async def _watch(self) -> None:
        while True:
            due = time.monotonic() + LAG_STEP
            await asyncio.sleep(LAG_STEP)
            self.notes.lags.append(time.monotonic() - due)

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        focused = self.focused
        dirty = screen._dirty_widgets
        whole = isinstance(renderable, LayoutUpdate) or focused is None or not dirty
        whole = whole or any(widget in dirty for widget in focused.ancestors_with_self) if focused else True
        super()._display(screen, renderable)
        if renderable is not None and not self._batch_count:
            self.notes.frames.append(Frame(time.monotonic(), self.state_of_keys(), whole))

    def state_of_keys(self) -> tuple[str, ...]:
        """What keys change: the page, what lies over it, where the keyboard is, and how far it went there."""
        if not self.screen_stack:
            return ()
        base, top, focused = self.screen_stack[0], self.screen, self.focused
        page = base.NAME if isinstance(base, Page) else ""
        if focused is None:
            return page, type(top).__name__
        inside = [
            str(getattr(focused, name, ""))
            for name in ("highlighted", "chosen", "cursor_location", "scroll_y")
        ]
        return page, type(top).__name__, str(focused.id), *inside


def main() -> None:
    """Runs on this terminal until it is quit."""
    console_url, api_url, token_file, notes_file = sys.argv[1:5]
    app = MeasuredApp(partial(open_client, console_url, api_url, Path(token_file)))
    app.run()
    Path(notes_file).write_bytes(msgspec.json.encode(app.notes))


if __name__ == "__main__":
    main()
