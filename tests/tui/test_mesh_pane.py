"""The mesh on the home screen: keys, questions, a large mesh, hostile words."""

import time

import msgspec
import pytest

from meshllm_core.state import mesh_events as mesh
from meshllm_tui import mesh_rows
from meshllm_tui.cleaning import cells
from meshllm_tui.pages.mesh import MeshPage
from meshllm_tui.present import NodeView
from meshllm_tui.screens.member import MemberScreen
from meshllm_tui.widgets.mesh_map import MeshMap
from meshllm_tui.widgets.mesh_pane import MemberList, MeshPane
from tests.tui.conftest import Screen, dashboard
from tests.tui.mesh_samples import OWN, founded, joined, many, meshed, model, node_id, peer
from tests.tui.samples import START, ScriptedClient, bare

HOSTILE = "\x1b]0;owned\x07\x1b[2J[red]\u202eevil\n\n\x00"


def node_of(*rows: mesh.PeerRow) -> ScriptedClient:
    return ScriptedClient(state=meshed(*rows))


def shows(screen: Screen, words: str) -> bool:
    return words in screen.text


def pane(screen: Screen) -> MeshPane:
    return screen.app.home.query_one(MeshPane)


async def test_a_node_by_itself_says_what_it_has_and_how_a_second_comes_in() -> None:
    async with dashboard(ScriptedClient(state=bare())) as screen:
        assert "This node is by itself. Press v to invite a machine, J to join one." in screen.text
        for words in ("e  copies http://127.0.0.1:9337/v1", "l  loads a model", "meshllm join TOKEN"):
            assert words in screen.text
        for event in founded():
            screen.client.happen(event)
        for event in joined(peer("attic")):
            screen.client.happen(event)
        await screen.until(lambda: "attic" in screen.text)
        assert "Mesh home" in screen.text
        assert "◇ private  home 1 other alive" in screen.text
        screen.client.happen(mesh.MeshLeft(at=START + 99, reason="asked"))
        await screen.until(lambda: "This node is by itself." in screen.text)


@pytest.mark.parametrize("size", [(120, 40), (120, 30), (80, 24), (60, 20)])
async def test_members_and_their_facts_at_any_size(size: tuple[int, int]) -> None:
    async with dashboard(node_of(), size=size) as screen:
        await screen.to("mesh")
        await screen.press("j", "j")
        assert "outgoing only: it reaches others, nobody reaches it" in screen.text
        assert "192.168.1.30:9440 by QUIC" in screen.text
        assert "v Invite" in screen.text
        for line in screen.text.splitlines():
            assert cells(line) <= size[0]
        await screen.to("models")
        assert "192.168.1.30:9440 by QUIC" not in screen.text


async def test_a_drawing_where_it_fits_a_table_where_it_does_not_or_is_asked_for() -> None:
    async with dashboard(node_of()) as screen:
        assert "┤ ● attic" in screen.text
        assert "1.2 ms tls" in screen.text
        await screen.to("mesh")
        await screen.press("j", "t")
        assert "┤ ● attic" not in screen.text
        assert "● alive" in screen.text
        await screen.until(lambda: pane(screen).query_one(MemberList).has_focus)
        chosen = pane(screen).chosen_member
        assert chosen is not None
        assert chosen.name == "attic"
        await screen.press("j", "t")
        await screen.until(lambda: pane(screen).query_one(MeshMap).has_focus)
        assert "┠ ● cellar" in screen.text or "┨ ● cellar" in screen.text
        await screen.pilot.resize_terminal(62, 24)
        await screen.until(lambda: "◆ this node" in screen.text)
        again = pane(screen).chosen_member
        assert again is not None
        assert again.name == "cellar"
        await screen.press("t", "t")
        assert "The drawing needs a larger window." in screen.toasts


async def test_boxes_can_be_clicked() -> None:
    async with dashboard(node_of()) as screen:
        drawing = pane(screen).query_one(MeshMap)
        row = screen.text.splitlines().index(next(x for x in screen.text.splitlines() if "● cellar" in x))
        column = screen.text.splitlines()[row].index("● cellar")
        await screen.pilot.click(offset=(column, row))
        await screen.pilot.pause()
        assert drawing.chosen == node_id("cellar")
        await screen.pilot.click(offset=(column, row))
        await screen.until(lambda: isinstance(screen.app.screen, MemberScreen))
        await screen.press("escape", "left")
        assert drawing.chosen == mesh_rows.OWN
        await screen.press("right", "home", "end")
        assert drawing.chosen == node_id("laptop")
        await screen.press("up", "up")
        assert drawing.chosen == node_id("garage")


async def test_nothing_moves_when_round_trips_change() -> None:
    async with dashboard(node_of()) as screen:
        before = [line.index("● attic") for line in screen.text.splitlines() if "● attic" in line]
        places = screen.text.splitlines()
        screen.client.happen(mesh.PeerUpdated(at=START + 99, peer=peer("attic", rtt_ms=440.0)))
        await screen.until(lambda: "440 ms tls" in screen.text)
        after = [line.index("● attic") for line in screen.text.splitlines() if "● attic" in line]
        assert before == after
        changed = [one for one, other in zip(places, screen.text.splitlines(), strict=True) if one != other]
        assert len(changed) == 1


async def test_copying_ids() -> None:
    async with dashboard(node_of()) as screen:
        await screen.to("mesh")
        await screen.press("y")
        assert screen.copied == OWN
        await screen.press("j", "y")
        assert screen.copied == node_id("attic")
        await screen.to("node")
        await screen.press("c")
        assert screen.copied == OWN


async def test_enter_shows_all_that_is_known_and_follows_it() -> None:
    async with dashboard(node_of()) as screen:
        await screen.to("mesh")
        await screen.press("enter")
        assert isinstance(screen.app.screen, MeshPage), "this node's facts are all in the pane"
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
        assert isinstance(screen.app.screen, MeshPage)


async def test_a_failed_listing_says_why_on_the_status_line() -> None:
    async with dashboard(node_of()) as screen:
        screen.client.happen(
            mesh.PublicationChanged(at=START, publication="publish_failed", detail="no relay answers")
        )
        await screen.until(lambda: "! publish failed: no relay answers" in screen.text)


async def test_two_hundred_members_stay_quick() -> None:
    async with dashboard(node_of(*many(199))) as screen:
        await screen.to("mesh")
        await screen.press("j")
        spent = []
        for key in ["j", "k"] * 8:
            began = time.process_time()
            await screen.pilot.press(key)
            await screen.pilot.pause()
            spent.append(time.process_time() - began)
        assert sorted(spent)[len(spent) // 2] < 0.05
        assert "more members: t shows all of them as a table" in screen.text
        await screen.press("t")
        await screen.until(lambda: pane(screen).query_one(MemberList).has_focus)
        await screen.press("end")
        assert "machine-198" in screen.text


async def test_a_storm_of_news_is_a_handful_of_repaints() -> None:
    client = node_of(*many(100))
    async with dashboard(client) as screen:
        drawn = 0
        show = screen.app.home.show

        def counted(view: NodeView) -> None:
            nonlocal drawn
            drawn += 1
            show(view)

        screen.app.home.show = counted  # type: ignore[method-assign]
        assert client.state is not None
        for row in client.state.peers:
            client.happen(mesh.PeerUpdated(at=START + 99, peer=msgspec.structs.replace(row, rtt_ms=777.0)))
        await screen.until(lambda: "777 ms" in screen.text)
        assert drawn < 30


async def test_the_row_with_the_keyboard_stays_when_members_come_and_go() -> None:
    async with dashboard(node_of()) as screen:
        await screen.to("mesh")
        await screen.press("j", "j")
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
        await screen.to("mesh")
        await screen.press("end")
        for key in ("enter", "x"):
            await screen.press(key)
            await screen.until(lambda: not isinstance(screen.app.screen, MeshPage))
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
