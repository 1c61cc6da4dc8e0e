"""How the mesh page looks: drawn, as a table, with somebody waiting, and before there is a mesh.

After a wanted change: `pytest tests/tui/test_page_mesh_pictures.py --snapshot-update`; look at the pictures.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from textual.pilot import Pilot

from meshllm_core.state import mesh_events as mesh
from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.app import MeshApp
from meshllm_tui.screens.jump import LETTERS
from tests.tui.conftest import make_app
from tests.tui.mesh_samples import PEERS, many, meshed, node_id, peer
from tests.tui.samples import START, ScriptedClient, bare, fold

Compare = Callable[..., bool]
SIZES = [(60, 20), (80, 24), (120, 40)]


def pressing(*keys: str) -> Callable[[Pilot[Any]], Coroutine[Any, Any, None]]:
    """Waits for the node, goes to the mesh, presses keys."""

    async def run(pilot: Pilot[Any]) -> None:
        app = pilot.app
        assert isinstance(app, MeshApp)
        for _ in range(500):
            if app.session.snapshot is not None:
                break
            await pilot.pause(0.01)
        await pilot.pause()
        await pilot.press("g", LETTERS[app.page.PANES.index("mesh")], *keys)
        await pilot.pause(0.05)

    return run


def everything() -> NodeSnapshot:
    """Members of every kind: one paused, one blocked; somebody waits; this node's lending is paused."""
    rows = (*PEERS, peer("shed", lending_paused=True, models=()), peer("stranger"))
    waits = mesh.WaitingRow(
        node=node_id("barn"),
        name="barn",
        address="192.168.1.77:9440",
        role="host",
        since=START,
        invite="3f9a12bc04",
    )
    return fold(
        mesh.BlocksChanged(at=START + 90, nodes=(node_id("stranger"),)),
        mesh.WaitingChanged(at=START + 90, waiting=(waits,)),
        mesh.LendingChanged(at=START + 91, paused=True),
        snapshot=meshed(*rows),
    )


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_mesh(snap_compare: Compare, size: tuple[int, int]) -> None:
    app = make_app(ScriptedClient(state=everything()))
    assert snap_compare(app, terminal_size=size, run_before=pressing("j", "j"))


def test_light(snap_compare: Compare) -> None:
    app = make_app(ScriptedClient(state=everything()), theme="meshllm-light")
    assert snap_compare(app, terminal_size=(120, 40), run_before=pressing("j", "j"))


def test_no_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = make_app(ScriptedClient(state=everything()))
    assert snap_compare(app, terminal_size=(120, 40), run_before=pressing("j", "j"))


def test_table(snap_compare: Compare) -> None:
    app = make_app(ScriptedClient(state=everything()))
    assert snap_compare(app, terminal_size=(200, 50), run_before=pressing("t", "j", "j"))


def test_many(snap_compare: Compare) -> None:
    app = make_app(ScriptedClient(state=meshed(*many(60))))
    assert snap_compare(app, terminal_size=(200, 50), run_before=pressing("j"))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_alone(snap_compare: Compare, size: tuple[int, int]) -> None:
    app = make_app(ScriptedClient(state=bare()))
    assert snap_compare(app, terminal_size=size, run_before=pressing())
