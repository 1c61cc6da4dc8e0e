"""Text that is certain, whatever the chunking."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.engine.text import TextAssembler


def _feed(data: bytes, cuts: list[int], stops: tuple[str, ...]) -> tuple[list[str], TextAssembler]:
    assembler = TextAssembler(stops)
    points = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    parts = [data[a:b] for a, b in itertools.pairwise(points)]
    texts = [assembler.feed(part) for part in parts]
    texts.append(assembler.feed(b"", final=True))
    return texts, assembler


@given(st.text(alphabet="abxß€😀", max_size=30), st.lists(st.integers(0, 100), max_size=10))
def test_without_stops_nothing_is_lost_or_broken(text: str, cuts: list[int]) -> None:
    texts, _ = _feed(text.encode(), cuts, ())
    assert "".join(texts) == text
    assert all("\ufffd" not in part for part in texts)


@given(
    st.text(alphabet="abc", max_size=30),
    st.lists(st.text(alphabet="abc", min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.integers(0, 40), max_size=12),
)
def test_text_ends_before_a_stop_string(text: str, stops: list[str], cuts: list[int]) -> None:
    texts, assembler = _feed(text.encode(), cuts, tuple(stops))
    joined = "".join(texts)
    assert text.startswith(joined)
    assert not any(stop in joined for stop in stops)
    if any(stop in text for stop in stops):
        assert assembler.stopped_by in stops
        assert text[len(joined) :].startswith(assembler.stopped_by)
    else:
        assert joined == text


def test_bytes_that_are_not_utf8_become_the_replacement_character() -> None:
    texts, _ = _feed(b"a\xff\xe2\x82", [1, 2], ())
    assert "".join(texts) == "a\ufffd\ufffd"


def test_what_could_begin_a_stop_string_is_held_and_then_given() -> None:
    assembler = TextAssembler(("STOP",))
    assert assembler.feed(b"go ST") == "go "
    assert assembler.feed(b"AY") == "STAY"
    assert assembler.feed(b" STOP now") == " "
    assert assembler.stopped_by == "STOP"
    assert assembler.feed(b"more") == ""
