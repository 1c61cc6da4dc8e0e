"""The only writer to stdout: data, as text for a person or as one JSON document for a program."""

import os
import sys
from collections.abc import Sequence
from typing import Literal

import msgspec

Tone = Literal["good", "bad", "warn", "muted", "strong"]

_CODES: dict[Tone, str] = {"good": "32", "bad": "31", "warn": "33", "muted": "2", "strong": "1"}
_JOINERS = "\u200c\u200d"
"""Invisible, but part of scripts and of emoji."""


def emit(text: str = "") -> None:
    """A line of data."""
    write(f"{text}\n")


def emit_json(document: object) -> None:
    """The one document of a `--json` run: indented, UTF-8 whatever the locale, as JSON demands."""
    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    sys.stdout.buffer.flush()


def write(text: str) -> None:
    """Text as it is, without a line end, flushed: an answer is read while it is written."""
    sys.stdout.write(
        text.encode(sys.stdout.encoding or "utf-8", "replace").decode(sys.stdout.encoding or "utf-8")
    )
    sys.stdout.flush()


def is_terminal() -> bool:
    """Whether a person looks at stdout, on something that can move its cursor."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, tone: Tone) -> str:
    """Colour, where colour is wanted: never when piped, never under NO_COLOR."""
    if not is_terminal() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_CODES[tone]}m{text}\x1b[0m"


def clean(text: str) -> str:
    """`text` without what would command a terminal: escapes, controls, changes of direction."""
    return "".join(c if c.isprintable() or c in "\n\t" or c in _JOINERS else "\ufffd" for c in text)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Columns by two spaces, headings in capitals; the columns in `right` are aligned there."""
    lines = [[heading.upper() for heading in headings], *([clean(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    shown = []
    for line in lines:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        shown.append("  ".join(cells).rstrip())
    return "\n".join(shown)


def fields(rows: Sequence[tuple[str, str]]) -> str:
    """Names and values, one pair a line."""
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name.ljust(width)}  {clean(value)}" for name, value in rows)
