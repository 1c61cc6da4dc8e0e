"""The characters of a token as they stand in a text: between quotes, over several lines, with spaces."""

import re
from dataclasses import dataclass

from meshllm_core.discovery.groups import normal

SEPARATORS = frozenset(" \t\r\n-‐‑‒–—_.,…\"'`´‘’“”«»*>\u00a0\u00ad\u200b\u200c\u200d\u2060\ufeff")
"""What messengers, mail and printers put between the characters of a token."""
WRONG = "?"
"""Stands for a character that is never part of a token."""

_ADJACENT = re.compile(r"(?:-?[A-Za-z0-9])*")


@dataclass(frozen=True)
class Characters:
    """What was found."""

    symbols: str
    pieces: tuple[str, ...]
    """The same, cut where the text has something between them."""
    surplus: int
    """Characters that follow without a gap after as many as were wanted."""


def collect(text: str, wanted: int) -> Characters:
    """Up to `wanted` characters of a token. What is no separator counts as one, if perhaps a wrong one."""
    symbols: list[str] = []
    pieces = [""]
    read = 0
    while read < len(text) and len(symbols) < wanted:
        character = text[read]
        read += 1
        if character in SEPARATORS:
            if pieces[-1]:
                pieces.append("")
            continue
        symbol = normal(character)
        symbols.append(symbol if len(symbol) == 1 else WRONG)
        pieces[-1] += symbols[-1]
    more = _ADJACENT.match(text, read)
    surplus = len(more.group().replace("-", "")) if more and len(symbols) == wanted else 0
    return Characters("".join(symbols), tuple(piece for piece in pieces if piece), surplus)
