"""How the dashboard looks, at the sizes and in the colours that are promised.

After a wanted change: `pytest tests/tui/test_snapshots.py --snapshot-update`, and look at the pictures.
"""

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from meshllm_tui.app import MeshApp
from tests.tui.conftest import make_app
from tests.tui.mesh_samples import meshed
from tests.tui.samples import ScriptedClient, bare

Compare = Callable[..., bool]


async def settle(pilot: Pilot[Any]) -> None:
    """Wait until the node's state is drawn."""
    app = pilot.app
    assert isinstance(app, MeshApp)
    for _ in range(500):
        if app.session.snapshot is not None:
            break
        await pilot.pause(0.01)
    await pilot.pause()


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_dark(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert snap_compare(make_app(ScriptedClient()), terminal_size=size, run_before=settle)


def test_light(snap_compare: Compare) -> None:
    app = make_app(ScriptedClient(), theme="meshllm-light")
    assert snap_compare(app, terminal_size=(120, 40), run_before=settle)


def test_no_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(make_app(ScriptedClient()), terminal_size=(120, 40), run_before=settle)


def test_empty(snap_compare: Compare) -> None:
    assert snap_compare(make_app(ScriptedClient(state=bare())), terminal_size=(80, 24), run_before=settle)


async def to_mesh(pilot: Pilot[Any]) -> None:
    """The mesh with the keyboard on its third row."""
    await settle(pilot)
    await pilot.press("g", "a", "j", "j")
    await pilot.pause()


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_mesh(snap_compare: Compare, size: tuple[int, int]) -> None:
    app = make_app(ScriptedClient(state=meshed()))
    assert snap_compare(app, terminal_size=size, run_before=to_mesh)


def test_mesh_light(snap_compare: Compare) -> None:
    app = make_app(ScriptedClient(state=meshed()), theme="meshllm-light")
    assert snap_compare(app, terminal_size=(120, 40), run_before=to_mesh)


def test_mesh_no_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = make_app(ScriptedClient(state=meshed()))
    assert snap_compare(app, terminal_size=(120, 40), run_before=to_mesh)
