r"""Regular expressions of a JSON schema, put into the words that become a grammar as they are meant. Pure.

llama-cpp-python's converter copies classes and escapes into the grammar, where `\d`, `\.` or `\-` mean
nothing, and lets `.` and `[^x]` match the quote that ends the string. Here a class becomes plain ranges,
without the characters that a JSON string may only hold escaped.
"""

import re

from meshllm_core.errors import InvalidRequest

REPEAT_LIMIT = 256
"""Largest bound of a repetition."""

_LAST = 0x10FFFF
_Ranges = list[tuple[int, int]]
_ESCAPED_IN_JSON: _Ranges = [(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)]
_DIGIT: _Ranges = [(0x30, 0x39)]
_WORD: _Ranges = [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)]
_SPACE: _Ranges = [(0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x2028, 0x2029), (0x3000, 0x3000)]
_NAMED = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_CODE = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})")
_REPEAT = re.compile(r"\{(\d{1,9})(,(\d{0,9}))?\}")


def plain_pattern(pattern: str) -> str:
    """An equal pattern without escapes and dots. Raises InvalidRequest for what has no such form."""
    if not (pattern.startswith("^") and pattern.endswith("$")) or len(pattern) < 2:
        raise _error(pattern, "it must begin with ^ and end with $")
    return _Reader(pattern).read()


def _error(pattern: str, reason: str) -> InvalidRequest:
    return InvalidRequest(
        f"The pattern {pattern[:100]!r} cannot be enforced: {reason}.",
        hint="Use literals, classes, groups, | and the repetitions * + ? {n,m} between ^ and $.",
    )


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._text = pattern[1:-1]
        self._at = 0

    def read(self) -> str:
        out: list[str] = []
        depth = 0
        repeatable = False
        while self._at < len(self._text):
            character = self._text[self._at]
            if character in "*+?{":
                if not repeatable:
                    raise self._error(f"{character} has nothing to repeat")
                out.append(self._repetition())
                repeatable = False
                continue
            piece = self._piece(character)
            depth += (character == "(") - (character == ")")
            if depth < 0:
                break
            repeatable = piece not in {"(", "|"}
            out.append(piece)
        if depth:
            raise self._error("its parentheses do not match")
        return f"^{''.join(out)}$"

    def _piece(self, character: str) -> str:
        self._at += 1
        match character:
            case "[":
                return self._class()
            case "\\":
                return self._written(self._escape())
            case ".":
                return self._written(_without([(0, _LAST)], [(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)]))
            case "(":
                if self._text.startswith("?:", self._at):
                    self._at += 2
                elif self._text.startswith("?", self._at):
                    raise self._error("groups that look around or have names are not supported")
                return "("
            case ")" | "|":
                return character
            case "^" | "$":
                raise self._error("^ and $ are supported at its ends only")
            case "]" | "}":
                return self._written([(ord(character), ord(character))])
        if ord(character) < 0x20 or character == '"':
            raise self._error(f"{character!r} is never as it is in a JSON string")
        return character

    def _repetition(self) -> str:
        found = self._text[self._at]
        if found == "{":
            bounds = _REPEAT.match(self._text, self._at)
            if bounds is None:
                raise self._error("a repetition must be {n}, {n,} or {n,m}")
            found = bounds[0]
            low, high = int(bounds[1]), int(bounds[3] or bounds[1])
            if not low <= high <= REPEAT_LIMIT:
                raise self._error(f"the bounds of a repetition must rise and end at {REPEAT_LIMIT}")
        self._at += len(found)
        if self._text.startswith("?", self._at):
            self._at += 1  # how eager it is makes no difference to what fits as a whole
        return found

    def _class(self) -> str:
        negated = self._text.startswith("^", self._at)
        self._at += negated
        ranges: _Ranges = []
        while not self._text.startswith("]", self._at):
            low = self._member()
            if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
                self._at += 1
                high = self._member()
                if len(low) != 1 or len(high) != 1 or low[0][0] != low[0][1] or high[0][0] < low[0][0]:
                    raise self._error("a range of a class is wrong")
                low = [(low[0][0], high[0][1])]
            ranges += low
        self._at += 1
        return self._written(_without([(0, _LAST)], ranges) if negated else ranges)

    def _member(self) -> _Ranges:
        if self._at >= len(self._text):
            raise self._error("a class does not end")
        character = self._text[self._at]
        self._at += 1
        return self._escape() if character == "\\" else [(ord(character), ord(character))]

    def _escape(self) -> _Ranges:
        letter = self._text[self._at : self._at + 1]
        code = _CODE.match(self._text, self._at)
        if code is not None:
            self._at += len(code[0])
            value = int(code[1] or code[2], 16)
            return [(value, value)]
        self._at += 1
        if letter.lower() in _NAMED and letter:
            ranges = _NAMED[letter.lower()]
            return ranges if letter.islower() else _without([(0, _LAST)], ranges)
        if not letter or letter.isalnum():
            raise self._error(f"\\{letter} is not supported")
        return [(ord(letter), ord(letter))]

    def _written(self, ranges: _Ranges) -> str:
        left = _without(ranges, [*_ESCAPED_IN_JSON, (0xD800, 0xDFFF)])
        if not left:
            raise self._error("a part of it only fits characters that JSON escapes")
        return f"[{''.join(_range(low, high) for low, high in left)}]"

    def _error(self, reason: str) -> InvalidRequest:
        return _error(self._pattern, reason)


def _without(ranges: _Ranges, holes: _Ranges) -> _Ranges:
    for first, last in holes:
        ranges = [
            part
            for low, high in ranges
            for part in ((low, min(high, first - 1)), (max(low, last + 1), high))
            if part[0] <= part[1]
        ]
    return ranges


def _range(low: int, high: int) -> str:
    return _character(low) if low == high else f"{_character(low)}-{_character(high)}"


def _character(code: int) -> str:
    if code < 0x80 and chr(code).isalnum():
        return chr(code)
    return f"\\x{code:02X}" if code < 0x100 else f"\\U{code:08X}"
