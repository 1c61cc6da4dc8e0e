"""Patterns: that what a grammar is given fits the same texts, and what is refused."""

import re

import pytest

from meshllm_core.engine.pattern import plain_pattern
from meshllm_core.errors import InvalidRequest

FITTING = [
    (r"^\d{3}-\w+$", "123-a_Z", "12-a"),
    (r"^[\w.-]+@[^@\s]+\.[a-z]{2,4}$", "a.b-c@d.org", "a b@d.org"),
    (r"^[+-]?\d+(?:\.\d+)?$", "-3.25", "3."),
    (r"^[!-~]+$", "a#b", "a b"),
    (r"^(red|green|[^a-z])$", "red", "blue"),
    (r"^a.c$", "abc", "abbc"),
    (r"^\u00e9\x41\/\-\$$", "\u00e9A/-$", "eA/-$"),
    (r"^[\]\[]+$", "[]", "()"),
    (r"^x*?y+?$", "xxy", "x"),
    (r"^\S\D\W$", "ab-", " ab"),
    (r"^[a-]$", "-", "b"),
    ("^$", "", "a"),
]


@pytest.mark.parametrize(("pattern", "good", "bad"), FITTING, ids=[pattern for pattern, _, _ in FITTING])
def test_fits_the_same(pattern: str, good: str, bad: str) -> None:
    plain = re.compile(plain_pattern(pattern))
    assert re.compile(pattern).fullmatch(good)
    assert plain.fullmatch(good)
    assert not plain.fullmatch(bad)


@pytest.mark.parametrize("pattern", [r"^.$", r"^[^a]$", r"^\S$", r"^\D$", r"^[!-~]$", r"^[\x00-\xff]$"])
@pytest.mark.parametrize("character", ['"', "\\", "\n", "\x1f"])
def test_what_json_escapes_is_left_out(pattern: str, character: str) -> None:
    assert not re.compile(plain_pattern(pattern)).fullmatch(character)


@pytest.mark.parametrize(
    "pattern",
    [
        *("abc", "^abc", "^", "^(a$", "^a)$", "^[a$", r"^[z-a]$", r"^[\d-z]$", "^*$", "^(|*)$", "^a{$"),
        *("^a{x}$", "^a{3,2}$", "^a{1000000000}$", "^a{0,257}$", r"^(?=a)b$", r"^(?P<n>a)$", r"^\bword$"),
        *(r"^(a)\1$", r"^\p{L}+$", "^a$b$", '^"$', r"^\\$", r"^\n$", "^\n$", r"^[\\]$", "^a**$"),
    ],
)
def test_refused(pattern: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot be enforced"):
        plain_pattern(pattern)
