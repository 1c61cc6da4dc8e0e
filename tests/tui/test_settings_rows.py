"""What the page of settings says, without a screen."""

import msgspec
import pytest

from meshllm_tui.cleaning import cells
from meshllm_tui.present import plain
from meshllm_tui.settings_rows import (
    detail_lines,
    matches,
    problem_lines,
    row_line,
    source_word,
    state_words,
    waits,
)
from tests.tui.certify_samples import FILE, config

ROWS = {row.key: row for row in config().rows}


def test_sources_are_told_by_name() -> None:
    assert [source_word(ROWS[key]) for key in ("batch", "lanes", "ctx_size", "port")] == [
        "default",
        "config.toml",
        "--ctx-size",
        "MESHLLM_PORT",
    ]


@pytest.mark.parametrize("width", [44, 56, 120])
def test_rows_fit_and_the_sources_are_aligned(width: int) -> None:
    lines = [plain((row_line(row, width),)) for row in ROWS.values()]
    assert {cells(each) for each in lines} == {width}


def test_a_change_that_waits_is_shown_beside_the_value() -> None:
    row = ROWS["queue_limit"]
    assert waits(row)
    assert "64 → 17" in plain((row_line(row, 80),))
    assert "17 from the node's next start" in plain(detail_lines(row, FILE))
    assert state_words(config()) == "1 change waits for the node's next start"
    two = config(batch={"next_value": "256"})
    assert state_words(two) == "2 changes wait for the node's next start"


def test_details_have_the_help_and_where_the_value_comes_from() -> None:
    text = plain(detail_lines(ROWS["lanes"], FILE))
    for words in (
        "Requests computed at the same time",
        "from      config.toml:3",
        FILE,
        "default   4",
        "a whole number from 1 to 64",
        "MESHLLM_LANES",
        "--lanes",
    ):
        assert words in text, words
    assert "MESHLLM_PORT wins over config.toml" in plain(detail_lines(ROWS["port"], FILE))
    assert "never leaves the node" in plain(detail_lines(ROWS["api_key"], FILE))


@pytest.mark.parametrize(
    ("search", "keys"),
    [
        ("lanes requests", ["lanes"]),
        ("meshllm_port", ["port"]),
        ("--ctx-size", ["ctx_size"]),
        ("config.toml", ["lanes", "api_key"]),
        ("zzz", []),
    ],
)
def test_a_search_finds_names_help_and_sources(search: str, keys: list[str]) -> None:
    assert [row.key for row in ROWS.values() if matches(row, search)] == keys


def test_changed_finds_what_is_not_as_it_came() -> None:
    found = [row.key for row in ROWS.values() if matches(row, "changed")]
    assert {"lanes", "ctx_size", "port", "api_key", "queue_limit"} <= set(found)
    assert "batch" not in found


def test_what_the_dashboard_reads_waits_for_no_node() -> None:
    row = msgspec.structs.replace(ROWS["theme"], next_value='"meshllm-light"')
    assert not waits(row)
    assert '"meshllm-light"' in plain((row_line(row, 80),))
    assert "count at once" in plain(detail_lines(row, FILE))
    assert "when the dashboard is opened again" in plain(detail_lines(ROWS["keys"], FILE))
    assert "hold Shift" in plain(detail_lines(ROWS["mouse"], FILE))


def test_a_file_that_would_not_be_accepted_is_told() -> None:
    assert problem_lines(config()) == ()
    assert "no key 'prot'" in plain(problem_lines(config(problem=f"{FILE}:1: there is no key 'prot'.")))
