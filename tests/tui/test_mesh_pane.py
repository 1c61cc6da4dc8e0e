"""The mesh on the home screen: keys, questions, a large mesh, hostile words."""

import time

import msgspec
import pytest
from textual.widgets import Input

from meshllm_core.errors import NotPermitted
from meshllm_core.state import mesh_events as mesh
from meshllm_tui.cleaning import cells
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.home import HomeScreen
from meshllm_tui.screens.member import MemberScreen
from meshllm_tui.screens.public import PublicScreen
from meshllm_tui.widgets.mesh_pane import MeshPane
from tests.tui.conftest import Screen, dashboard
from tests.tui.mesh_samples import OWN, founded, joined, many, meshed, model, node_id, peer
from tests.tui.samples import START, ScriptedClient, bare

HOSTILE = "\x1b]0;owned\x07\x1b[2J[red]\u202eevil\n\n\x00"


def node_of(*rows: mesh.PeerRow) -> ScriptedClient:
    return ScriptedClient(state=meshed(*rows))


def pane(screen: Screen) -> MeshPane:
    return screen.app.home.query_one(MeshPane)


async def test_a_node_by_itself_takes_one_line() -> None:
    async with dashboard(ScriptedClient(state=bare())) as screen:
        assert "This node is by itself. Press v to invite a machine, J to join one." in screen.text
        assert pane(screen).outer_size.height == 3
        for event in founded():
            screen.client.happen(event)
        for event in joined(peer("attic")):
            screen.client.happen(event)
        await screen.until(lambda: "attic" in screen.text)
        assert "Mesh home" in screen.text
        assert "◇ private  home 1 of 1 others alive" in screen.text
        screen.client.happen(mesh.MeshLeft(at=START + 99, reason="asked"))
        await screen.until(lambda: "This node is by itself." in screen.text)


@pytest.mark.parametrize("size", [(120, 40), (120, 30), (80, 24), (60, 20)])
async def test_members_and_their_facts_at_any_size(size: tuple[int, int]) -> None:
    async with dashboard(node_of(), size=size) as screen:
        await screen.press("5", "j", "j")
        assert "outgoing only: it reaches others, nobody reaches it" in screen.text
        assert "192.168.1.30:9440 by QUIC" in screen.text
        assert "v Invite" in screen.text
        for line in screen.text.splitlines():
            assert cells(line) <= size[0]
        await screen.press("1")
        assert "192.168.1.30:9440 by QUIC" not in screen.text


async def test_the_pane_leaves_room_and_takes_it_with_the_keyboard() -> None:
    async with dashboard(node_of(*many(60))) as screen:
        assert pane(screen).outer_size.height <= 12
        await screen.press("5")
        await screen.until(lambda: pane(screen).outer_size.height == 24)
        await screen.press("2")
        await screen.until(lambda: pane(screen).outer_size.height <= 12)


async def test_copying_ids() -> None:
    async with dashboard(node_of()) as screen:
        await screen.press("5", "y")
        assert screen.copied == OWN
        await screen.press("j", "y")
        assert screen.copied == node_id("attic")
        await screen.press("1", "c")
        assert screen.copied == OWN


async def test_enter_shows_all_that_is_known_and_follows_it() -> None:
    async with dashboard(node_of()) as screen:
        await screen.press("5", "enter")
        assert isinstance(screen.app.screen, HomeScreen), "this node's facts are all in the pane"
        await screen.press("j", "j", "enter")
        assert isinstance(screen.app.screen, MemberScreen)
        assert node_id("cellar")[32:] in screen.text
        screen.client.happen(
            mesh.PeerUpdated(at=START + 99, peer=peer("cellar", address="10.9.9.9:1", path="tls"))
        )
        await screen.until(lambda: "10.9.9.9:1 by TLS" in screen.text)
        screen.client.happen(mesh.PeerForgotten(at=START + 99, node=node_id("cellar")))
        await screen.until(lambda: "It is not listed any more." in screen.text)
        await screen.press("escape")
        assert isinstance(screen.app.screen, HomeScreen)


async def test_revoking_asks_the_node_who_goes_then_the_person() -> None:
    client = node_of()
    client.answers["revoke"] = {"revoked": ["attic", "cellar", "garage"], "done": False}
    async with dashboard(client) as screen:
        await screen.press("5", "j", "x")
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
        await screen.press("5", "j", "x")
        await screen.until(lambda: any("may not revoke attic" in toast for toast in screen.toasts))
        assert isinstance(screen.app.screen, HomeScreen)


async def test_only_a_member_that_is_gone_can_be_forgotten() -> None:
    async with dashboard(node_of()) as screen:
        await screen.press("5", "j", "d")
        assert isinstance(screen.app.screen, HomeScreen)
        assert "d Forget" not in screen.text
        await screen.press("end")
        assert "d Forget" in screen.text
        await screen.press("d", "right", "enter")
        await screen.until(lambda: bool(screen.client.acted))
        assert screen.client.acted == [("forget", {"node": node_id("laptop")})]


async def test_leaving_the_mesh_asks_first() -> None:
    async with dashboard(node_of()) as screen:
        await screen.press("5", "L")
        assert "Leave the mesh home?" in screen.text
        await screen.press("enter")
        assert screen.client.acted == []
        await screen.press("L", "right", "enter")
        await screen.until(lambda: screen.client.acted == [("leave", {})])
    async with dashboard(ScriptedClient(state=bare())) as screen:
        await screen.press("5", "L", "P")
        assert isinstance(screen.app.screen, HomeScreen)


async def test_going_public_says_what_changes_and_is_safe_by_default() -> None:
    async with dashboard(node_of(), size=(80, 24)) as screen:
        await screen.press("5", "P")
        assert isinstance(screen.app.screen, PublicScreen)
        for words in ("Anyone on the internet can then see", "without an invite", "Invites stay secret"):
            assert words in screen.text
        await screen.press("enter")
        assert isinstance(screen.app.screen, HomeScreen)
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
        await screen.press("5", "P", "right", "enter")
        await screen.until(lambda: screen.client.acted == [("public", {"on": False})])


async def test_a_failed_listing_says_why_on_the_status_line() -> None:
    async with dashboard(node_of()) as screen:
        screen.client.happen(
            mesh.PublicationChanged(at=START, publication="publish_failed", detail="no relay answers")
        )
        await screen.until(lambda: "! publish failed: no relay answers" in screen.text)


async def test_two_hundred_members_stay_quick() -> None:
    async with dashboard(node_of(*many(199))) as screen:
        await screen.press("5", "j")
        spent = []
        for key in ["j", "k"] * 8:
            began = time.process_time()
            await screen.pilot.press(key)
            await screen.pilot.pause()
            spent.append(time.process_time() - began)
        assert sorted(spent)[len(spent) // 2] < 0.05
        await screen.press("end")
        assert "machine-198" in screen.text


async def test_a_storm_of_news_is_a_handful_of_repaints() -> None:
    client = node_of(*many(100))
    async with dashboard(client) as screen:
        drawn = 0
        show = screen.app.home._show

        def counted(view: object) -> None:
            nonlocal drawn
            drawn += 1
            show(view)  # type: ignore[arg-type]

        screen.app.home._show = counted  # type: ignore[method-assign]
        assert client.state is not None
        for row in client.state.peers:
            client.happen(mesh.PeerUpdated(at=START + 99, peer=msgspec.structs.replace(row, rtt_ms=777.0)))
        await screen.until(lambda: "777 ms" in screen.text)
        assert drawn < 30


async def test_the_row_with_the_keyboard_stays_when_members_come_and_go() -> None:
    async with dashboard(node_of()) as screen:
        await screen.press("5", "j", "j")
        chosen = pane(screen).chosen_member
        assert chosen is not None
        for event in joined(peer("aaa"), peer("zzz")):
            screen.client.happen(event)
        await screen.until(lambda: "aaa" in screen.text)
        again = pane(screen).chosen_member
        assert again is not None
        assert again.node == chosen.node == node_id("cellar")


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 20)])
async def test_hostile_words_break_nothing(size: tuple[int, int]) -> None:
    long = HOSTILE * 400
    nasty = peer(
        "x",
        name=long,
        version=long,
        address=long,
        addresses=(long,) * 50,
        devices=(long,) * 50,
        owner=long,
        detail=long,
        seen_through=long,
        reach="no_path",
        models=tuple(model(f"{HOSTILE}{number}") for number in range(500)),
    )
    client = node_of(peer("attic"), nasty)
    client.answers["revoke"] = {"revoked": [long, "[bold]x"]}
    async with dashboard(client, size=size) as screen:
        await screen.press("5", "end")
        for key in ("enter", "x"):
            await screen.press(key)
            await screen.until(lambda: not isinstance(screen.app.screen, HomeScreen))
            await screen.pilot.pause()
            check_screen(screen, size)
            await screen.press("escape")
        check_screen(screen, size)
        assert "attic" in screen.text


def check_screen(screen: Screen, size: tuple[int, int]) -> None:
    """Every line is as wide as the terminal, and nothing in it acts on one."""
    lines = screen.text.split("\n")
    assert len(lines) == size[1]
    for line in lines:
        assert cells(line) == size[0]
    for each in ("\x1b", "\x07", "\x00", "\u202e"):
        assert each not in screen.text


async def test_a_model_of_another_member_can_answer_the_chat() -> None:
    from meshllm_core.api.client import ChatDelta

    client = node_of()
    client.answer = [ChatDelta(text="hello", served_by="cellar"), ChatDelta(finish_reason="stop")]
    async with dashboard(client) as screen:
        await screen.press("2")
        screen.app.home.use_model(screen.app.home.ready_models[-1].id)
        await screen.until(lambda: "gemma-3-12b:Q4_K_M on cellar" in screen.text)
        await screen.press("h", "i", "enter")
        await screen.until(lambda: "● done" in screen.text)
        assert client.asked[0][1] == "gemma-3-12b:Q4_K_M"
        assert "by cellar" in screen.text
