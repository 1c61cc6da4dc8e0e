"""A dashboard over a scripted node: fixed size, fixed clock, no animation."""

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from meshllm_tui.app import MeshApp
from meshllm_tui.palettes import DEFAULT_THEME
from meshllm_tui.preferences import Preferences
from meshllm_tui.screens.jump import LETTERS
from meshllm_tui.session import NodeClient
from tests.tui.samples import START, ScriptedClient

NOW = START + 200.0


@dataclass
class Screen:
    """A running dashboard, the node behind it and the hand on its keys."""

    app: MeshApp
    client: ScriptedClient
    pilot: Pilot[int]

    async def press(self, *keys: str) -> None:
        """Press keys and let what they cause happen."""
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def to(self, pane: str) -> None:
        """Jump to a pane of the open page by its letter."""
        await self.press("g", LETTERS[self.app.page.PANES.index(pane)])

    async def until(self, true: Callable[[], bool], seconds: float = 5.0) -> None:
        """Wait for something. Fails when it does not come."""
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, f"did not come true:\n{self.text}"
            await self.pilot.pause(0.01)

    @property
    def text(self) -> str:
        """What is on the screen, as text."""
        return "\n".join("".join(segment.text for segment in strip) for strip in self.strips())

    def strips(self) -> list[Any]:
        """The lines on the screen as styled segments, as the compositor makes them."""
        return list(self.app.screen._compositor.render_strips())

    @property
    def toasts(self) -> list[str]:
        """Texts of the notices that are shown."""
        return [each.message for each in self.app._notifications]

    @property
    def copied(self) -> str:
        """What was copied last."""
        return self.app.clipboard


@contextlib.asynccontextmanager
async def dashboard(
    client: ScriptedClient | None = None,
    *,
    size: tuple[int, int] = (120, 40),
    theme: str = DEFAULT_THEME,
    started_by_us: bool = False,
    settled: bool = True,
    decode_picture: Callable[[Path], str] | None = None,
    scan_camera: Callable[[Callable[[], bool]], str] | None = None,
    welcome_marker: Path | None = None,
    chats_file: Path | None = None,
    preferences: Preferences | None = None,
) -> AsyncIterator[Screen]:
    """A dashboard that has heard of its node, when there is one."""
    node = client or ScriptedClient()
    app = make_app(
        node,
        theme=theme,
        started_by_us=started_by_us,
        decode_picture=decode_picture,
        scan_camera=scan_camera,
        welcome_marker=welcome_marker,
        chats_file=chats_file,
        preferences=preferences,
    )
    async with app.run_test(size=size) as pilot:
        screen = Screen(app, node, pilot)
        if settled and node.state is not None:
            await screen.until(lambda: app.session.snapshot is not None)
            await pilot.pause()
        yield screen


def make_app(
    client: ScriptedClient,
    *,
    theme: str = DEFAULT_THEME,
    started_by_us: bool = False,
    decode_picture: Callable[[Path], str] | None = None,
    scan_camera: Callable[[Callable[[], bool]], str] | None = None,
    welcome_marker: Path | None = None,
    chats_file: Path | None = None,
    preferences: Preferences | None = None,
) -> MeshApp:
    """A dashboard that is not yet running."""

    async def open_node() -> NodeClient:
        return client

    return MeshApp(
        open_node,
        preferences=preferences or Preferences(theme=theme),
        started_by_us=started_by_us,
        decode_picture=decode_picture,
        scan_camera=scan_camera,
        welcome_marker=welcome_marker,
        chats_file=chats_file,
        wall=lambda: NOW,
    )


@pytest.fixture(autouse=True)
def _fixed_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times in the log are the same wherever the tests run."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
