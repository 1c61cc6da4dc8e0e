"""History, filter and log text, without Textual."""

import time

import msgspec
import pytest

from meshllm_core.api.schema_logs import LogPiece, LogRow
from meshllm_core.state import events as ev
from meshllm_core.state.snapshot import NOTICES_KEPT, NodeSnapshot, Notice
from meshllm_tui.activity_words import KEPT, History, Least, activity_under, empty_activity, matching
from meshllm_tui.log_text import LINES_KEPT, LogText, empty_log, log_choices, with_words
from meshllm_tui.present import NodeView, plain
from tests.tui.request_samples import busy, finished, started
from tests.tui.samples import START, fold


def view(snapshot: NodeSnapshot | None, *local: Notice) -> NodeView:
    return NodeView(snapshot=snapshot, link="live", local=local, wall=START + 300)


def said(text: str, at: float = 1, level: ev.NoticeLevel = "info") -> ev.NoticeLogged:
    return ev.NoticeLogged(at=START + at, level=level, source="mesh", text=text)


def texts(history: History) -> list[str]:
    return [entry.text for entry in history.entries]


def test_each_line_is_taken_once_and_stands_in_its_time() -> None:
    history, snapshot = History(), fold(said("one", 1), said("two", 2), said("two", 2))
    assert history.take(view(snapshot))
    assert not history.take(view(snapshot))
    again = msgspec.json.decode(msgspec.json.encode(snapshot), type=NodeSnapshot)
    assert not history.take(view(again))
    own = Notice(at=START + 1.5, level="warning", source="dashboard", text="lost the node")
    assert history.take(view(fold(said("three", 3), snapshot=again), own))
    assert texts(history) == ["one", "lost the node", "two", "two", "three"]
    assert len({entry.key for entry in history.entries}) == 5


def test_it_keeps_more_than_the_node_and_says_what_was_missed() -> None:
    history, snapshot = History(), NodeSnapshot()
    for number in range(300):
        snapshot = fold(said(f"line {number}", number), snapshot=snapshot)
        history.take(view(snapshot))
    assert texts(history) == [f"line {number}" for number in range(300)]
    snapshot = fold(*(said(f"later {number}", 400 + number) for number in range(500)), snapshot=snapshot)
    history.take(view(snapshot))
    assert texts(history)[300] == "what happened in between was not kept"
    assert texts(history)[301] == f"later {500 - NOTICES_KEPT}"


def test_memory_is_bounded_over_a_long_time() -> None:
    history, snapshot = History(), NodeSnapshot()
    for number in range(5000):
        snapshot = fold(said(f"{number}", number), snapshot=snapshot)
        if number % 50 == 0:
            history.take(view(snapshot))
    assert KEPT <= len(history.entries) <= KEPT + 200
    assert texts(history)[-1] == "4950"


def test_another_node_behind_the_screen_begins_anew_without_a_gap() -> None:
    history = History()
    history.take(view(fold(said("old", 1), said("older", 1), snapshot=NodeSnapshot(started_at=1.0))))
    history.take(view(fold(said("new", 2), snapshot=NodeSnapshot(started_at=2.0))))
    assert texts(history) == ["old", "older", "new"]


def test_an_earlier_moment_of_a_recording_is_told_from_there() -> None:
    history, early = History(), fold(said("one"), said("two", 2))
    history.take(view(fold(said("three", 3), snapshot=early)))
    history.take(view(early))
    assert texts(history) == ["one", "two"]


def test_requests_are_told_when_they_end() -> None:
    history, snapshot = History(), fold(started("a", 1))
    assert not history.take(view(snapshot))
    history.take(view(fold(finished("a", 3), snapshot=snapshot)))
    assert texts(history) == ["done: chat of SmolLM2-135M-Instruct, 128 tokens in 2.5 s, 63.5 tok/s"]
    history = History()
    history.take(view(busy()))
    errors = matching(history.entries, "", "error")
    assert any("out of memory" in entry.text for entry in errors)
    assert any("on attic" in text for text in texts(history))


@pytest.mark.parametrize(
    ("words", "least", "expected"),
    [
        ("", "info", 4),
        ("ATTIC", "info", 2),
        ("attic gone", "info", 1),
        ("error", "info", 1),
        ("", "warning", 2),
        ("", "error", 1),
        ("attic", "error", 0),
        ("[", "info", 0),
    ],
)
def test_words_and_levels_narrow(words: str, least: Least, expected: int) -> None:
    history = History()
    lines = (said("Attic is there"), said("attic is gone", 2, "warning"), said("b"), said("c", 3, "error"))
    history.take(view(fold(*lines)))
    found = matching(history.entries, words, least)
    assert len(found) == expected


def test_what_is_said_without_lines() -> None:
    assert "looking for the node" in plain(empty_activity(NodeView(), 0))
    assert "Nothing has happened yet." in plain(empty_activity(view(NodeSnapshot()), 0))
    assert "None of 7 lines" in plain(empty_activity(view(NodeSnapshot()), 7))
    lost = NodeView(snapshot=NodeSnapshot(), link="lost", silent_for=9)
    assert activity_under(lost, "error", "x", False) == (
        "! stale: no answer for 9 s · with “x” · errors only · f follows"
    )


def test_texts_from_outside_are_clean_and_a_flood_is_quick() -> None:
    history = History()
    history.take(view(fold(said("\x1b[2J\u202eevil\n" + "x" * 5000))))
    assert "\x1b" not in texts(history)[0] and len(texts(history)[0]) <= 2000
    begun = time.perf_counter()
    flood = fold(*(said(f"{number} " + "y" * 10_000, number) for number in range(NOTICES_KEPT)))
    history.take(view(flood))
    matching(history.entries, "zz " * 60, "info")
    assert time.perf_counter() - begun < 2.0


def piece(text: str, start: int, **changes: object) -> LogPiece:
    end = start + len(text.encode())
    made = LogPiece(name="node", text=text, file="1-1", start=start, end=end, size=end, fresh=False)
    return msgspec.structs.replace(made, **changes)


def test_a_log_goes_on_where_it_ended() -> None:
    log = LogText("node")
    assert log.take(piece("one\n\ttwo\x1b[31m\n", 100)) == ["one", "    two"]
    assert (log.after, log.file, log.behind) == (114, "1-1", False)
    assert log.take(piece("three\n", 114, size=500)) == ["three"]
    assert log.behind
    assert log.take(piece("", 120, size=500)) == []
    assert not log.behind, "a piece without progress must not be asked for at once again"
    assert log.take(piece("new\n", 0, fresh=True)) == ["— the log begins anew —", "new"]


def test_the_lines_of_a_log_are_bounded() -> None:
    log = LogText("node")
    for _ in range(10):
        log.take(piece("line\n" * 1000 + "z" * 9000 + "\n", 0))
    assert len(log.lines) == LINES_KEPT
    assert max(map(len, log.lines)) == 2000
    assert with_words(log.lines, "LINE ine")[:1] == ["line"]
    assert with_words(log.lines, "nothing") == []


def test_logs_are_offered_with_their_size_and_age() -> None:
    rows = [
        LogRow(name="node", model="", bytes=2048, changed_at=START),
        LogRow(name="engine-a_b", model="a_b", bytes=10, changed_at=START + 290),
    ]
    assert log_choices(rows, START + 300) == [
        ("node", "the node's log  2.0 KiB, 5 min ago"),
        ("engine-a_b", "engine of a_b  10 bytes, 10 s ago"),
    ]
    assert "reading the log" in plain(empty_log(view(NodeSnapshot()), False, ""))
    assert "No line has these words." in plain(empty_log(view(NodeSnapshot()), True, "x"))
