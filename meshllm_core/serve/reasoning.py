"""A model's thoughts, kept apart from its answer. Pure."""

from dataclasses import dataclass
from enum import Enum, auto

from meshllm_core.serve.held import BLANK_LIMIT, blank_end, certain_length


@dataclass(frozen=True, slots=True)
class ReasoningTags:
    """The tags around a thought."""

    open: str
    close: str


_KNOWN = (
    ReasoningTags("<think>", "</think>"),
    ReasoningTags("<thinking>", "</thinking>"),
    ReasoningTags("<reasoning>", "</reasoning>"),
    ReasoningTags("<thought>", "</thought>"),
    ReasoningTags("[THINK]", "[/THINK]"),
    ReasoningTags("<seed:think>", "</seed:think>"),
    ReasoningTags("<|START_THINKING|>", "<|END_THINKING|>"),
)


def detect_reasoning(template: str) -> ReasoningTags | None:
    """The tags that a template's source mentions first; None for a model that does not think."""
    found = [
        (at, order)
        for order, tags in enumerate(_KNOWN)
        for tag in (tags.open, tags.close)
        if (at := template.find(tag)) >= 0
    ]
    return _KNOWN[min(found)[1]] if found else None


class _Phase(Enum):
    BEFORE = auto()
    """No thought yet; one may open here and only here, so that an answer may speak about the tags."""
    OPENED = auto()
    """The prompt or the text opened a thought of which nothing has come; the tag may be repeated."""
    INSIDE = auto()
    AFTER = auto()
    """The thought is over; white space is skipped until the answer begins."""
    ANSWER = auto()


@dataclass(frozen=True, slots=True)
class Split:
    """What one piece of text was: thought, answer, or both in this order."""

    reasoning: str
    answer: str


class ReasoningSplitter:
    """One answer's text, in any pieces. White space next to the tags belongs to the tags.

    A thought that never ends stays a thought.
    """

    def __init__(self, tags: ReasoningTags | None, *, opened: bool = False) -> None:
        self._tags = tags or ReasoningTags("", "")
        self._held = ""
        self._reasoning: list[str] = []
        self._answer: list[str] = []
        if tags is None:
            self._phase = _Phase.ANSWER
        else:
            self._phase = _Phase.OPENED if opened else _Phase.BEFORE

    def feed(self, text: str) -> Split:
        """What became certain."""
        self._held += text
        while self._held and self._advance():
            pass
        return self._take()

    def finish(self) -> Split:
        """What was held back."""
        held, self._held = self._held, ""
        if self._phase in {_Phase.INSIDE, _Phase.OPENED}:
            self._reasoning.append(held)
        else:
            self._answer.append(held)
        return self._take()

    def _take(self) -> Split:
        split = Split("".join(self._reasoning), "".join(self._answer))
        self._reasoning.clear()
        self._answer.clear()
        return split

    def _advance(self) -> bool:
        """Deal with the beginning of what is held; False to wait for more."""
        match self._phase:
            case _Phase.BEFORE | _Phase.OPENED:
                return self._look_for_open()
            case _Phase.INSIDE:
                return self._look_for_close()
            case _Phase.AFTER:
                self._held = self._held.lstrip()
                if self._held:
                    self._phase = _Phase.ANSWER
                return bool(self._held)
            case _Phase.ANSWER:
                self._answer.append(self._held)
                self._held = ""
        return False

    def _look_for_open(self) -> bool:
        begun = self._held.lstrip()
        opened = self._phase is _Phase.OPENED
        if opened:
            self._held = begun
        if len(self._held) - len(begun) <= BLANK_LIMIT:
            if begun.startswith(self._tags.open):
                self._held = begun[len(self._tags.open) :]
                self._phase = _Phase.OPENED
                return True
            if self._tags.open.startswith(begun):
                return False
        self._phase = _Phase.INSIDE if opened else _Phase.ANSWER
        return True

    def _look_for_close(self) -> bool:
        at = self._held.find(self._tags.close)
        if at >= 0:
            thought = self._held[:at]
            self._reasoning.append(thought[: len(thought) - blank_end(thought)])
            self._held = self._held[at + len(self._tags.close) :]
            self._phase = _Phase.AFTER
            return True
        certain = certain_length(self._held, (self._tags.close,))
        self._reasoning.append(self._held[:certain])
        self._held = self._held[certain:]
        return False
