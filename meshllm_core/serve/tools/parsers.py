"""The text of an answer -> content and tool calls, while it is being written. Pure.

A text that turns out not to be a call comes out as content, whole. Once a call has been announced
nothing can take it back: if its arguments then break, the rest of its text is passed on as arguments,
and the client sees what the model wrote. White space around calls belongs to the calls.
"""

import re
from collections.abc import Callable, Sequence

from meshllm_core.serve.chunks import ChatDelta
from meshllm_core.serve.held import BLANK_LIMIT, blank_end, certain_length, find_first
from meshllm_core.serve.tools.call_reader import ArgumentsReader, CallReader, Entropy, Sink
from meshllm_core.serve.tools.dialects import Dialect
from meshllm_core.serve.tools.json_scan import Step


class ToolCallParser:
    """What the dialects share: content, reading call objects, and falling back. Speaks Hermes' by itself."""

    open_marker = "<tool_call>"
    close_marker = "</tool_call>"
    broken_end = "</tool_call>"
    """Ends arguments that are not JSON; empty: nothing does."""
    separators = " \t\r\n}"
    """May stand between calls; a brace too many is a common slip."""

    def __init__(self, names: Sequence[str], entropy: Entropy) -> None:
        self._names = frozenset(names)
        self._sink = Sink(entropy)
        self._reader: CallReader | ArgumentsReader | None = None
        self._undecided = ""
        """Text that is not yet known to be content or part of a call."""
        self._again = ""
        """Text to be looked at once more, as content."""
        self._state: Callable[[str], None] | None = None
        """Takes the next character; None while content is searched for a marker."""

    @property
    def calls(self) -> int:
        """Calls announced so far."""
        return self._sink.calls

    def feed(self, text: str) -> list[ChatDelta]:
        """What became certain."""
        while text:
            if self._state is None:
                text = self._search(text)
            else:
                taken = 0
                while self._state is not None and taken < len(text):
                    self._state(text[taken])
                    taken += 1
                text = text[taken:]
            text, self._again = self._again + text, ""
        return self._sink.take()

    def finish(self) -> list[ChatDelta]:
        """What was held back."""
        undecided, self._undecided = self._undecided, ""
        if self._state == self._broken:
            self._sink.arguments(undecided)
        elif not (self._state == self._after_call and self._may_follow(undecided)):
            self._sink.content(undecided)
        return self._sink.take()

    def _search(self, text: str) -> str:
        """Emit content up to a marker; the answer is what follows the marker."""
        text = self._undecided + text
        at, marker = find_first(text, (self.open_marker,))
        if not marker:
            certain = certain_length(text, (self.open_marker,))
            self._undecided = text[certain:]
            self._sink.content(text[:certain])
            return ""
        begin = at - blank_end(text[:at])
        end = at + len(marker)
        self._sink.content(text[:begin])
        self._undecided = text[begin:end]
        self._state = self._after_open
        return text[end:]

    def _give_up(self) -> None:
        """What was taken for a call is content; only behind its first marker may another call begin."""
        text, self._undecided, self._state, self._reader = self._undecided, "", None, None
        blank = len(text) - len(text.lstrip())
        skip = blank + (len(self.open_marker) if text[blank:].startswith(self.open_marker) else 1)
        self._sink.content(text[:skip])
        self._again = text[skip:]

    def _after_open(self, character: str) -> None:
        """Behind the marker that begins a call."""
        self._undecided += character
        if character == "{":
            self._begin_object()
        elif not character.isspace() or len(self._undecided) > len(self.open_marker) + 2 * BLANK_LIMIT:
            self._give_up()

    def _begin_object(self) -> None:
        self._reader = CallReader(self._sink, self._names)
        self._reader.feed("{")
        self._state = self._in_object

    def _in_object(self, character: str) -> None:
        reader = self._reader
        if reader is None:
            return
        step = reader.feed(character)
        self._undecided = "" if reader.announced else self._undecided + character
        if step is Step.DONE:
            self._end_call()
        elif step is Step.BAD and reader.complete:
            self._end_call()
            self._after_call(character)
        elif step is Step.BAD and reader.announced:
            self._state = self._broken
            self._broken(character)
        elif step is Step.BAD:
            self._give_up()

    def _end_call(self) -> None:
        self._reader, self._undecided, self._state = None, "", self._after_call

    def _after_call(self, character: str) -> None:
        """Between calls: separators, another call, the end marker, or content after all."""
        self._undecided += character
        rest = self._undecided.lstrip(self.separators)
        if rest == "{":
            self._begin_object()
        elif rest and rest == self.close_marker:
            self._undecided = ""
        elif rest == self.open_marker:
            self._state = self._after_open
        elif not self._may_follow(self._undecided):
            self._undecided = self._undecided.lstrip()
            self._give_up()

    def _may_follow(self, text: str) -> bool:
        """Whether `text` can be the beginning of what follows a call."""
        rest = text.lstrip(self.separators)
        known = self.open_marker.startswith(rest) or self.close_marker.startswith(rest)
        return known and len(text) - len(rest) <= BLANK_LIMIT

    def _broken(self, character: str) -> None:
        """Arguments that are not JSON go on until the end marker."""
        text = self._undecided + character
        markers = (self.broken_end,) if self.broken_end else ()
        at, marker = find_first(text, markers)
        if marker:
            self._sink.arguments(text[: at - blank_end(text[:at])])
            self._end_call()
            return
        certain = certain_length(text, markers) if markers else len(text)
        self._sink.arguments(text[:certain])
        self._undecided = text[certain:]


class Llama3Parser(ToolCallParser):
    """Also takes an answer that is nothing but a call object."""

    open_marker = "<|python_tag|>"
    close_marker = ""
    broken_end = ""
    separators = " \t\r\n;,"

    def __init__(self, names: Sequence[str], entropy: Entropy) -> None:
        super().__init__(names, entropy)
        self._state = self._at_start

    def _at_start(self, character: str) -> None:
        self._undecided += character
        rest = self._undecided.lstrip()
        if rest == "{":
            self._begin_object()
        elif rest or len(self._undecided) > BLANK_LIMIT:
            self._again, self._undecided, self._state = self._undecided, "", None


class MistralParser(ToolCallParser):
    """Takes the list form and the newer `name[ARGS]{…}`, whichever comes."""

    open_marker = "[TOOL_CALLS]"
    close_marker = "]"
    broken_end = ""
    separators = " \t\r\n,"

    _HEAD_LIMIT = 200
    _HEAD = re.compile(r"\s*(?P<name>[^\s\[\]{}]+)\s*(?:\[CALL_ID\]\s*[\w-]*\s*)?(?:\[ARGS\]\s*)?")
    _NAME = re.compile(r"\s*([^\s\[\]{}]*)")

    def _after_open(self, character: str) -> None:
        in_list = self._undecided.rstrip().endswith("[")
        if character == "[" and not in_list:
            self._undecided += character
        elif character in " \t\r\n{" or in_list:
            super()._after_open(character)
        else:
            self._state = self._in_head
            self._in_head(character)

    def _in_head(self, character: str) -> None:
        """Between the marker and the arguments of the newer form."""
        head = self._undecided.lstrip()[len(self.open_marker) :]
        self._undecided += character
        if character == "{":
            match = self._HEAD.fullmatch(head)
            if match and match["name"] in self._names:
                self._undecided = ""
                self._reader = ArgumentsReader(self._sink, match["name"])
                self._reader.feed("{")
                self._state = self._in_object
                return
            self._give_up()
            return
        begun = self._NAME.match(head + character)
        name = begun[1] if begun else ""
        if len(head) > self._HEAD_LIMIT or not any(known.startswith(name) for known in self._names):
            self._give_up()


def parser_for(dialect: Dialect, names: Sequence[str], entropy: Entropy) -> ToolCallParser:
    """The parser of a dialect, for tools of these names."""
    match dialect:
        case Dialect.HERMES:
            return ToolCallParser(names, entropy)
        case Dialect.LLAMA3:
            return Llama3Parser(names, entropy)
        case Dialect.MISTRAL | Dialect.MISTRAL_ARGS:
            return MistralParser(names, entropy)
