"""The list of conversations as lines. No Textual here."""

from collections.abc import Sequence

from meshllm_tui.chats.file import ChatRow
from meshllm_tui.cleaning import fit
from meshllm_tui.present import Line, Span, line, muted
from meshllm_tui.units import count, duration

UNTITLED = "Untitled"


def chat_row(row: ChatRow, now: float, width: int, *, opened: bool) -> tuple[Line, ...]:
    """A conversation: its title, then model and age. The open one has a mark."""
    mark = Span("▸ ", "accent") if opened else Span("  ")
    title = Span(fit(row.title or UNTITLED, width - 2), "strong" if opened else "plain")
    age = age_words(now - row.changed_at)
    model = fit(row.model, max(width - len(age) - 4, 4))
    return line(mark, title), line(muted(f"  {model}  {age}"))


def age_words(seconds: float) -> str:
    """How long ago something was."""
    if seconds < 60:
        return "now"
    return f"{duration(seconds // 60 * 60)} ago" if seconds < 3600 else f"{_coarse(seconds)} ago"


def _coarse(seconds: float) -> str:
    hours = int(seconds // 3600)
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"


def no_chats(find: str, *, loading: bool) -> tuple[Line, ...]:
    """What the list says while it has no rows."""
    if loading:
        return (line(Span("◌ reading the history…", "accent")),)
    if find:
        return (
            line(f"Nothing has “{fit(find, 30)}” in it."),
            line(muted("Esc shows all conversations.")),
        )
    return (
        line("No conversation yet."),
        line(muted("Ask something: it is kept here.")),
    )


def list_title(rows: Sequence[ChatRow], find: str) -> str:
    """Words at the bottom of the list's border."""
    if find:
        return f"{len(rows)} found"
    return count(len(rows), "chat") if rows else ""


def trouble_lines(trouble: tuple[str, str] | None) -> tuple[Line, ...]:
    """Why conversations are not kept; empty while they are."""
    if trouble is None:
        return ()
    message, hint = trouble
    return (line(Span("! not kept", "warn")), line(fit(message, 300)), line(muted(fit(hint, 300))))
