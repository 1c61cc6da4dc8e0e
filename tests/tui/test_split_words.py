"""What is said of a split and of a stage for others: its map, its stages, its price, why."""

from typing import Any

import msgspec
import pytest

from meshllm_core.state import events as ev
from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.cleaning import cells
from meshllm_tui.layer_map import NARROWEST, Part, layer_map
from meshllm_tui.present import NodeView, Span, plain
from meshllm_tui.rows import model_card
from meshllm_tui.split_words import hosted_lines, hosted_row, no_splits, split_lines, split_row
from tests.support import splits
from tests.tui.samples import START, bare, fold
from tests.tui.test_split import EVIL, model_of, spread, widest


def page_of(snapshot: NodeSnapshot, width: int = 69) -> str:
    """What is said of the split."""
    return plain(split_lines(model_of(snapshot), NodeView(snapshot=snapshot, link="live"), width))


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


def test_a_split_that_lost_a_machine_is_not_ready_and_says_what_it_waits_for() -> None:
    lost = ev.SplitInterrupted(at=200.0, model=splits.MODEL, reason="attic is lost. It is planned anew.")
    page = page_of(fold(*splits.ready(), lost, snapshot=bare()))
    assert "● ready  over" not in page
    assert "↻ restarting  over 3 machines" in page
    assert "attic is lost. It is planned anew." in page
    anew = page_of(fold(*splits.ready(), lost, splits.planned(), snapshot=bare()))
    assert "attic is lost" not in anew


def test_a_model_that_waits_for_machines_says_so_where_its_stages_will_be() -> None:
    waits = ev.SplitInterrupted(at=101.0, model=splits.MODEL, reason="It waits for machines: none is there.")
    said = plain(no_splits(NodeView(snapshot=fold(splits.under_way()[0], waits, snapshot=bare()))))
    assert "is requested" in said
    assert "It waits for machines: none is there." in said


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


def test_a_split_that_was_asked_for_is_loading_once_a_stage_does_anything() -> None:
    snapshot = spread()
    model = msgspec.structs.replace(model_of(snapshot), status="requested")
    assert model.split is not None
    still = tuple(msgspec.structs.replace(row, state="assigned") for row in model.split.stages)
    waiting = msgspec.structs.replace(model, split=msgspec.structs.replace(model.split, stages=still))
    for each, word in ((model, "◐ loading"), (waiting, "◌ requested")):
        assert each.split is not None
        shown = msgspec.structs.replace(snapshot, models=(each,))
        first = page_of(shown).split("\n")[0]
        assert first.startswith(word)
        assert plain((split_row(each, each.split, 75),)).startswith(word)
        assert word in plain(model_card(each, shown, 60))
