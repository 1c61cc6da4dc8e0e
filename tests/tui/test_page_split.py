"""The page of splits: it changes live, and each of its actions by key, mouse and palette."""

import re

import pytest

from meshllm_core.state import events as ev
from meshllm_core.state import split_events as split
from meshllm_tui.pages.split import SplitPage
from meshllm_tui.themes import THEMES
from tests.support import splits
from tests.tui.conftest import Screen, dashboard
from tests.tui.plan_samples import replies
from tests.tui.samples import START, ScriptedClient, bare, ready
from tests.tui.test_split import model_of, spread
from tests.tui.test_themes import faint

SIZES = [(60, 20), (80, 24), (120, 40), (200, 60)]


async def opened(screen: Screen) -> SplitPage:
    """The page, by its digit."""
    await screen.press("3")
    await screen.until(lambda: isinstance(screen.app.page, SplitPage))
    await screen.pilot.pause()
    page = screen.app.page
    assert isinstance(page, SplitPage)
    return page


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_it_shows_splits_and_the_chosen_ones_map_at_every_size(size: tuple[int, int]) -> None:
    async with dashboard(ScriptedClient(state=spread()), size=size) as screen:
        await opened(screen)
        await screen.until(lambda: "┣" in screen.text)
        for words in ("Qwen3-30B-A3B", "for cellar", "for garage", "↓ fetching 41 %", "48"):
            assert words in screen.text
        await screen.press("j")
        await screen.until(lambda: "This machine computes it for cellar" in screen.text)


async def test_its_stages_change_live_until_the_model_is_gone() -> None:
    client = ScriptedClient(state=spread())
    async with dashboard(client, size=(80, 24)) as screen:
        await opened(screen)
        await screen.until(lambda: "↓ fetching 41 %" in screen.text)
        client.happen(splits.stage(splits.DESK, state="fetching", bytes_done=90, bytes_total=100))
        await screen.until(lambda: "↓ fetching 90 %" in screen.text)
        client.happen(splits.stage(splits.DESK, state="probing"))
        await screen.until(lambda: "◑ probing" in screen.text)
        await screen.press("enter", *"jjjjjjjjjjjjjjjjjjj")
        assert screen.app.page.active == "stages"
        assert "Why" in screen.text
        client.happen(ev.ModelUnloaded(at=START + 90, model=splits.MODEL))
        await screen.until(lambda: "Qwen3-30B-A3B" not in screen.text)
        assert "for cellar" in screen.text
        for run in ("a1" * 8, "b2" * 8):
            client.happen(split.StageReleased(at=START + 91, run=run, reason="unloaded"))
        await screen.until(lambda: "No model is split" in screen.text)


async def test_a_split_that_became_whole_leaves_the_page() -> None:
    client = ScriptedClient(state=spread(done=True))
    async with dashboard(client) as screen:
        await opened(screen)
        for event in ready(splits.MODEL, at=START + 100):
            client.happen(event)
        await screen.until(lambda: "Qwen3-30B-A3B" not in screen.text)


async def test_s_on_a_split_model_of_the_mesh_page_opens_its_stages() -> None:
    async with dashboard(ScriptedClient(state=spread())) as screen:
        await screen.press("s")
        await screen.until(lambda: isinstance(screen.app.page, SplitPage))
        await screen.pilot.pause()
        page = screen.app.page
        assert isinstance(page, SplitPage)
        model = page.desk.splits.model
        assert model is not None
        assert model.id == splits.MODEL
        assert page.active == "stages"


async def test_a_stale_page_says_so() -> None:
    client = ScriptedClient(state=spread(done=True))
    async with dashboard(client) as screen:
        await opened(screen)
        client.state = None
        client.queue.put_nowait(None)
        await screen.until(lambda: "stale" in screen.text)
        assert screen.text.count("! stale") == 2


async def test_nothing_is_done_where_nothing_is_split() -> None:
    client = ScriptedClient(state=bare())
    async with dashboard(client) as screen:
        page = await opened(screen)
        await screen.press("u", "c", "r", "y", "w", "enter", "tab")
        assert client.acted == []
        assert screen.app.page is page
        assert "No model is split" in screen.text
        assert "Unload" not in screen.text.splitlines()[-1]


async def perform(screen: Screen, way: str, key: str, words: str) -> None:
    """An action by its key, by a click on its hint, or by its name in the palette."""
    if way == "key":
        await screen.press(key)
    elif way == "mouse":
        last = screen.text.splitlines()[-1]
        hint = next(part for part in re.split(r" {2,}", last) if part.strip().startswith(f"{key} "))
        await screen.pilot.click("#keys", offset=(last.index(hint.strip()), 0))
    else:
        await screen.press("ctrl+p")
        await screen.press(*(each if each != " " else "space" for each in words))
        await screen.pilot.pause(0.3)
        await screen.press("enter")
    await screen.pilot.pause()


@pytest.mark.parametrize("way", ["key", "mouse", "palette"])
async def test_a_split_is_unloaded_after_a_question(way: str) -> None:
    client = ScriptedClient(state=spread(done=True))
    async with dashboard(client) as screen:
        await opened(screen)
        await perform(screen, way, "u", "unload the chosen split")
        await screen.until(lambda: "Its stages end on all machines" in screen.text)
        await screen.press("right", "enter")
        await screen.until(lambda: client.acted == [("unload", {"model": splits.MODEL})])


@pytest.mark.parametrize("way", ["key", "mouse", "palette"])
async def test_chatting_opens_the_chat_with_that_model(way: str) -> None:
    client = ScriptedClient(state=spread(done=True))
    async with dashboard(client) as screen:
        await opened(screen)
        await perform(screen, way, "c", "chat with the chosen split")
        await screen.until(lambda: screen.app.page.NAME == "chat")


@pytest.mark.parametrize("way", ["key", "mouse", "palette"])
async def test_copying_takes_all_that_is_said(way: str) -> None:
    async with dashboard(ScriptedClient(state=spread(done=True))) as screen:
        await opened(screen)
        await screen.until(lambda: "┣" in screen.text)
        await perform(screen, way, "y", "copy all that is said")
        await screen.until(lambda: splits.SENTENCE in screen.copied)
        assert splits.REASONS[1] in screen.copied


@pytest.mark.parametrize("way", ["key", "mouse", "palette"])
async def test_planning_opens_the_planner_with_that_model(way: str) -> None:
    given = replies()
    plan = given["plan"]
    assert callable(plan)
    given["plan"] = lambda model, **supposed: plan("big", **supposed)
    client = ScriptedClient(state=spread(done=True), replies=given)
    async with dashboard(client) as screen:
        await opened(screen)
        await perform(screen, way, "w", "other ways there are")
        await screen.until(lambda: screen.app.page.NAME == "plan")
        await screen.until(lambda: client.questions[-1][1].get("model") == splits.MODEL)


@pytest.mark.parametrize("way", ["key", "mouse", "palette"])
async def test_a_failed_split_is_tried_again(way: str) -> None:
    failed = ev.ModelFailed(at=START + 80, model=splits.MODEL, code="x", message="desk is lost", hint="")
    client = ScriptedClient(state=spread(failed))
    async with dashboard(client) as screen:
        await opened(screen)
        await screen.until(lambda: "desk is lost" in screen.text)
        await perform(screen, way, "r", "load the chosen split model again")
        ref = model_of(spread()).ref
        await screen.until(lambda: client.acted == [("load", {"model": ref, "split": True})])


@pytest.mark.parametrize("way", ["key", "mouse", "palette"])
async def test_the_stages_are_reached_and_left(way: str) -> None:
    async with dashboard(ScriptedClient(state=spread())) as screen:
        page = await opened(screen)
        if way == "mouse":
            await screen.pilot.click("#stages", offset=(5, 3))
        else:
            await perform(screen, way, "enter", "go to the stages of the chosen")
        assert page.active == "stages"
        await screen.press("shift+tab")
        assert page.active == "splits"


async def test_a_click_chooses_a_row_and_jump_mode_knows_both_panes() -> None:
    async with dashboard(ScriptedClient(state=spread())) as screen:
        page = await opened(screen)
        await screen.pilot.click("#splits", offset=(20, 3))
        await screen.until(lambda: "This machine computes it for garage" in screen.text)
        await screen.press("g")
        await screen.pilot.pause()
        await screen.press("s")
        assert page.active == "stages"


@pytest.mark.parametrize("theme", [theme.name for theme in THEMES])
async def test_its_words_stand_out(theme: str) -> None:
    async with dashboard(ScriptedClient(state=spread()), theme=theme) as screen:
        await opened(screen)
        await screen.until(lambda: "Why" in screen.text)
        assert faint(screen) == []
