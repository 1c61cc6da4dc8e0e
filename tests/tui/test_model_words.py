"""The words of the page of models: what each row and question says, at every width, whatever a name holds."""

from collections.abc import Callable

import pytest

from meshllm_core.api.schema_models import FitMark
from meshllm_core.state.download_events import DownloadRow
from meshllm_tui.cleaning import cells
from meshllm_tui.fit_words import fit_figures, fit_sentence, fit_state
from meshllm_tui.models_rows import (
    catalog_row,
    download_rows,
    hub_row,
    library_rows,
    library_state,
    running_rows,
)
from meshllm_tui.models_words import (
    Asked,
    Offer,
    cancel_question,
    catalog_facts,
    delete_obstacle,
    delete_question,
    empty_downloads,
    empty_running,
    hub_facts,
    library_summary,
    matching,
    offer_question,
)
from meshllm_tui.present import Line, NodeView, plain
from tests.tui.mesh_samples import meshed
from tests.tui.model_samples import (
    HERE,
    NOWHERE,
    OTHER,
    SPLIT,
    UNKNOWN,
    catalog,
    download,
    entry,
    found,
    kept,
)
from tests.tui.samples import GIB, MIB, bare
from tests.tui.test_split import EVIL, spread

WIDTHS = (20, 33, 45, 46, 57, 80, 200)
MARKS = (HERE, OTHER, SPLIT, NOWHERE, UNKNOWN)


def text(*lines: Line) -> str:
    """Lines as plain text."""
    return plain(lines)


@pytest.mark.parametrize(
    ("mark", "glyph", "word", "sentence"),
    [
        (HERE, "●", "fits here", "It needs 5.0 GiB of memory; 9.0 GiB are free for models here."),
        (OTHER, "○", "fits attic", "more than is free here; attic has 20.0 GiB free."),
        (SPLIT, "◐", "split over 3", "this machine, attic and cellar together have 33.0 GiB."),
        (NOWHERE, "✗", "too large", "It needs 90.0 GiB of memory; all machines that are there have 33.0"),
        (UNKNOWN, "·", "size unknown", "known once its file is listed"),
    ],
)
def test_a_mark_is_a_glyph_a_word_and_a_sentence(mark: FitMark, glyph: str, word: str, sentence: str) -> None:
    state = fit_state(mark)
    assert (state.glyph, state.word) == (glyph, word)
    assert sentence in fit_sentence(mark)


def test_many_machines_of_a_split_are_counted() -> None:
    many = FitMark(
        kind="split", need_bytes=GIB, room_bytes=GIB, machines=tuple(f"machine-{n}" for n in range(40))
    )
    assert "this machine and 39 others" in fit_sentence(many)
    assert fit_state(many).word == "split over 40"


@pytest.mark.parametrize("width", WIDTHS)
def test_no_row_is_wider_than_its_pane(width: int) -> None:
    odd = kept(EVIL, bytes_here=1 << 50, complete=False, kind="layers", fit=SPLIT)
    rows: list[Line] = [
        line for model in (odd, kept("a"), kept("x" * 300)) for line in library_rows(model, width)
    ]
    rows += [
        catalog_row(entry(name, 900.0, mark), width) for mark in MARKS for name in ("a", "x" * 300, EVIL)
    ]
    rows += [hub_row(found("o/" + "n" * 90, fit=mark, bytes=1 << 50), width) for mark in MARKS]
    rows += [line for _, lines in running_rows(meshed(), width) for line in lines]
    rows += [line for _, lines in running_rows(spread(done=True), width) for line in lines]
    rows += download_rows(download(model=EVIL * 9), width)
    rows += download_rows(download(state="waiting", bytes_total=0), width)
    for row in rows:
        said = text(row)
        assert cells(said) <= width, said
        assert said.isprintable(), said


def test_names_from_outside_do_nothing() -> None:
    said = text(*(line for _, lines in running_rows(meshed(), 60) for line in lines))
    assert "\x1b" not in said
    for lines in (
        hub_facts(found(architecture=EVIL, quants=(EVIL,) * 40), 60),
        catalog_facts(entry("a", 1.0, HERE, about=EVIL, licence=EVIL), 60),
        download_rows(download(state="failed", message=EVIL, hint=EVIL), 60),
    ):
        assert all(text(line).isprintable() for line in lines)
    title, words, _ = offer_question(Offer(EVIL, EVIL, GIB, OTHER))
    assert title.isprintable() and words.isprintable()


def test_what_runs_where_is_told() -> None:
    said = text(*(line for _, lines in running_rows(meshed(), 60) for line in lines))
    for words in ("on this machine · 61.2 tok/s · context 8,192", "on attic · 41.2 tok/s", "✗ failed"):
        assert words in said
    keys = [key for key, _ in running_rows(meshed(), 60)]
    assert len(keys) == len(set(keys))
    split = text(*(line for _, lines in running_rows(spread(done=True), 60) for line in lines))
    assert "machines" in split and "layers" in split


def test_members_that_are_gone_run_nothing() -> None:
    snapshot = meshed()
    gone = {row.node for row in snapshot.peers if row.status not in ("alive", "suspect")}
    assert gone
    assert not any(
        key.split(":")[1] in gone for key, _ in running_rows(snapshot, 60) if key.startswith("peer:")
    )


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (download(), "40 %  2.0 of 5.0 GiB · 12.5 MiB/s · 4 min left"),
        (download(bytes_per_second=0.0), "no bytes at the moment"),
        (download(state="paused"), "‖ paused"),
        (download(state="stopping"), "◍ stopping"),
        (download(state="waiting", bytes_total=0), "after the one before it"),
        (download(bytes_total=0), "asking the hub"),
        (
            download(state="failed", message="The disk is full.", hint="Free some."),
            "The disk is full.\nFree some.",
        ),
        (download(state="done", message="It was here already."), "5.0 GiB · It was here already."),
    ],
)
def test_a_download_says_how_far_it_is(row: DownloadRow, words: str) -> None:
    assert words in text(*download_rows(row, 100))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"loaded": True, "used_by": (1,)}, "loaded"),
        ({"used_by": (1,)}, "in use"),
        ({"kind": "layers", "complete": False}, "some layers"),
        ({"complete": False, "bytes_here": 25 * MIB, "bytes_total": 100 * MIB}, "25 % here"),
        ({"comes_with": True}, "built in"),
        ({}, ""),
    ],
)
def test_a_model_on_the_disk_says_what_it_is_to_the_node(changes: dict[str, object], word: str) -> None:
    assert library_state(kept("a", **changes)).word == word


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"comes_with": True, "loaded": True}, "part of meshllm's installation"),
        ({"loaded": True}, "Unload it first"),
        ({"used_by": (42,)}, "in use by process 42"),
        ({}, ""),
    ],
)
def test_what_is_in_use_is_not_deleted(changes: dict[str, object], words: str) -> None:
    obstacle = delete_obstacle(kept("a", **changes))
    assert words in obstacle if words else not obstacle


def test_deleting_says_what_is_lost() -> None:
    assert "can be downloaded again" in delete_question(kept("a"))[1]
    assert "cannot be fetched again" in delete_question(kept("a", ref="/models/a.gguf"))[1]
    assert "What has arrived" in delete_question(kept("a", complete=False))[1]
    assert "2.0 GiB that arrived are removed" in cancel_question(download())[1]


@pytest.mark.parametrize(
    ("mark", "here", "answers"),
    [
        (HERE, False, ["download", "load", "cancel"]),
        (HERE, True, ["load", "cancel"]),
        (UNKNOWN, False, ["download", "load", "cancel"]),
        (SPLIT, False, ["plan", "split", "cancel"]),
        (OTHER, False, ["cancel", "any"]),
        (OTHER, True, ["cancel"]),
        (NOWHERE, False, ["cancel", "any"]),
    ],
)
def test_what_is_asked_depends_on_where_it_fits(mark: FitMark, here: bool, answers: list[str]) -> None:
    _, words, offered = offer_question(Offer("a", "a", GIB, mark, here))
    assert [key for key, _ in offered] == answers
    assert ("disk" in words) == here or "download of" in words


def test_panes_without_rows_say_why() -> None:
    nobody = NodeView(silent_for=9.0, trouble="nobody there")
    for said in (empty_running(nobody), empty_downloads(nobody), Asked[int]().note(nobody, "reading…")):
        assert "no node answers" in plain(said)
    asked: Asked[int] = Asked(error=("It failed.", "Do this."))
    assert "It failed.\nDo this.\nR asks again." in plain(asked.note(NodeView(bare()), "reading…"))
    assert "◌ reading…" in plain(Asked[int]().note(NodeView(bare()), "reading…"))
    assert Asked(3).note(NodeView(bare()), "x") == ()
    assert "! stale: It failed." in Asked(3, ("It failed.", "")).stale(NodeView(bare(), link="live"))
    assert "no answer for 9 s" in Asked(3).stale(NodeView(bare(), link="lost", silent_for=9.0))


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", 6),
        ("qwen3", 4),
        ("QWEN3 8B", 1),
        ("languages", 6),
        ("nothing", 0),
    ],
)
def test_the_catalogue_is_searched_by_all_words(query: str, names: int) -> None:
    assert len(matching(catalog().models, query)) == names


@pytest.mark.parametrize("row", [catalog_row, hub_row])
def test_columns_stand_below_each_other(row: Callable[..., Line]) -> None:
    models = catalog().models if row is catalog_row else (found(), found("a/b", fit=SPLIT))
    places = {text(row(model, 57)).index(" GiB") for model in models}
    assert len(places) == 1


def test_figures_are_short() -> None:
    assert fit_figures(HERE) == "Needs 5.0 GiB; 9.0 GiB are free here"
    assert all(cells(fit_figures(mark)) < 80 for mark in MARKS)


@pytest.mark.parametrize("room", [25, 30, 42, 60])
def test_how_full_the_disk_is_is_said_whole(room: int) -> None:
    words = library_summary("/models/of/ann/hub", MIB, 2 * GIB, room)
    assert words.startswith("1.0 MiB used, 2.0 GiB free")
    assert cells(words) <= max(room, 26)
    assert ("/models/of" in words) == (room >= 42), "a few characters of a path say nothing"
    assert library_summary("", MIB, GIB, room) == ""
