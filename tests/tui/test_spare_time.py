"""What is done while nobody types, and the bounds of what is shown: keys must not wait for either."""

import asyncio
import gc
import sys
import time

import msgspec
import pytest

from meshllm_core.state import mesh_events as mesh
from meshllm_core.state.reduce_mesh import PEERS_SHOWN
from meshllm_tui import spare_time
from meshllm_tui.actions.pages import PAGES
from meshllm_tui.bounds import MODELS_SHOWN, NAME_SHOWN, bounded, bounded_event
from meshllm_tui.mesh_rows import MEMBERS_LISTED
from tests.tui.conftest import dashboard
from tests.tui.mesh_samples import meshed, model, node_id, peer
from tests.tui.samples import START, ScriptedClient


async def test_old_objects_are_looked_through_in_a_pause_and_the_collector_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spare_time, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(spare_time, "SELDOM_SECONDS", 0.05)
    monkeypatch.setattr(spare_time, "PAUSE_SECONDS", 0.3)
    monkeypatch.setattr(spare_time, "_ROUNDS", 0)
    before = gc.get_threshold()
    full: list[float] = []

    def watch(_: str, info: dict[str, int]) -> None:
        if info["generation"] == 2:
            full.append(time.monotonic())

    async with dashboard() as screen:
        await screen.until(lambda: gc.get_threshold()[2] > before[2])
        gc.callbacks.append(watch)
        try:
            pressed = time.monotonic()
            await screen.press("down")
            await screen.until(lambda: bool(full))
        finally:
            gc.callbacks.remove(watch)
        assert full[0] - pressed >= 0.3
    assert gc.get_threshold() == before


async def test_pages_are_read_before_they_are_opened() -> None:
    names = [f"meshllm_tui.pages.{page.made_by.partition(':')[0]}" for page in PAGES]
    async with dashboard() as screen:
        await screen.until(lambda: all(name in sys.modules for name in names))


def test_a_snapshot_within_its_bounds_is_left_alone() -> None:
    snapshot = meshed()
    assert bounded(snapshot) is snapshot


def test_members_models_and_names_beyond_the_bounds_are_cut_and_that_is_said() -> None:
    many = tuple(peer(f"m{number}") for number in range(PEERS_SHOWN + 9))
    evil = peer("evil", name="x" * 1_000_000, models=tuple(model(f"m{n}") for n in range(200_000)))
    shown = bounded(msgspec.structs.replace(meshed(), peers=(evil, *many)))
    assert len(shown.peers) == PEERS_SHOWN
    row = shown.peers[0]
    assert (len(row.name), len(row.models)) == (NAME_SHOWN, MODELS_SHOWN)
    assert row.detail == (
        "its name has 1,000,000 characters, 500 are shown; it names 200,000 models, 64 are shown"
    )
    event = mesh.PeerUpdated(at=START, peer=evil)
    assert bounded_event(event) == mesh.PeerUpdated(at=START, peer=row)
    assert bounded_event(ordinary := mesh.PeerUpdated(at=START, peer=many[0])) is ordinary


async def test_the_table_lists_so_many_members_and_says_how_many_there_are() -> None:
    rows = tuple(
        msgspec.structs.replace(peer("x"), node=node_id(f"n{number}"), name=f"machine-{number:04}")
        for number in range(600)
    )
    async with dashboard(ScriptedClient(state=meshed(*rows))) as screen:
        screen.app.page.go("mesh")
        await screen.press("t")
        assert f"601 members, {MEMBERS_LISTED} listed; `meshllm members` has all" in screen.text
        await screen.press("end")
        assert "machine-0511" in screen.text
        assert "machine-0512" not in screen.text


async def test_another_node_in_its_place_is_said_and_nothing_asked_of_the_one_before_stays() -> None:
    client = ScriptedClient(state=meshed())
    async with dashboard(client) as screen:
        await screen.press("0")
        old = screen.app.page
        await screen.press("1", "question_mark")
        await screen.press("escape", "0")
        assert screen.app.page is old
        client.state = msgspec.structs.replace(
            meshed(), node="beef" * 16, name="shed", pid=99, sequence=1, notices=()
        )
        client.queue.put_nowait(None)
        await screen.until(lambda: "shed" in screen.text and screen.app.page is not old)
        await asyncio.sleep(0.2)
        await screen.pilot.pause()
        assert screen.app.page.NAME == "settings"
        said = [notice.text for notice in screen.app.session.view().local]
        assert f"another node answers now: shed ({'beef' * 2}be), in place of workshop (c0ffee12c0)" in said
        client.state = msgspec.structs.replace(client.state, pid=100, sequence=2)
        client.queue.put_nowait(None)
        await screen.until(
            lambda: (
                "the node was started anew, as process 100"
                in [notice.text for notice in screen.app.session.view().local]
            )
        )
