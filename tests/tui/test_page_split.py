"""The page of splits: its words, its map, and each of its actions by key, mouse and palette."""

import re
from typing import Any

import msgspec
import pytest

from meshllm_core.state import events as ev
from meshllm_core.state import split_events as split
from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.cleaning import cells
from meshllm_tui.layer_map import NARROWEST, Part, layer_map
from meshllm_tui.pages.split import SplitPage
from meshllm_tui.present import NodeView, Span, plain
from meshllm_tui.split_words import hosted_lines, hosted_row, no_splits, split_lines, split_row
from meshllm_tui.themes import THEMES
from tests.support import splits
from tests.tui.conftest import Screen, dashboard
from tests.tui.plan_samples import replies
from tests.tui.samples import START, ScriptedClient, bare, fold, ready
from tests.tui.test_split import EVIL, model_of, spread, widest
from tests.tui.test_themes import faint

SIZES = [(60, 20), (80, 24), (120, 40), (200, 60)]


def page_of(snapshot: NodeSnapshot, width: int = 69) -> str:
    """What is said of the split."""
    return plain(split_lines(model_of(snapshot), NodeView(snapshot=snapshot, link="live"), width))


# Words ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [55, 75, 115, 295])
def test_the_map_is_to_scale_and_as_wide_as_the_page(width: int) -> None:
    parts = [
        Part("attic", 0, 24, Span("● ready")),
        Part("desk", 24, 40, Span("↓ fetching 41 %"), "↓ 41 %", 0.5),
        Part("shed", 40, 48, Span("◌ assigned"), "◌", 0.0),
    ]
    names, bar, numbers, states = plain(layer_map(parts, width)).split("\n")
    assert [len(text) for text in (names, bar)] == [width - 1, width]
    assert (bar[0], bar[-1], bar.count("╋")) == ("┣", "┫", 2)
    first, second = (place for place, glyph in enumerate(bar) if glyph == "╋")
    assert first / width == pytest.approx(24 / 48, abs=0.08)
    assert second / width == pytest.approx(40 / 48, abs=0.08)
    assert (names.index("desk"), names.index("shed")) == (first, second)
    assert (numbers[first : first + 2], numbers[second : second + 2]) == ("24", "40")
    assert numbers.endswith("48")
    inside = bar[first + 1 : second]
    assert abs(inside.count("━") - inside.count("─")) <= 1
    assert "━" not in bar[second:]
    assert "↓" in states
    assert "◌" in states


def test_too_many_stages_are_listed_and_not_drawn() -> None:
    many = [Part(f"box{place}", place, place + 1, Span("● ready")) for place in range(20)]
    assert layer_map(many, 20 * NARROWEST) == ()
    assert layer_map([], 80) == ()
    assert len(layer_map(many, 20 * NARROWEST + 1)) == 4


def test_the_page_tells_all_of_it() -> None:
    page = page_of(spread(done=True))
    for words in (
        "● ready  over 3 machines, context 8,192, 4 lanes",
        splits.SENTENCE,
        "desk  layers 24–39",
        "5.5 GiB of weights, 5.8 GiB of memory",
        "predicted 1.9 ms, measured 2.3 ms, RTT 22 ms to attic",
        "predicted 1.1 ms, measured 1.2 ms, RTT 48 ms to desk",
        "Computing     5.1 ms predicted, 5.5 ms measured",
        "57 ms predicted, 47 ms of it network",
        "! misses 33 ms a token",
        "f16: certified exact for this file and these cuts",
        *splits.REASONS,
    ):
        assert words in page
    fetching = page_of(spread())
    assert "2.2 of 5.5 GiB" in fetching
    assert "reading its layers" in fetching
    assert "needs 5.9 GiB of memory" in fetching
    assert "measured now" not in page


def test_a_wide_page_has_a_table_whose_columns_stand_below_their_names() -> None:
    lines = page_of(spread(done=True), 115).split("\n")
    head = next(text for text in lines if text.startswith("stage"))
    row = next(text for text in lines if text.startswith("desk") and "24–39" in text)
    for name, figure in (
        ("weights", "5.5 GiB"),
        ("RTT", "22 ms"),
        ("predicted", "1.9 ms"),
        ("measured", "2.3 ms"),
    ):
        end = head.index(name) + len(name)
        assert row[:end].endswith(figure), (name, row)
    assert row.index("24–39") == head.index("layers")


def test_what_a_token_takes_is_measured_at_the_requests() -> None:
    busy = ev.ThroughputMeasured(
        at=START + 70,
        model=splits.MODEL,
        decode_tokens_per_second=32.0,
        prompt_tokens_per_second=0.0,
        active=2,
        queued=0,
        cells_used=10,
        cells_total=100,
        in_flight=9,
    )
    page = page_of(spread(busy, done=True))
    assert "62 ms measured now, 2 requests at a time" in page
    assert "up to 9 tokens between the stages" in page
    idle = msgspec.structs.replace(busy, active=0, in_flight=0)
    assert "In flight" not in page_of(spread(busy, idle, done=True))
    chunks = splits.planned(chunk=128, ahead=3)
    page = page_of(fold(splits.under_way()[0], chunks, snapshot=bare()))
    assert "travel by 128 tokens, 3 chunks ahead of its step" in page


@pytest.mark.parametrize(
    ("changes", "there", "missing"),
    [
        ({"target_ms": 0.0}, "47 ms of it network", "target"),
        ({"target_ms": 60.0}, "✓ meets 60 ms a token", "misses"),
        ({"predicted_ms_per_token": 0.0}, "47 ms of network; no machine's speed", "57 ms"),
        ({"predicted_ms_per_token": 0.0, "target_ms": 60.0}, "47 ms of network", "meets"),
        (
            {"predicted_ms_per_token": 0.0, "network_ms_per_token": 0.0},
            "not known: nothing is measured yet",
            "misses",
        ),
    ],
)
def test_the_price_says_no_more_than_is_known(changes: dict[str, Any], there: str, missing: str) -> None:
    page = page_of(fold(splits.under_way()[0], splits.planned(**changes), snapshot=bare()))
    assert there in page
    assert missing not in page


def test_a_reason_that_only_repeats_the_verdict_is_told_once() -> None:
    verdict = "f16, the smallest format that is certified"
    plan = splits.planned(verdict=verdict, reasons=("few stages", f"hidden states travel as {verdict}"))
    page = page_of(fold(splits.under_way()[0], plan, snapshot=bare()))
    assert page.count(verdict) == 1
    assert page.endswith("Why\n· few stages")


def test_a_failed_stage_says_why_and_on_which_machine() -> None:
    failed = splits.stage(splits.DESK, state="failed", detail="its disk is full")
    page = page_of(spread(failed))
    assert "its disk is full" in page
    assert "✗ failed" in page


def test_a_page_of_many_stages_lists_each() -> None:
    many = tuple(splits.row(place, f"box{place}", place, place + 1) for place in range(9))
    page = page_of(fold(splits.under_way()[0], splits.planned(*many), snapshot=bare()))
    assert all(f"box{place} " in page for place in range(9))


def test_where_nothing_is_split_it_says_why_that_is_well() -> None:
    said = plain(no_splits(NodeView(snapshot=bare(), link="live")))
    assert "fits on one machine" in said
    coming = fold(splits.under_way()[0], snapshot=bare())
    assert "Qwen3-30B-A3B:Q4_K_M is requested" in plain(no_splits(NodeView(snapshot=coming, link="live")))
    assert "looking for the node" in plain(no_splits(NodeView()))


@pytest.mark.parametrize("width", [20, 33, 69, 115, 295])
def test_texts_and_figures_from_outside_are_shown_and_not_obeyed(width: int) -> None:
    huge = 1 << 70
    row = splits.row(
        0, EVIL * 40, 0, huge, bytes=huge, state="fetching", bytes_done=huge, bytes_total=1, detail=EVIL * 99
    )
    other = splits.row(1, "", huge, -5, rtt_ms=1e300, predicted_ms=1e300, measured_ms=1e-9)
    plan = splits.planned(
        row, other, sentence=EVIL, reasons=(EVIL,) * 500, dtype=EVIL, verdict=EVIL, context=huge, lanes=huge
    )
    hosted = splits.hosted(
        model=EVIL, coordinator=EVIL * 9, detail=EVIL, units=huge, stages=huge, start=-huge, end=huge
    )
    snapshot = fold(splits.under_way()[0], plan, hosted, snapshot=bare())
    model, view = model_of(snapshot), NodeView(snapshot=snapshot, link="live")
    assert model.split is not None
    page = split_lines(model, view, width)
    rows = (split_row(model, model.split, width), hosted_row(snapshot.hosted_stages[0], width))
    for lines in (page, hosted_lines(snapshot.hosted_stages[0], width), rows):
        assert not set(plain(lines)) & set("\x1b\x07\u202e\x9b")
    assert len(page) < 120
    assert widest(rows) <= max(width, 30)


def test_every_line_of_the_drawing_fits() -> None:
    view = NodeView(snapshot=spread(), link="live")
    for width in range(20, 296, 5):
        for text in plain(split_lines(model_of(spread()), view, width)).split("\n"):
            if set(text) & set("┣━─╋") or text.startswith(("stage", "attic", "desk", "shed")):
                assert cells(text) <= max(width, 36), text


# The page ---------------------------------------------------------------------------------------------


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
