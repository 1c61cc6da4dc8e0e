"""JSON that arrives in pieces: is it still JSON, and where does the value end? Pure."""

import re
from enum import Enum, auto

_BLANK = " \t\n\r"
_NUMBER_OR_WORD = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_LITERAL = frozenset("-+.0123456789eEtrufalsn")


class Step(Enum):
    """What one more character meant."""

    MORE = auto()
    """The value goes on."""
    DONE = auto()
    """The value ends with this character."""
    ENDED = auto()
    """The value had ended before this character, which is not part of it (numbers and words)."""
    BAD = auto()
    """This is not JSON."""


class _Expect(Enum):
    VALUE = auto()
    VALUE_OR_END = auto()
    KEY = auto()
    KEY_OR_END = auto()
    COLON = auto()
    COMMA = auto()
    STRING = auto()
    ESCAPE = auto()
    HEX = auto()
    LITERAL = auto()


class JsonScanner:
    """One JSON value, a character at a time.

    Control characters inside strings are let through, because models write them; `escaped` makes
    them JSON.
    """

    def __init__(self) -> None:
        self._expect = _Expect.VALUE
        self._open: list[str] = []
        self._in_key = False
        self._literal = ""
        self._hex_left = 0

    def escaped(self, character: str) -> str:
        """The character as it must be written at this place; call it before `feed`."""
        if self._expect is _Expect.STRING and character < " ":
            return f"\\u{ord(character):04x}"
        return character

    def feed(self, character: str) -> Step:
        """Take one character. After anything but MORE the scanner is used up."""
        match self._expect:
            case _Expect.STRING:
                return self._string(character)
            case _Expect.ESCAPE:
                return self._escape(character)
            case _Expect.HEX:
                return self._hex(character)
            case _Expect.LITERAL if character in _LITERAL:
                self._literal += character
                return Step.MORE
            case _Expect.LITERAL:
                return self._literal_ended(character)
        return Step.MORE if character in _BLANK else self._token(character)

    def _token(self, character: str) -> Step:
        expect = self._expect
        if character in "}]" and expect in {_Expect.KEY_OR_END, _Expect.VALUE_OR_END, _Expect.COMMA}:
            return self._close(character)
        if expect in {_Expect.VALUE, _Expect.VALUE_OR_END}:
            return self._value(character)
        if expect in {_Expect.KEY, _Expect.KEY_OR_END} and character == '"':
            self._in_key = True
            self._expect = _Expect.STRING
        elif expect is _Expect.COLON and character == ":":
            self._expect = _Expect.VALUE
        elif expect is _Expect.COMMA and character == ",":
            self._expect = _Expect.KEY if self._open[-1] == "{" else _Expect.VALUE
        else:
            return Step.BAD
        return Step.MORE

    def _value(self, character: str) -> Step:
        if character in "{[":
            self._open.append(character)
            self._expect = _Expect.KEY_OR_END if character == "{" else _Expect.VALUE_OR_END
        elif character == '"':
            self._expect = _Expect.STRING
        elif character in "-0123456789tfn":
            self._expect, self._literal = _Expect.LITERAL, character
        else:
            return Step.BAD
        return Step.MORE

    def _close(self, character: str) -> Step:
        if not self._open or self._open[-1] != {"}": "{", "]": "["}[character]:
            return Step.BAD
        self._open.pop()
        return self._value_ended()

    def _value_ended(self) -> Step:
        self._expect = _Expect.COMMA
        return Step.MORE if self._open else Step.DONE

    def _string(self, character: str) -> Step:
        if character == "\\":
            self._expect = _Expect.ESCAPE
        elif character == '"':
            if not self._in_key:
                return self._value_ended()
            self._in_key = False
            self._expect = _Expect.COLON
        return Step.MORE

    def _escape(self, character: str) -> Step:
        if character == "u":
            self._expect, self._hex_left = _Expect.HEX, 4
        elif character in '"\\/bfnrt':
            self._expect = _Expect.STRING
        else:
            return Step.BAD
        return Step.MORE

    def _hex(self, character: str) -> Step:
        if character not in "0123456789abcdefABCDEF":
            return Step.BAD
        self._hex_left -= 1
        if not self._hex_left:
            self._expect = _Expect.STRING
        return Step.MORE

    def _literal_ended(self, character: str) -> Step:
        if not _NUMBER_OR_WORD.fullmatch(self._literal):
            return Step.BAD
        if not self._open:
            return Step.ENDED
        self._expect = _Expect.COMMA
        return self.feed(character)
