"""One tool call written as a JSON object, read while it is being written. Pure."""

import json
from collections.abc import Callable, Collection
from enum import Enum, auto

from meshllm_core.serve.chunks import ChatDelta, ContentDelta, ToolCallArguments, ToolCallStarted
from meshllm_core.serve.tools.json_scan import JsonScanner, Step

Entropy = Callable[[int], bytes]
"""That many random bytes: `os.urandom`."""

_ARGUMENT_KEYS = ("arguments", "parameters")
_KEYS = ("name", *_ARGUMENT_KEYS, "id", "type")
_UNDECIDED_LIMIT = 16_384
"""Characters of a call that are held back while it is not yet sure that it is one."""


class Sink:
    """Collects deltas, joining neighbours of one kind, and numbers the calls."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._deltas: list[ChatDelta] = []
        self.calls = 0
        """Calls that have been announced."""

    def take(self) -> list[ChatDelta]:
        """What was collected since the last time."""
        taken, self._deltas = self._deltas, []
        return taken

    def content(self, text: str) -> None:
        """Text of the answer."""
        if not text:
            return
        last = self._deltas[-1] if self._deltas else None
        if isinstance(last, ContentDelta):
            self._deltas[-1] = ContentDelta(last.text + text)
        else:
            self._deltas.append(ContentDelta(text))

    def start(self, name: str) -> None:
        """A call begins."""
        call_id = "call_" + self._entropy(12).hex()
        self._deltas.append(ToolCallStarted(self.calls, call_id, name))
        self.calls += 1

    def arguments(self, text: str) -> None:
        """More arguments of the latest call."""
        if not text:
            return
        last = self._deltas[-1] if self._deltas else None
        if isinstance(last, ToolCallArguments):
            self._deltas[-1] = ToolCallArguments(last.index, last.fragment + text)
        else:
            self._deltas.append(ToolCallArguments(self.calls - 1, text))


class ArgumentsReader:
    """A call whose name is known already: only its arguments object follows."""

    def __init__(self, sink: Sink, name: str) -> None:
        self._sink = sink
        self._scanner = JsonScanner()
        self.announced = True
        self.complete = False
        sink.start(name)

    def feed(self, character: str) -> Step:
        """Take one character; never answers ENDED."""
        escaped = self._scanner.escaped(character)
        step = self._scanner.feed(character)
        if step in {Step.MORE, Step.DONE}:
            self._sink.arguments(escaped)
            return step
        return Step.BAD


class _Expect(Enum):
    OPEN = auto()
    KEY = auto()
    KEY_TEXT = auto()
    COLON = auto()
    VALUE = auto()
    VALUE_TEXT = auto()
    COMMA = auto()


class CallReader:
    """`{"name": …, "arguments": {…}}`, its keys in any order; `parameters` is another word for arguments.

    The call is announced when its arguments begin and its name is known, else when the object ends.
    """

    def __init__(self, sink: Sink, names: Collection[str]) -> None:
        self._sink = sink
        self._names = names
        self._expect = _Expect.OPEN
        self._scanner = JsonScanner()
        self._key = ""
        self._value = ""
        self._name = ""
        self._arguments: str | None = None
        self._length = 0
        self.announced = False
        """The sink has been told; before that nothing has been."""
        self.complete = False
        """All arguments have been passed on, though the object may go on."""

    def feed(self, character: str) -> Step:
        """Take one character; never answers ENDED."""
        self._length += 1
        if self._length > _UNDECIDED_LIMIT and not self.announced:
            return Step.BAD
        match self._expect:
            case _Expect.KEY_TEXT:
                return self._key_text(character)
            case _Expect.VALUE_TEXT:
                return self._value_text(character)
        if character in " \t\n\r":
            return Step.MORE
        match self._expect:
            case _Expect.OPEN if character == "{":
                self._expect = _Expect.KEY
            case _Expect.KEY if character == '"':
                self._expect, self._scanner, self._key = _Expect.KEY_TEXT, JsonScanner(), ""
                return self._key_text(character)
            case _Expect.COLON if character == ":":
                self._expect = _Expect.VALUE
            case _Expect.VALUE:
                return self._begin_value(character)
            case _Expect.COMMA if character == ",":
                self._expect = _Expect.KEY
            case _Expect.COMMA if character == "}":
                return self._ended()
            case _:
                return Step.BAD
        return Step.MORE

    def _key_text(self, character: str) -> Step:
        self._key += character
        step = self._scanner.feed(character)
        if step is Step.DONE:
            self._key = self._key[1:-1]
            self._expect = _Expect.COLON
            return Step.MORE if self._key in _KEYS else Step.BAD
        known = any(key.startswith(self._key[1:]) for key in _KEYS)
        return step if known else Step.BAD

    def _begin_value(self, character: str) -> Step:
        self._expect, self._scanner, self._value = _Expect.VALUE_TEXT, JsonScanner(), ""
        if self._key in _ARGUMENT_KEYS:
            if self.announced:
                return Step.BAD
            if character == "{" and self._name:
                self._announce()
        return self._value_text(character)

    def _value_text(self, character: str) -> Step:
        escaped = self._scanner.escaped(character)
        step = self._scanner.feed(character)
        if step is Step.BAD:
            return step
        if step is not Step.ENDED:
            if self.announced and self._key in _ARGUMENT_KEYS:
                self._sink.arguments(escaped)
            else:
                self._value += escaped
        if step is Step.MORE:
            plausible = self._key != "name" or self._plausible_name()
            return Step.MORE if plausible else Step.BAD
        self._expect = _Expect.COMMA
        self.complete = self.announced
        if not self._keep_value():
            return Step.BAD
        return self.feed(character) if step is Step.ENDED else Step.MORE

    def _plausible_name(self) -> bool:
        begun = self._value[1:]
        return "\\" in begun or any(name.startswith(begun) for name in self._names)

    def _keep_value(self) -> bool:
        """Note the value that just ended; False if it cannot belong to a call."""
        if self._key == "name" and not self.announced:
            name = json.loads(self._value)
            if not isinstance(name, str) or name not in self._names:
                return False
            self._name = name
        elif self._key in _ARGUMENT_KEYS and not self.announced:
            self._arguments = _object_text(self._value)
            return self._arguments is not None
        return True

    def _ended(self) -> Step:
        if not self.announced:
            if not self._name:
                return Step.BAD
            self._announce()
            self._sink.arguments(self._arguments or "{}")
        return Step.DONE

    def _announce(self) -> None:
        self.announced = True
        self._sink.start(self._name)


def _object_text(value: str) -> str | None:
    """The JSON object in `value`: as it is, inside a JSON string, or none for null; else None."""
    decoded = json.loads(value)
    if decoded is None:
        return "{}"
    if isinstance(decoded, str):
        value = decoded
        try:
            decoded = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(decoded, dict) else None
