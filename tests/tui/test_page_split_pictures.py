"""How the pages of splits and of the planner look.

After a wanted change: `pytest tests/tui/test_page_split_pictures.py --snapshot-update`; look at them.
"""

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from meshllm_tui.app import MeshApp
from tests.tui.conftest import make_app
from tests.tui.plan_samples import replies
from tests.tui.samples import ScriptedClient
from tests.tui.test_snapshots import settle
from tests.tui.test_split import spread

Compare = Callable[..., bool]
SIZES = [(60, 20), (80, 24), (120, 40)]


def app_of(*, done: bool = False, theme: str = "meshllm-dark") -> MeshApp:
    """A node with a split, and a planner that answers."""
    return make_app(ScriptedClient(state=spread(done=done), replies=replies()), theme=theme)


def opened(*keys: str) -> Callable[[Pilot[Any]], Any]:
    """Press keys once the node is known, and let what they ask be answered."""

    async def press(pilot: Pilot[Any]) -> None:
        await settle(pilot)
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.5)

    return press


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_split(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert snap_compare(app_of(done=size[0] == 120), terminal_size=size, run_before=opened("3"))


def test_split_light(snap_compare: Compare) -> None:
    assert snap_compare(app_of(theme="meshllm-light"), terminal_size=(120, 40), run_before=opened("3"))


def test_split_no_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(app_of(), terminal_size=(80, 24), run_before=opened("3", "tab"))


def test_split_hosted(snap_compare: Compare) -> None:
    assert snap_compare(app_of(), terminal_size=(80, 24), run_before=opened("3", "j", "j"))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_planner(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert snap_compare(app_of(), terminal_size=size, run_before=opened("4"))


def test_planner_supposed_light(snap_compare: Compare) -> None:
    keys = opened("4", "down", "right", "right", "right", "tab", "j")
    assert snap_compare(app_of(theme="meshllm-light"), terminal_size=(120, 40), run_before=keys)


def test_planner_no_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(app_of(), terminal_size=(120, 40), run_before=opened("4", "tab"))


def test_planner_refusal(snap_compare: Compare) -> None:
    assert snap_compare(app_of(), terminal_size=(80, 24), run_before=opened("4", "left"))


def test_planner_launch(snap_compare: Compare) -> None:
    assert snap_compare(app_of(), terminal_size=(80, 24), run_before=opened("4", "L"))
