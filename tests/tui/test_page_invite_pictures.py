"""How the page of invites looks.

After a wanted change: `pytest tests/tui/test_page_invite_pictures.py --snapshot-update`; look at them.
"""

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from meshllm_core.state import events as ev
from meshllm_core.state import mesh_events as mesh
from meshllm_tui.app import MeshApp
from meshllm_tui.palettes import DEFAULT_THEME
from meshllm_tui.screens.invite_code import CodeScreen
from tests.tui.conftest import make_app
from tests.tui.mesh_samples import DAY, TOKEN, founded, invite, invites, joined, joining, meshed, peer
from tests.tui.page_pictures import Compare, page
from tests.tui.samples import START, ScriptedClient, bare

SIZES = [(60, 20), (80, 24), (120, 40)]
MADE = {"token": TOKEN, "id": "3f9a12bc04", "role": "host", "uses": 1, "expires_at": START + DAY}
ROWS = (
    invite(),
    invite("77aa00bb11", uses=3, used=2, used_by=("cellar", "attic"), created_at=START),
    invite("0badc0ffee", role="client", uses=0, used=4, used_by=("a", "b", "c", "d"), expires_at=0.0),
    invite("1122334455", used=1, used_by=("garage",), state="used_up"),
    invite("5566778899", state="expired"),
)


def app_of(theme: str = DEFAULT_THEME) -> MeshApp:
    """A node that makes invites."""
    client = ScriptedClient(state=meshed())
    client.answers["invite"] = MADE
    client.effects["invite"] = (invites(*ROWS),)
    return make_app(client, theme=theme)


def made(*keys: str) -> Callable[[Pilot[Any]], Any]:
    """Make an invite, wait for its code, press keys."""
    opened = page("6", "enter")

    async def run(pilot: Pilot[Any]) -> None:
        await opened(pilot)
        for _ in range(500):
            screen = pilot.app.screen
            if isinstance(screen, CodeScreen) or screen.query_one("#invite-words").display:
                break
            await pilot.pause(0.01)
        await pilot.pause(0.3)
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.3)

    return run


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_form(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert snap_compare(app_of(), terminal_size=size, run_before=page("6"))


def test_code_over_the_screen(snap_compare: Compare) -> None:
    assert snap_compare(app_of(), terminal_size=(80, 24), run_before=made())


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_made(snap_compare: Compare, size: tuple[int, int]) -> None:
    keys = ("tab",) if size[0] == 120 else ("escape", "tab")
    assert snap_compare(app_of(), terminal_size=size, run_before=made(*keys))


def test_made_light(snap_compare: Compare) -> None:
    assert snap_compare(app_of("meshllm-light"), terminal_size=(120, 40), run_before=made())


def test_made_no_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(app_of(), terminal_size=(120, 40), run_before=made("escape"))


WHY = "192.168.1.30:9440 and 10.0.0.5:9440 do not answer"
FAILED = mesh.JoinEnded(
    at=START + 199,
    joined=False,
    message="No member of the mesh could be reached.",
    hint="Check that attic runs and is in the same network; a firewall must let UDP port 9440 in.",
)
JOINED = mesh.JoinEnded(at=START + 199, joined=True, message="This node is in the mesh home.", hint="")
PASSED = (*joining(), *founded(founder=False), *joined(peer("attic")), JOINED)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_join_box(snap_compare: Compare, size: tuple[int, int]) -> None:
    app = make_app(ScriptedClient(state=bare()))
    assert snap_compare(app, terminal_size=size, run_before=page("J"))


@pytest.mark.parametrize("happened", [(*joining(2, WHY), FAILED), PASSED], ids=["failed", "passed"])
def test_join(snap_compare: Compare, happened: tuple[ev.AnyEvent, ...]) -> None:
    client = ScriptedClient(state=bare())
    client.effects["join"] = happened
    opened = page("J")

    async def join(pilot: Pilot[Any]) -> None:
        await opened(pilot)
        pilot.app.screen.query_one(Input).value = TOKEN
        await pilot.press("enter")
        for _ in range(500):
            if pilot.app.screen.query_one("#join-steps").display and client.queue.empty():
                break
            await pilot.pause(0.01)
        await pilot.pause(0.3)

    assert snap_compare(make_app(client), terminal_size=(80, 24), run_before=join)
