"""What is done with the mesh from its pane: let in, remove, block, list, leave; and pausing lending."""

from functools import partial

import pytest
from textual.widgets import Input

from meshllm_core.errors import NodeError, NotPermitted
from meshllm_core.state import mesh_events as mesh
from meshllm_tui.actions.action import ANYWHERE
from meshllm_tui.actions.registry import actions_of
from meshllm_tui.pages.mesh import MeshPage
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.public import PublicScreen
from meshllm_tui.widgets.mesh_pane import MeshPane
from tests.tui.conftest import Screen, dashboard
from tests.tui.mesh_samples import meshed, node_id
from tests.tui.samples import START, ScriptedClient, bare


def node_of(*rows: mesh.PeerRow) -> ScriptedClient:
    return ScriptedClient(state=meshed(*rows))


def shows(screen: Screen, words: str) -> bool:
    return words in screen.text


def pane(screen: Screen) -> MeshPane:
    return screen.app.home.query_one(MeshPane)


async def test_pausing_lending_is_one_key_on_any_page() -> None:
    client = node_of()
    client.effects["lending"] = [mesh.LendingChanged(at=START + 99, paused=True)]
    async with dashboard(client) as screen:
        await screen.press("p")
        await screen.until(lambda: "‖ lending paused" in screen.text.splitlines()[0])
        assert client.acted == [("lending", {"on": False})]
        client.effects["lending"] = [mesh.LendingChanged(at=START + 99, paused=False)]
        await screen.press("7", "escape", "p")
        await screen.until(lambda: "‖ lending paused" not in screen.text.splitlines()[0])
        assert client.acted[-1] == ("lending", {"on": True})
        await screen.until(lambda: "This machine lends again." in screen.toasts)


async def test_a_refused_pause_is_told() -> None:
    client = node_of()
    client.refusal = NodeError("This node is a client: it computes nothing for others anyway.")
    async with dashboard(client) as screen:
        await screen.press("p")
        await screen.until(lambda: any("is a client" in toast for toast in screen.toasts))


async def test_blocking_asks_first_and_unblocking_does_not() -> None:
    client = node_of()
    client.effects["block"] = [mesh.BlocksChanged(at=START + 99, nodes=(node_id("attic"),))]
    async with dashboard(client) as screen:
        await screen.to("mesh")
        await screen.press("b")
        assert isinstance(screen.app.screen, MeshPage), "this node cannot be blocked"
        await screen.press("j", "b")
        assert "Block attic?" in screen.text
        await screen.press("enter")
        assert client.acted == []
        await screen.press("b", "right", "enter")
        await screen.until(lambda: "⊘ attic" in screen.text)
        assert client.acted == [("block", {"node": node_id("attic")})]
        for key in ("enter", "t"):
            await screen.press(key)
            await screen.until(lambda: "blocked here: b talks to it again" in screen.text)
            await screen.press("escape")
        await screen.press("b")
        await screen.until(lambda: len(client.acted) == 2)
        assert client.acted[-1] == ("unblock", {"node": node_id("attic")})


async def test_who_waits_is_let_in_or_not_after_a_question() -> None:
    rows = tuple(
        mesh.WaitingRow(
            node=node_id(name),
            name=name,
            address="192.168.1.77:9440",
            role="host",
            since=START,
            invite="3f9a12bc04",
        )
        for name in ("barn", "boat")
    )
    client = node_of()
    client.effects["refuse"] = [mesh.WaitingChanged(at=START + 99, waiting=rows[1:])]
    client.effects["approve"] = [mesh.WaitingChanged(at=START + 99, waiting=())]
    async with dashboard(client) as screen:
        assert not pane(screen).check_action("admit", ())
        client.happen(mesh.WaitingChanged(at=START + 90, waiting=rows))
        await screen.until(
            lambda: "? barn (6261726e) asks to come in as host, and 1 more: a decides" in screen.text
        )
        assert "? 2 machines waiting to be let in" in screen.text.splitlines()[0]
        await screen.to("mesh")
        await screen.press("a")
        assert node_id("barn")[:32] in screen.text
        assert node_id("barn")[32:] in screen.text
        await screen.press("enter")
        assert client.acted == []
        await screen.press("a", "right", "enter")
        await screen.until(lambda: "? boat" in screen.text)
        assert client.acted == [("refuse", {"node": node_id("barn")})]
        await screen.pilot.click("#mesh-waiting")
        await screen.pilot.pause()
        await screen.press("right", "right", "enter")
        await screen.until(lambda: "asks to come in" not in screen.text)
        assert client.acted[-1] == ("approve", {"node": node_id("boat")})


async def test_every_action_of_the_pane_works_from_the_palette() -> None:
    client = node_of()
    client.answers["revoke"] = {"revoked": ["attic"], "done": False}
    async with dashboard(client) as screen:
        await screen.to("mesh")
        await screen.press("j")
        by_method = {action.method: action for action in actions_of("mesh", ANYWHERE)}
        for method, words in (
            ("block", "Block attic?"),
            ("public", "List this mesh publicly?"),
            ("revoke", "Revoke attic?"),
            ("leave_mesh", "Leave the mesh home?"),
            ("details", "Addresses it tells"),
        ):
            await screen.app.perform(by_method[method])
            await screen.until(partial(shows, screen, words))
            await screen.press("escape")
        await screen.app.perform(by_method["copy"])
        assert screen.copied == node_id("attic")
        await screen.app.perform(by_method["table"])
        await screen.until(lambda: "● alive" in screen.text)


async def test_revoking_asks_the_node_who_goes_then_the_person() -> None:
    client = node_of()
    client.answers["revoke"] = {"revoked": ["attic", "cellar", "garage"], "done": False}
    async with dashboard(client) as screen:
        await screen.to("mesh")
        await screen.press("j", "x")
        await screen.until(lambda: isinstance(screen.app.screen, AskScreen))
        await screen.pilot.pause()
        assert "they go with it: cellar, garage." in screen.text
        assert client.acted == [("revoke", {"target": node_id("attic"), "confirm": False})]
        await screen.press("escape", "x")
        await screen.until(lambda: isinstance(screen.app.screen, AskScreen))
        await screen.press("right", "enter")
        await screen.until(lambda: len(client.acted) == 3)
        assert client.acted[-1] == ("revoke", {"target": node_id("attic"), "confirm": True})
        await screen.until(lambda: "Revoked attic and 2 that it let in." in screen.toasts)


async def test_a_revocation_that_is_not_allowed_is_told_at_once() -> None:
    client = node_of()
    client.refusal = NotPermitted("This node may not revoke attic.", hint="Ask workshop.")
    async with dashboard(client) as screen:
        await screen.to("mesh")
        await screen.press("j", "x")
        await screen.until(lambda: any("may not revoke attic" in toast for toast in screen.toasts))
        assert isinstance(screen.app.screen, MeshPage)


async def test_only_a_member_that_is_gone_can_be_forgotten() -> None:
    async with dashboard(node_of()) as screen:
        await screen.to("mesh")
        await screen.press("j", "d")
        assert isinstance(screen.app.screen, MeshPage)
        assert not pane(screen).check_action("forget", ())
        await screen.press("end")
        await screen.press("d", "right", "enter")
        await screen.until(lambda: bool(screen.client.acted))
        assert screen.client.acted == [("forget", {"node": node_id("laptop")})]


async def test_leaving_the_mesh_asks_first() -> None:
    async with dashboard(node_of()) as screen:
        await screen.to("mesh")
        await screen.press("L")
        assert "Leave the mesh home?" in screen.text
        await screen.press("enter")
        assert screen.client.acted == []
        await screen.press("L", "right", "enter")
        await screen.until(lambda: screen.client.acted == [("leave", {})])
    async with dashboard(ScriptedClient(state=bare())) as screen:
        await screen.to("mesh")
        await screen.press("L", "P")
        assert isinstance(screen.app.screen, MeshPage)
        assert ["in no mesh" in toast for toast in screen.toasts] == [True]


@pytest.mark.parametrize("page", ["1", "2", "3", "9"])
async def test_public_is_one_key_wherever_a_person_is(page: str) -> None:
    async with dashboard(node_of()) as screen:
        await screen.press(page, "P")
        await screen.until(lambda: isinstance(screen.app.screen, PublicScreen))


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)], ids=str)
async def test_what_becomes_visible_is_what_is_seen_first(size: tuple[int, int]) -> None:
    async with dashboard(node_of(), size=size) as screen:
        await screen.press("P")
        await screen.pilot.pause(0.2)
        shown = screen.text
        assert "Anyone on the internet can then see" in shown, shown
        assert "This machine" in shown
        await screen.press("enter")
        assert screen.client.acted == [], "Enter keeps it private"


async def test_going_public_says_what_changes_and_is_safe_by_default() -> None:
    async with dashboard(node_of(), size=(80, 24)) as screen:
        await screen.press("P")
        assert isinstance(screen.app.screen, PublicScreen)
        for words in (
            "Anyone on the internet can then see",
            "without an invite",
            "192.168.1.20:9440, [fd00::20]:9440",
            "Never listed: prompts, answers, invites, keys",
        ):
            assert words in screen.text
        await screen.press("enter")
        assert isinstance(screen.app.screen, MeshPage)
        await screen.press("P")
        screen.app.screen.query_one("#region", Input).value = " eu\x1b[2J "
        await screen.press("right", "enter")
        await screen.until(lambda: bool(screen.client.acted))
        asked = {"on": True, "name": "home", "region": "eu", "max_clients": 4}
        assert screen.client.acted == [("public", asked)]


async def test_going_private_again() -> None:
    async with dashboard(node_of()) as screen:
        screen.client.happen(mesh.PublicationChanged(at=START + 99, publication="public"))
        await screen.until(lambda: "◈ public" in screen.text)
        await screen.press("P", "right", "enter")
        await screen.until(lambda: screen.client.acted == [("public", {"on": False})])
