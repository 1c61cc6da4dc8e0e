"""Texts that other machines wrote, made safe to show and to log."""

import unicodedata

_JOINERS = "\u200c\u200d"
"""Invisible, but part of scripts and of emoji."""


def clean_text(text: str, limit: int) -> str:
    """At most `limit` characters of `text` on one line, without what commands a terminal or hides letters.

    Escapes, controls, changes of direction and other invisible characters become U+FFFD; white space
    of any kind becomes one blank.
    """
    spaced = " ".join(text[: limit * 4].split())
    shown = "".join(c if _is_visible(c) else "\ufffd" for c in spaced)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _is_visible(character: str) -> bool:
    if character in _JOINERS or character == " ":
        return True
    return character.isprintable() and unicodedata.category(character) not in ("Cf", "Co", "Cn", "Zl", "Zp")
