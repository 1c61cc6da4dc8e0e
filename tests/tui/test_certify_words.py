"""What the page of certificates says, without a screen."""

import pytest

from meshllm_core.api.schema_certify import ReviewedRow
from meshllm_core.state import events as ev
from meshllm_tui.certify_evidence import measurement_lines, review_lines
from meshllm_tui.certify_words import (
    VERDICTS,
    Measurement,
    Review,
    certification_lines,
    matches,
    measurement_card,
    opposites,
    read_codecs,
    read_cuts,
    records_of,
    review_line,
)
from meshllm_tui.cleaning import cells
from meshllm_tui.present import plain
from tests.tui.certify_samples import DONE, GOING, STARTED, certificates, measuring, row
from tests.tui.mesh_samples import joined, meshed, peer
from tests.tui.samples import START, fold

NOW = START + 200
HOSTILE = "\x1b]0;owned\x07[red]\u202eevil\n\n\x00"


def families() -> dict[str, ReviewedRow]:
    return {one.family: one for one in certificates().reviewed}


def review(family: str) -> Review:
    return next(one for one in records_of(certificates())[1] if one.row.family == family)


def test_a_verdict_is_a_word_with_a_glyph() -> None:
    assert [VERDICTS[name].word for name in ("exact", "validated", "rejected", "untested")] == [
        "exact",
        "bounded",
        "rejected",
        "not measured",
    ]
    assert len({state.glyph for state in VERDICTS.values()}) == 4


def test_codecs_of_one_measurement_are_one_record() -> None:
    measured, reviews = records_of(certificates())
    assert [[one.codec for one in each.rows] for each in measured] == [["f16", "bf16", "q8", "q8x"], ["q8"]]
    assert len(reviews) == len(certificates().reviewed)
    keys = {each.key for each in measured} | {each.key for each in reviews}
    assert len(keys) == len(measured) + len(reviews)


@pytest.mark.parametrize(
    ("one", "other"),
    [("deepseek", "deepseek2"), ("gemma3", "gemma3n"), ("olmo", "olmo2"), ("rwkv7", "rwkv7")],
)
def test_opposite_neighbours_stand_side_by_side(one: str, other: str) -> None:
    record = review(one)
    assert other in [each.family for each in record.opposite]
    text = plain(review_lines(record, 80))
    lines = text.splitlines()
    names = next(line for line in lines if line.split() == [one, other])
    verdicts = lines[lines.index(names) + 1]
    assert "bounded" in verdicts
    assert "rejected" in verdicts
    means = "decides nothing" if one == other else "a look-alike name means nothing"
    assert means in text


def test_neighbours_that_agree_or_were_not_tried_are_no_opposites() -> None:
    known = families()
    assert "deepseek3" not in [each.family for each in opposites(known["deepseek"], known.values())]
    assert opposites(known["deepseek3"], known.values()) == ()
    assert opposites(known["mamba"], known.values()) == ()
    assert opposites(known["llama"], known.values()) == ()


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("gemma3n", ["gemma3n"]),
        ("DEEPSEEK rejected", ["deepseek", "deepseek2ocr"]),
        ("not measured deepseek", ["deepseek3"]),
        ("nothing-like-that", []),
    ],
)
def test_a_search_finds_families_models_and_verdicts(search: str, found: list[str]) -> None:
    reviews = records_of(certificates())[1]
    assert [each.row.family for each in reviews if matches(each, search)] == found


def test_a_search_finds_measurements_by_cut_and_codec() -> None:
    mine, other = records_of(certificates())[0]
    assert matches(mine, "smollm2 cut at 15 q8x bounded")
    assert matches(other, "qwen3 12 24")
    assert not matches(other, "q8x")


def test_the_evidence_has_the_floor_and_the_figures() -> None:
    mine = records_of(certificates())[0][0]
    text = plain(measurement_lines(mine, meshed(), NOW, 80))
    for words in (
        "cut at 15: 2 stages on cpu",
        "2 h 3 min ago by this node",
        "1e-05 at the cut, 3 seeds",
        "2,231 of 2,240 (99.6 %)",
        "1.2e-06 nats",
        "4.1e-02 nats, 34,166.7 × the floor",
        "1.1 s.e. below the floor",
        "it takes 2000 and 3",
        "at most twice what noise does",
        "llama-cpp-python 0.3.36",
    ):
        assert words in text, words
    assert "Not trusted here" not in text


def test_what_others_measured_is_said_to_decide_nothing_here() -> None:
    other = records_of(certificates())[0][1]
    text = plain(measurement_lines(other, fold(*joined(peer("attic")), snapshot=meshed()), NOW, 80))
    assert "by attic" in text
    assert "Not trusted here, so it decides nothing" in text
    unknown = Measurement((row("q8", "exact", 1e-6, own=False, signer="ab" * 32),))
    assert "by node ababababab" in plain(measurement_lines(unknown, None, NOW, 80))


def test_what_a_node_of_the_same_owner_measured_is_said_to_decide() -> None:
    known = Measurement((row("q8", "exact", 1e-6, own=False, same_owner=True, signer="ab" * 32),))
    text = plain(measurement_lines(known, None, NOW, 80))
    assert "a node of your owner" in text
    assert "Not trusted here" not in text


@pytest.mark.parametrize("width", [20, 35, 56, 200])
def test_rows_fit(width: int) -> None:
    measured, reviews = records_of(certificates())
    for measurement in measured:
        assert all(cells(plain((one,))) <= max(width, 26) for one in measurement_card(measurement, width))
    for record in reviews:
        assert cells(plain((review_line(record, width),))) <= max(width, 35)
    for view in (None, measuring().certification):
        assert all(cells(plain((one,))) <= max(width, 64) for one in certification_lines(view, NOW, width))


def test_hostile_words_are_shown_as_they_are() -> None:
    bad = Measurement((row("q8", "exact", 1e-6, name=HOSTILE, backend=HOSTILE[:9], llama_cpp=HOSTILE),))
    text = plain((*measurement_card(bad, 60), *measurement_lines(bad, None, NOW, 60)))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[red]evil" in text
    failed = ev.CertificationEnded(at=START + 190, outcome="failed", message=HOSTILE, hint=HOSTILE)
    text = plain(certification_lines(fold(STARTED, failed).certification, NOW, 60))
    assert "\x1b" not in text


def test_the_measurement_is_told_at_every_stage() -> None:
    def told(*happened: ev.AnyEvent, width: int = 100) -> str:
        return plain(certification_lines(fold(*happened).certification, NOW, width))

    assert "Press m to measure" in told()
    hashing = ev.CertificationProgressed(at=START + 81, phase="hashing", done=10 << 20, total=98 << 20)
    assert "10.0 of 98.0 MiB, 2 min so far, step 1 of 4: reading" in told(STARTED, hashing)
    writing = ev.CertificationProgressed(at=START + 82, phase="writing", done=15, total=30)
    assert "from layer 15 of 30" in told(STARTED, writing)
    assert "640 of 2,240 positions" in told(STARTED, GOING)
    assert "29 %" in told(STARTED, GOING)
    done = told(STARTED, GOING, DONE)
    assert "measured and signed 10 s ago" in done
    assert "q8 ✗ rejected  q8x ◐ bounded" in done
    assert "Nothing is kept." in told(STARTED, ev.CertificationEnded(at=START + 190, outcome="cancelled"))
    failed = ev.CertificationEnded(at=START + 190, outcome="failed", message="It broke.", hint="Mend it.")
    assert "✗ failed 10 s ago: It broke.\nMend it." in told(STARTED, failed)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        *(("", ()), ("10", (10,)), ("10, 20", (10, 20)), ("10 20", (10, 20))),
        *((wrong, str) for wrong in ("ten", "20,10", "0", "5,5", "123456", "-3")),
    ],
)
def test_cuts_are_read(text: str, meant: object) -> None:
    found = read_cuts(text)
    assert isinstance(found, str) if meant is str else found == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", ()),
        ("q8", ("q8",)),
        ("F16, q8x q8x", ("f16", "q8x")),
        ("q9", "Codecs are"),
        ("f32", "nothing to"),
    ],
)
def test_codecs_are_read(text: str, meant: object) -> None:
    found = read_codecs(text)
    assert meant in found if isinstance(meant, str) else found == meant
