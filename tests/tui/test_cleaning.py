"""Text from outside cannot act on the terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_tui.cleaning import cells, clean, fit, one_line


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b31mred", "red"),
        ("\x9d0;title\x9cafter", "after"),
        ("\x1bPq#0\x1b\\sixel", "sixel"),
        ("\x1bcreset", "reset"),
        ("\x1b]52;c;never ends", "52;c;never ends"),
        ("a\x00b\x07c\x08d\x7fe", "abcde"),
        ("a\tb", "a    b"),
        ("one\r\ntwo\u2028three", "one\ntwo\nthree"),
        ("evil\u202egnp.exe", "evilgnp.exe"),
        ("\u2066iso\u2069 \u061c\u200e\u200f\ufeff\u00ad\u200b", "iso "),
        ("tag\U000e0041\U000e0042", "tag"),
        ("lone\ud800half", "lone\ufffdhalf"),
        ("z" + "\u0301" * 40, "z" + "\u0301" * 3),
        ("[red]not markup[/]", "[red]not markup[/]"),
        ("日本 \N{FAMILY}", "日本 \N{FAMILY}"),
    ],
)
def test_cleaned(given_text: str, shown: str) -> None:
    assert clean(given_text) == shown


@given(st.text())
def test_never_leaves_a_control(text: str) -> None:
    for character in clean(text):
        assert character == "\n" or unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp"), character
        assert unicodedata.bidirectional(character) not in (
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
        )


@given(st.text())
def test_cleaning_twice_changes_nothing(text: str) -> None:
    assert clean(clean(text)) == clean(text)


def test_long_text_is_cut() -> None:
    assert clean("x" * 100, 10) == "x" * 9 + "…"
    assert one_line("a\nb\n" * 1000, 9) == "a b a b …"


def test_a_megabyte_of_escapes_is_quick() -> None:
    assert len(clean("\x1b[" * 500_000)) <= 20_000


@given(st.text(), st.integers(min_value=1, max_value=30))
def test_fits(text: str, width: int) -> None:
    assert cells(fit(text, width)) <= width


def test_wide_characters_take_two_cells() -> None:
    assert cells("日本") == 4
    assert fit("日本語", 5) == "日本…"


@given(st.text(st.characters(max_codepoint=127)), st.integers(min_value=1, max_value=30))
def test_plain_text_is_treated_as_any_other(text: str, width: int) -> None:
    assert clean(f"é{text}") == f"é{clean(text)}"
    assert one_line(f"é {text} é") == " ".join(f"é {one_line(text)} é".split())
    assert cells(clean(text)) == cells(f"é{clean(text)}") - 1
    short = one_line(text)
    assert fit(text, width) == (short if len(short) <= width else f"{short[: width - 1]}…")


@given(st.text(max_size=20))
def test_cells_are_those_of_its_characters(text: str) -> None:
    assert cells(text) == sum(map(cells, text))
