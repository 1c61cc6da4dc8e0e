"""A log that is read piece by piece: the lines that are kept, and where to read on. No Textual here."""

from collections import deque
from collections.abc import Sequence

from meshllm_core.api.schema_logs import LogPiece, LogRow
from meshllm_tui.cleaning import clean, one_line
from meshllm_tui.present import Line, NodeView, Span, line, muted, waiting_lines
from meshllm_tui.units import duration, size

LINES_KEPT = 2000
LINE_LIMIT = 2000
"""Characters of one line; the rest is cut."""


class LogText:
    """The last lines of one log."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.after: int | None = None
        """What to ask for next; None: the last lines."""
        self.file = ""
        self.behind = False
        """There is more to read now."""

    def take(self, piece: LogPiece) -> list[str]:
        """The lines that are new."""
        new = [clean(text, LINE_LIMIT) for text in piece.text.split("\n")]
        if new and not new[-1]:
            new.pop()
        if piece.fresh:
            new.insert(0, "— the log begins anew —")
        self.behind = piece.end < piece.size and piece.end != self.after
        self.after, self.file = piece.end, piece.file
        self.lines.extend(new)
        return new


def with_words(lines: Sequence[str] | deque[str], words: str) -> list[str]:
    """The lines that have all the words, whatever their case."""
    wanted = words[:200].casefold().split()
    if not wanted:
        return list(lines)
    return [text for text in lines if all(word in text.casefold() for word in wanted)]


def log_title(name: str) -> str:
    """What a log is called."""
    model = name.removeprefix("engine-")
    return f"engine of {one_line(model, 60)}" if model != name else "the node's log"


def log_choices(rows: Sequence[LogRow], wall: float) -> list[tuple[str, str]]:
    """Names, and words to choose by."""
    return [
        (row.name, f"{log_title(row.name)}  {size(row.bytes)}, {duration(wall - row.changed_at)} ago")
        for row in rows
    ]


def empty_log(view: NodeView, asked: bool, words: str) -> tuple[Line, ...]:
    """What the pane says without a line."""
    if view.snapshot is None:
        return waiting_lines(view)
    if not asked:
        return (line(Span("◌ reading the log…", "accent")),)
    if words:
        return (line("No line has these words."), line(muted("Esc in the filter takes it away.")))
    return (line(muted("Nothing has been written yet.")),)
