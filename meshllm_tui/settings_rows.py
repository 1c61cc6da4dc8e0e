"""The settings in words: each key, its value, where that comes from, what a change does. No Textual here."""

from meshllm_core.api.schema_config import Config, ConfigRow
from meshllm_tui.cleaning import cells, fit, one_line
from meshllm_tui.present import Line, Span, Tone, line, muted

KEY_WIDTH = 20
DASHBOARD = "Dashboard"
"""Section of the keys that the dashboard itself reads, at its start."""
THEME = "theme"
"""The key of the colours: they can be tried at once."""
_LABEL = 10
SOURCES = {"default": "default", "file": "config.toml", "environment": "environment", "flag": "command line"}
MOUSE = "With the mouse on, hold Shift to select text as the terminal does."


def waits(row: ConfigRow) -> bool:
    """Whether a change waits for the node's next start."""
    return row.next_value != row.value and row.section != DASHBOARD


def shown_value(row: ConfigRow) -> str:
    """What counts now: the node read its keys at its start, the dashboard reads its own at each start."""
    return row.next_value if row.section == DASHBOARD else row.value


def matches(row: ConfigRow, search: str) -> bool:
    """Whether every word of the search is in the key, its help, its value or its source."""
    text = f"{row.key} {row.section} {row.help} {row.value} {row.origin} {SOURCES[row.source]} {row.flag}"
    text = f"{text} {row.variable} {'changed' if waits(row) or row.source != 'default' else ''}".lower()
    return all(word in text for word in search.lower().split())


def row_line(row: ConfigRow, width: int) -> Line:
    """A key in the list: name, value, source; a change that waits stands beside the value."""
    key = fit(row.key, KEY_WIDTH)
    source = source_word(row)
    changed = row.source != "default"
    value = shown_value(row) + (f" → {row.next_value}" if waits(row) else "")
    room = max(width - KEY_WIDTH - cells(source) - 3, 6)
    shown = fit(value, room)
    gap = " " * max(width - KEY_WIDTH - 1 - cells(shown) - cells(source), 1)
    tone: Tone = "warn" if waits(row) else "strong" if changed else "plain"
    return line(
        key + " " * (KEY_WIDTH - cells(key) + 1),
        Span(shown, tone),
        gap,
        muted(source),
    )


def source_word(row: ConfigRow) -> str:
    """Where the value comes from, in a word or two."""
    if row.source in ("environment", "flag"):
        return one_line(row.origin, 40) or SOURCES[row.source]
    return SOURCES[row.source]


def detail_lines(row: ConfigRow, file: str) -> tuple[Line, ...]:
    """All that is known of one key."""
    came = one_line(row.origin, 500) if row.origin else SOURCES[row.source]
    if row.source == "file":
        # The whole path stands below.
        came = came.replace("\\", "/").rpartition("/")[2]
    lines = [
        line(Span(row.key, "strong"), muted(f" · {row.section}")),
        line(row.help),
        line(""),
        _fact("value", Span(one_line(shown_value(row), 500), "strong")),
        _fact("from", came),
        _fact("default", one_line(row.default, 500)),
        _fact("takes", row.allowed),
    ]
    if row.variable:
        lines.append(_fact("variable", row.variable))
    if row.flag:
        lines.append(_fact("option", row.flag))
    lines.append(line(""))
    if row.source in ("environment", "flag"):
        over = one_line(row.origin, 80) or SOURCES[row.source]
        words = f"! {over} wins over config.toml: a change there counts once that is gone."
        lines.append(line(Span(words, "warn")))
    elif waits(row):
        lines.append(line(Span(f"→ {one_line(row.next_value, 200)} from the node's next start.", "warn")))
    elif row.key == THEME:
        lines.append(line(muted("Colours are tried while you choose, and count at once.")))
    elif row.section == DASHBOARD:
        lines.append(line(muted("A change counts when the dashboard is opened again.")))
    else:
        lines.append(line(muted("A change counts from the node's next start.")))
    if row.section == DASHBOARD:
        lines.append(line(muted(MOUSE)))
    if row.secret:
        lines.append(line(muted("A secret: it is never shown, and never leaves the node.")))
    if file:
        lines.append(line(muted(one_line(file, 500))))
    return tuple(lines)


def _fact(label: str, *words: Span | str) -> Line:
    return line(muted(label.ljust(_LABEL)), *words)


def state_words(answer: Config) -> str:
    """How many changes wait, for the border."""
    waiting = sum(map(waits, answer.rows))
    if not waiting:
        return ""
    return f"{waiting} {'change waits' if waiting == 1 else 'changes wait'} for the node's next start"


def problem_lines(answer: Config) -> tuple[Line, ...]:
    """Why config.toml would not be accepted as it is."""
    if not answer.problem:
        return ()
    return (
        line(Span(f"! The node would not start with this file: {one_line(answer.problem, 400)}", "warn")),
    )
