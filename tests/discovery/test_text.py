"""Texts from other machines never command a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.discovery.text import clean_text


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"),
        ("a\u202eb", "a\ufffdb"),
        ("two\nlines\r\n", "two lines"),
        ("zero\u200bwidth", "zero\ufffdwidth"),
        ("\U000e0041tag", "\ufffdtag"),
        ("Živa 机 👩\u200d💻", "Živa 机 👩\u200d💻"),
        ("[bold]markup[/]", "[bold]markup[/]"),
        ("x" * 100, "x" * 63 + "…"),
    ],
)
def test_what_is_shown(hostile: str, shown: str) -> None:
    assert clean_text(hostile, 64) == shown


@given(st.text(), st.integers(1, 80))
def test_always_short_and_printable(text: str, limit: int) -> None:
    shown = clean_text(text, limit)
    assert len(shown) <= limit
    assert all(c.isprintable() or c in "\u200c\u200d" for c in shown)
    assert clean_text(shown, limit) == shown
