"""Requests in words and to scale, without Textual."""

from typing import get_args

import msgspec
import pytest

from meshllm_core.ids import ModelId, RequestId
from meshllm_core.state.events import FinishReason
from meshllm_core.state.snapshot import RequestView
from meshllm_tui.cleaning import cells
from meshllm_tui.present import NodeView, plain
from meshllm_tui.request_rows import (
    DECODE,
    PREFILL,
    QUEUE,
    SHOWN,
    STATES,
    Phases,
    as_json,
    bar_spans,
    chosen_requests,
    columns,
    empty_requests,
    header,
    phases,
    request_facts,
    request_line,
    route,
)
from tests.tui.request_samples import busy
from tests.tui.samples import START

VIEW = NodeView(snapshot=busy(), link="live", wall=START + 200)


def request(**changes: object) -> RequestView:
    row = RequestView(
        id=RequestId("r"),
        model=ModelId("m"),
        route="mesh",
        started_at=START,
        prompt_tokens=10,
        status="stop",
        queue_ms=100.0,
        first_token_ms=400.0,
        total_ms=1000.0,
        completion_tokens=5,
    )
    return msgspec.structs.replace(row, **changes)


def test_every_way_to_end_has_its_own_words() -> None:
    assert set(STATES) == {"running", *get_args(FinishReason)}
    assert len({state.word for state in STATES.values()}) == len(STATES)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Phases(100.0, 300.0, 600.0)),
        ({"first_token_ms": 0.0}, Phases(100.0, 900.0, 0.0)),
        ({"queue_ms": 5000.0}, Phases(1000.0, 0.0, 0.0)),
        ({"queue_ms": -5.0, "first_token_ms": 9000.0}, Phases(0.0, 1000.0, 0.0)),
        ({"status": "running"}, None),
        ({"total_ms": 0.0}, None),
        ({"status": "error", "first_token_ms": 0.0}, None),
        ({"status": "error"}, Phases(100.0, 300.0, 600.0)),
    ],
)
def test_phases_always_make_up_the_whole(changes: dict[str, object], expected: Phases | None) -> None:
    assert phases(request(**changes)) == expected


@pytest.mark.parametrize("width", [3, 12, 40])
@pytest.mark.parametrize("values", [(1, 1, 1), (0, 0, 9), (1, 0, 10_000), (9_999, 1, 1), (0.001, 5, 0)])
def test_the_bar_is_as_wide_as_asked_and_to_scale(values: tuple[float, float, float], width: int) -> None:
    text = plain((bar_spans(Phases(*values), width),))
    assert len(text) == width
    shown = [text.count(glyph) for glyph in (QUEUE, PREFILL, DECODE)]
    total = sum(values)
    for count, value in zip(shown, values, strict=True):
        assert (count > 0) == (value > 0)
        assert abs(count - value / total * width) <= 2
    assert text == QUEUE * shown[0] + PREFILL * shown[1] + DECODE * shown[2]


@pytest.mark.parametrize("width", [30, 56, 72, 76, 114, 290])
def test_rows_fit_and_stand_below_their_names(width: int) -> None:
    names = plain((header(width),))
    for row in chosen_requests(VIEW, "all"):
        text = plain((request_line(row, VIEW, width),))
        assert cells(text) <= max(width, cells(names))
        at = names.index("model")
        assert text[at - 2 : at] == "  "
        assert text[at:].startswith(("SmolLM2", "Qwen3"))
    if width >= 56:
        assert cells(names) <= width


def test_narrow_rows_keep_what_matters_most() -> None:
    titles = [[column.title for column in columns(width)[0]] for width in (56, 76, 114, 290)]
    assert titles[0] == ["state", "time", "total", "tok/s"]
    assert "tokens" in titles[1]
    assert {"queue", "prefill", "decode", "phases"} <= set(titles[2])
    assert len(titles[3]) == 11


def test_lists_are_narrowed_and_say_when_they_are_empty() -> None:
    assert [len(chosen_requests(VIEW, shown)) for shown in SHOWN] == [8, 2, 1]
    assert [row.id for row in chosen_requests(VIEW, "running")] == ["a7", "a6"]
    assert "No request is failed." in plain(empty_requests(VIEW, "failed"))
    assert "looking for" in plain(empty_requests(NodeView(), "all"))


def test_facts_tell_what_happened_and_where() -> None:
    by_id = {str(row.id): row for row in chosen_requests(VIEW, "all")}
    told = {name: plain(request_facts(row, VIEW, 60)) for name, row in by_id.items()}
    assert "256 cached" in told["a1"] and "63.5 tok/s" in told["a1"]
    assert "attic" in told["a2"] and "reached its limit" in told["a2"]
    assert "out of memory" in told["a3"] and "40 ms, before the first token" in told["a3"]
    assert "cellar" in told["a4"]
    stale = NodeView(snapshot=VIEW.snapshot, link="lost", wall=VIEW.wall, silent_for=9)
    assert "stale" in plain(request_facts(by_id["a1"], stale, 60))


def test_routes_and_times_of_any_kind_are_words() -> None:
    assert route(request(route="/v1/chat/completions")) == "chat"
    assert route(request(route="/v1/tokenize")) == "tokenize"
    assert route(request(route="\x1b[2J")) == "other"
    for at in (-1e18, 0.0, 1e300):
        assert plain((request_line(request(started_at=at), VIEW, 80),))


def test_the_copied_line_reads_back() -> None:
    row = request(error="a\nb")
    assert "\n" not in as_json(row)
    assert msgspec.json.decode(as_json(row), type=RequestView) == row
