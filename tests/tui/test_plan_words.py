"""What the planner answered, in words: candidates, prices, refusals, the values of the sliders."""

from typing import Any

import msgspec
import pytest

from meshllm_tui.cleaning import cells
from meshllm_tui.plan_words import (
    CONTEXTS,
    HOPS,
    LANES,
    TARGETS,
    candidate_row,
    launch_words,
    plan_lines,
    refusal_lines,
    speed_words,
)
from meshllm_tui.present import plain
from tests.tui.plan_samples import (
    ALONE,
    OTHER,
    REFUSED,
    SPLIT,
    WHOLE,
    answer,
    candidate,
    stage,
)
from tests.tui.test_split import EVIL


def test_a_candidate_tells_its_map_its_price_and_why() -> None:
    said = plain(plan_lines(answer(), SPLIT, 75))
    for words in (
        "fits on no machine alone; split attic|workshop: 19 tok/s, because 2 × 11 ms",
        "┣━━━",
        "attic  layers 0–29",
        "11.1 GiB of 12.0 GiB",
        "computes 2.1 ms, hop 11 ms",
        "53 ms (19 tok/s)",
        "4.2 ms computing + 22 ms network + 1.5 ms hand-over",
        "! misses 33 ms a token",
        "8,192 tokens × 4 lanes",
        "f16, the smallest format",
        "● L splits it",
        "2 stages are the fewest",
        "cellar  its owner paused lending",
    ):
        assert words in said
    assert "supposed" not in said


def test_what_was_supposed_and_what_was_not_measured_is_said() -> None:
    said = plain(plan_lines(answer(hop_ms=40.0), OTHER, 75))
    assert "! 40 ms are supposed for every hop" in said
    assert "its speed is not measured, hop 24 ms (assumed)" in said
    assert "○ not from here" in said
    assert f"{OTHER.price}." in said
    assert SPLIT.price not in plain(plan_lines(answer(), SPLIT, 75)).replace(answer().sentence, "")
    assert "which ranks better" in said


def test_a_refusal_says_what_is_missing_and_what_would_do() -> None:
    said = plain(refusal_lines(REFUSED))
    assert said.index("does not run") < said.index("14.2 GiB less") < said.index("one more machine with 16.9")
    assert "planned from the catalogue's figures" in said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tokens_per_second": 41.2}, "41 tok/s"),
        ({"tokens_per_second": 4.25}, "4.2 tok/s"),
        ({"tokens_per_second": None, "network_ms": 22.0}, "at most 45 tok/s"),
        ({"tokens_per_second": None, "network_ms": None}, "speed not known"),
    ],
)
def test_speed_says_no_more_than_is_known(changes: dict[str, Any], words: str) -> None:
    assert speed_words(msgspec.structs.replace(SPLIT, **changes)) == words


def test_the_price_comes_before_anything_is_launched() -> None:
    title, text = launch_words(answer(), SPLIT)
    assert title == "Split Qwen3-30B-A3B-Q4_K_M?"
    assert text.startswith(answer().sentence)
    assert "computes the last layers" in text
    assert "supposed" not in text
    _, supposed = launch_words(answer(hop_ms=1.0), answer().candidates[0])
    assert "plans with what it measures" in supposed
    assert launch_words(WHOLE, ALONE)[0] == "Load SmolLM2-135M-Instruct?"
    fetched = msgspec.structs.replace(WHOLE, source="catalog")
    assert "98.0 MiB" not in text
    assert "are fetched first" in launch_words(fetched, ALONE)[1]


def test_sliders_are_within_what_the_node_takes() -> None:
    assert all(value is None or 0 <= value <= 10_000 for value, _ in HOPS)
    assert all(0 <= value <= 4_194_304 for value, _ in CONTEXTS)
    assert all(0 <= value <= 64 for value, _ in LANES)
    assert all(0 < value <= 60_000 for value, _ in TARGETS)
    assert all(len(values) <= 10 for values in (HOPS, CONTEXTS, LANES, TARGETS))
    assert all(cells(words) <= 8 for values in (HOPS, CONTEXTS, LANES, TARGETS) for _, words in values)


@pytest.mark.parametrize("width", [20, 36, 75, 200])
def test_texts_and_figures_from_outside_are_shown_and_not_obeyed(width: int) -> None:
    wild = candidate(
        stage(EVIL * 9, -5, 1 << 62, bytes=1 << 62, memory_needed=1 << 62, compute_ms=1e300, hop_ms=1e300),
        stage("", 9, -9, link=EVIL, compute_ms=None, hop_ms=None),
        rate=1e300,
        title=EVIL * 9,
        price=EVIL,
        reasons=(EVIL,) * 500,
        wire_dtype=EVIL,
        wire_verdict=EVIL,
        refused=EVIL,
        launch_note=EVIL,
    )
    said = answer(wild, model=EVIL, sentence=EVIL, notes=(EVIL,) * 500)
    lines = (
        *plan_lines(said, wild, width),
        *candidate_row(wild, 1, width),
        *refusal_lines(msgspec.structs.replace(REFUSED, sentence=EVIL)),
    )
    text = plain(lines) + "".join(launch_words(said, wild))
    assert not set(text) & set("\x1b\x07\u202e\x9b")
    assert len(lines) < 180
    rows = plain(candidate_row(wild, 1, width)).split("\n")
    assert max(map(cells, rows)) <= max(width, 32)
