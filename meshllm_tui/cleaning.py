"""Text from outside, made safe for a terminal: no escapes, no controls, no direction tricks. No Textual here.

Model names, error texts, notices and replies come over the network. They are shown as they are read,
never obeyed: a reply must not move the cursor, set the window's title or turn a line around.
"""

import re
import unicodedata
from functools import lru_cache

LINE_LIMIT = 500
"""Characters kept of a text that is shown on one line."""
TEXT_LIMIT = 20_000
"""Characters kept of a text that may have several lines."""

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]"  # CSI: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, APC, PM
    r"|\x1b[ -/]{0,16}[0-~]"  # two-character escapes
)
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U000e0000-\U000e0fff]"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_MARKS = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_STACKED_MARKS = re.compile(f"([{_MARKS}]{{3}})[{_MARKS}]+")
_BREAKS = re.compile("\r\n|[\u2028\u2029\x85]")
_SPACES = re.compile(r"\s+")


def clean(text: str, limit: int = TEXT_LIMIT) -> str:
    """`text` with line breaks kept and everything else that a terminal might act on taken out.

    Longer than `limit` characters: cut, with an ellipsis.
    """
    if len(text) > limit:
        text = text[: max(limit - 1, 0)] + "…"
    if text.isascii() and text.isprintable():
        # Nearly every text: it has nothing that could be taken out.
        return text
    text = _BREAKS.sub("\n", text)
    text = _ESCAPES.sub("", text)
    text = _UNSEEN.sub("", text)
    text = _SURROGATES.sub("\ufffd", text)
    text = _STACKED_MARKS.sub(r"\1", text)
    return text.replace("\t", "    ")


def one_line(text: str, limit: int = LINE_LIMIT) -> str:
    """`text` on a single line, cleaned, runs of white space made one space."""
    if len(text) > limit:
        text = text[: max(limit - 1, 0)] + "…"
    text = clean(text, limit)
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    return _SPACES.sub(" ", text).strip()


def cells(text: str) -> int:
    """Terminal cells that a cleaned text takes: wide characters count two, combining marks none."""
    if text.isascii():
        return len(text)
    return len(text) + sum([_width(character) - 1 for character in text if character > "\x7f"])


def fit(text: str, width: int) -> str:
    """`text` on one line of at most `width` cells, cut with an ellipsis."""
    short = one_line(text)
    if cells(short) <= width:
        return short
    if short.isascii():
        return short[: max(width - 1, 0)] + "…"
    used, kept = 1, ""
    for character in short:
        used += _width(character)
        if used > width:
            break
        kept += character
    return kept + "…"


@lru_cache(maxsize=4096)
def _width(character: str) -> int:
    if unicodedata.combining(character) or character in "\u200c\u200d\ufe0e\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
