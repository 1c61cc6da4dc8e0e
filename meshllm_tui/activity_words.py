"""What happened, as lines to filter: notices, and how requests ended. No Textual here."""

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from meshllm_core.state.event import NoticeLevel
from meshllm_core.state.snapshot import NOTICES_KEPT, NodeSnapshot, Notice, RequestView
from meshllm_tui.cleaning import one_line
from meshllm_tui.present import LEVELS, Line, NodeView, Span, line, link_words, muted, waiting_lines
from meshllm_tui.request_rows import STATES, clock, route
from meshllm_tui.units import milliseconds, number

Least = Literal["info", "warning", "error"]
LEAST: Final[tuple[Least, ...]] = ("info", "warning", "error")
"""The lowest level that is shown, in the order of its key."""
LEAST_WORDS: Final[dict[Least, str]] = {
    "info": "all levels",
    "warning": "warnings and errors",
    "error": "errors only",
}
KEPT = 1000
"""Lines that are kept."""
_SPARE = 200
"""Lines above KEPT before the oldest are let go, so that this is seldom."""
WORDS_LIMIT = 200
"""Characters of a filter."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A line of the history."""

    at: float
    number: int
    """Grows with each line that is taken; unique."""
    level: NoticeLevel
    source: str
    text: str

    @property
    def key(self) -> str:
        """Names its row."""
        return str(self.number)

    @property
    def line(self) -> Line:
        """The line as it is shown."""
        level = LEVELS[self.level]
        return line(
            muted(f"{clock(self.at)} "),
            Span(f"{level.glyph} {level.word:<7} ", level.tone),
            Span(f"{self.source} ", "accent"),
            Span(self.text),
        )


class History:
    """What happened since the dashboard first looked, and what the node still knew of before."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        """By time."""
        self._count = 0
        self._notices: tuple[Notice, ...] = ()
        self._local: tuple[Notice, ...] = ()
        self._ended: frozenset[tuple[str, float]] = frozenset()
        self._last = (0.0, 0)
        """Start and sequence of the snapshot before."""

    def take(self, view: NodeView) -> bool:
        """Take in what is new. True when there was something."""
        before = self._count
        if view.snapshot is not None:
            self._notice_a_step_back(view.snapshot)
            self._take_notices(view.snapshot)
            self._take_requests(view.snapshot)
        if view.local != self._local:
            self._put_all(_newer(self._local, view.local))
            self._local = view.local
        if len(self.entries) > KEPT + _SPARE:
            del self.entries[:-KEPT]
        return self._count != before

    def _notice_a_step_back(self, snapshot: NodeSnapshot) -> None:
        """In a recording the same node may be at an earlier moment than before: tell it from there."""
        started, sequence = self._last
        if snapshot.started_at == started and snapshot.sequence < sequence:
            self.entries, self._notices, self._ended = [], (), frozenset()
        self._last = (snapshot.started_at, snapshot.sequence)

    def _take_notices(self, snapshot: NodeSnapshot) -> None:
        if snapshot.notices is self._notices:
            return
        new = _newer(self._notices, snapshot.notices)
        if self._notices and len(new) == NOTICES_KEPT:
            text = "what happened in between was not kept"
            self._put(new[0].at, "warning", "dashboard", text)
        self._put_all(new)
        self._notices = snapshot.notices

    def _take_requests(self, snapshot: NodeSnapshot) -> None:
        ended = [request for request in snapshot.requests if request.status != "running"]
        for request in ended:
            if (request.id, request.started_at) not in self._ended:
                level: NoticeLevel = "error" if request.status == "error" else "info"
                at = request.started_at + max(request.total_ms, 0.0) / 1000
                self._put(at, level, "request", request_words(request))
        self._ended = frozenset((request.id, request.started_at) for request in ended)

    def _put_all(self, notices: Iterable[Notice]) -> None:
        for notice in notices:
            self._put(notice.at, notice.level, notice.source, notice.text)

    def _put(self, at: float, level: NoticeLevel, source: str, text: str) -> None:
        self._count += 1
        entry = Entry(at, self._count, level, one_line(source, 60), one_line(text, 2000))
        insort(self.entries, entry)


def _newer(old: Sequence[Notice], new: Sequence[Notice]) -> Sequence[Notice]:
    """What `new` has behind its overlap with `old`: both are windows on one growing list."""
    for overlap in range(min(len(old), len(new)), 0, -1):
        if old[-1] == new[overlap - 1] and tuple(old[-overlap:]) == tuple(new[:overlap]):
            return new[overlap:]
    return new


def request_words(request: RequestView) -> str:
    """How a request ended, in a sentence."""
    words = f"{STATES[request.status].word}: {route(request)} of {request.model}"
    if request.served_by:
        words += f" on {request.served_by}"
    if request.asked_by:
        words += f" for {request.asked_by}"
    if request.error:
        return f"{words}: {request.error}"
    words += f", {request.completion_tokens:,} tokens in {milliseconds(request.total_ms)}"
    speed = request.decode_tokens_per_second
    return f"{words}, {number(speed)} tok/s" if speed > 0 else words


def matching(entries: Iterable[Entry], words: str, least: Least) -> list[Entry]:
    """Those at or above a level that have all the words, whatever their case."""
    wanted = words[:WORDS_LIMIT].casefold().split()
    levels = LEAST[LEAST.index(least) :]
    return [
        entry
        for entry in entries
        if entry.level in levels
        and all(word in f"{entry.level} {entry.source} {entry.text}".casefold() for word in wanted)
    ]


def empty_activity(view: NodeView, kept: int) -> tuple[Line, ...]:
    """What the pane says without a line."""
    if kept:
        more = line(muted("Press "), Span("w", "accent"), muted(" for other levels, "), Span("/", "accent"))
        return (line(f"None of {kept:,} lines is like that."), (*more, muted(" for other words.")))
    if view.snapshot is None:
        return waiting_lines(view)
    return (line(muted("Nothing has happened yet.")),)


def activity_title(shown: int, kept: int) -> str:
    """How many lines are shown of how many."""
    return f"Activity: {shown:,} of {kept:,} lines" if shown != kept else "Activity"


def activity_under(view: NodeView, least: Least, words: str, following: bool) -> str:
    """What narrows the list, and whether it follows."""
    parts = []
    if view.link != "live" and view.snapshot is not None:
        parts.append("".join(span.text for span in link_words(view)))
    if words:
        parts.append(f"with “{one_line(words, 30)}”")
    if least != "info":
        parts.append(LEAST_WORDS[least])
    parts.append("follows" if following else "f follows")
    return " · ".join(parts)
