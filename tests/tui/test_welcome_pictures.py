"""How the questions of the first run look.

After a wanted change: `pytest tests/tui/test_welcome_pictures.py --snapshot-update`; look at them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from meshllm_tui.app import MeshApp
from meshllm_tui.palettes import DEFAULT_THEME
from meshllm_tui.screens.welcome import WelcomeScreen
from tests.tui.conftest import make_app
from tests.tui.page_pictures import Compare
from tests.tui.test_welcome import fresh

SIZES = [(60, 20), (80, 24), (120, 40)]


def app_of(tmp_path: Path, theme: str = DEFAULT_THEME) -> MeshApp:
    """A node that was never set up."""
    return make_app(fresh(), theme=theme, welcome_marker=tmp_path / "seen")


def pressed(*keys: str) -> Callable[[Pilot[Any]], Any]:
    """Wait for the questions, press keys."""

    async def run(pilot: Pilot[Any]) -> None:
        for _ in range(500):
            if isinstance(pilot.app.screen, WelcomeScreen):
                break
            await pilot.pause(0.01)
        await pilot.pause(0.3)
        for key in keys:
            await pilot.press(key)
        await pilot.pause(0.3)

    return run


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_name(snap_compare: Compare, tmp_path: Path, size: tuple[int, int]) -> None:
    assert snap_compare(app_of(tmp_path), terminal_size=size, run_before=pressed())


def test_memory(snap_compare: Compare, tmp_path: Path) -> None:
    assert snap_compare(app_of(tmp_path), terminal_size=(80, 24), run_before=pressed("enter"))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_model(snap_compare: Compare, tmp_path: Path, size: tuple[int, int]) -> None:
    keys = pressed("enter", "enter", "down")
    assert snap_compare(app_of(tmp_path), terminal_size=size, run_before=keys)


def test_mesh_light(snap_compare: Compare, tmp_path: Path) -> None:
    keys = pressed("enter", "enter", "enter")
    assert snap_compare(app_of(tmp_path, "meshllm-light"), terminal_size=(80, 24), run_before=keys)


def test_done_no_colour(snap_compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    keys = pressed("end", "x", "enter", "down", "enter", "down", "enter", "down", "enter")
    assert snap_compare(app_of(tmp_path), terminal_size=(80, 24), run_before=keys)
