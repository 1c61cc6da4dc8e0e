"""How the dashboard looks, at the sizes and in the colours that are promised.

After a wanted change: `pytest tests/tui/test_snapshots.py --snapshot-update`, and look at the pictures.
"""

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from meshllm_core.state import events as ev
from meshllm_core.state import mesh_events as mesh
from meshllm_tui.app import MeshApp
from meshllm_tui.screens.invite_code import CodeScreen
from meshllm_tui.screens.join import JoinScreen
from tests.tui.conftest import make_app
from tests.tui.mesh_samples import DAY, TOKEN, founded, invite, invites, joined, joining, meshed, peer
from tests.tui.samples import START, ScriptedClient, bare

Compare = Callable[..., bool]


async def settle(pilot: Pilot[Any]) -> None:
    """Wait until the node's state is drawn."""
    app = pilot.app
    assert isinstance(app, MeshApp)
    for _ in range(500):
        if app.home._view.snapshot is not None:
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
    await pilot.press("5", "j", "j")
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


def test_invite_code(snap_compare: Compare) -> None:
    client = ScriptedClient(state=meshed())
    client.answers["invite"] = {
        "token": TOKEN,
        "id": "3f9a12bc04",
        "role": "host",
        "uses": 1,
        "expires_at": START + DAY,
    }
    client.effects["invite"] = (invites(invite()),)

    async def show(pilot: Pilot[Any]) -> None:
        await settle(pilot)
        await pilot.press("v", "enter")
        for _ in range(500):
            if isinstance(pilot.app.screen, CodeScreen) and pilot.app.screen.query_one("#code").display:
                break
            await pilot.pause(0.01)
        await pilot.pause()

    assert snap_compare(make_app(client), terminal_size=(80, 24), run_before=show)


WHY = "192.168.1.30:9440 and 10.0.0.5:9440 do not answer"
FAILED = mesh.JoinEnded(
    at=START + 199,
    joined=False,
    message="No member of the mesh could be reached.",
    hint="Check that attic runs and is in the same network; a firewall must let UDP port 9440 in.",
)
JOINED = mesh.JoinEnded(at=START + 199, joined=True, message="This node is in the mesh home.", hint="")
PASSED = (*joining(), *founded(founder=False), *joined(peer("attic")), JOINED)


@pytest.mark.parametrize("happened", [(*joining(2, WHY), FAILED), PASSED], ids=["failed", "passed"])
def test_join(snap_compare: Compare, happened: tuple[ev.AnyEvent, ...]) -> None:
    client = ScriptedClient(state=bare())
    client.effects["join"] = happened

    async def join(pilot: Pilot[Any]) -> None:
        await settle(pilot)
        await pilot.press("J")
        pilot.app.screen.query_one(Input).value = TOKEN
        await pilot.press("enter")
        for _ in range(500):
            screen = pilot.app.screen
            assert isinstance(screen, JoinScreen)
            if screen.query_one("#join-steps").display and client.queue.empty():
                break
            await pilot.pause(0.01)
        await pilot.pause(0.3)

    assert snap_compare(make_app(client), terminal_size=(80, 24), run_before=join)
