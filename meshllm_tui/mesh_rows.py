"""The mesh pane's rows: a line for each member, and all that is known of the chosen one. No Textual here."""

from collections import Counter
from dataclasses import dataclass

from meshllm_core.state.mesh_events import PeerModel, PeerRow
from meshllm_core.state.snapshot import MeshView, NodeSnapshot
from meshllm_tui.cleaning import cells, fit, one_line
from meshllm_tui.hanging import hang
from meshllm_tui.mesh_words import (
    BLOCKED,
    BOTH_WAYS,
    OWN_STATE,
    PEER_STATES,
    best_speed,
    member_name,
    own_reach,
    reach_words,
    rtt_words,
    short_id,
    skew_words,
    version_words,
)
from meshllm_tui.present import Line, NodeView, Span, Tone, endpoint, line, muted, waiting_lines
from meshllm_tui.rtt_history import BARS
from meshllm_tui.units import UNKNOWN, duration, number, sizes

TABLE_WIDTH = 96
"""Cells from which a member is one line of a table; below, it is two lines."""
MEMBERS_LISTED = 512
"""Members that the table has rows for, those that are there before those that are gone; how many there are is
said. More cannot be gone through by keys, and would make each key wait."""
TREND_WIDTH = 124
"""Cells from which the table has the latest round trips as bars."""
OWN = "self"
"""Key of this node's own row."""
_NAME, _STATE, _ROLE, _RTT, _PATH, _SPEED, _MEMORY = 20, 13, 8, 16, 6, 7, 18
_TREND = BARS + 2
_STEP = 5
"""Cells before what a key does."""
_LINK, _ROLE_FROM = 14, 46
"""Cells of how near a member is where there is little room; cells from which its role stands before that."""
_LEAST = 8
"""Cells that models have at least, beside figures."""
_MODELS_NAMED = 12
_SORTED = {"alive": 0, "suspect": 0, "down": 1, "left": 2}
_MINUTE = 60


@dataclass(frozen=True, slots=True)
class Columns:
    """What a row says, before it is laid out."""

    name: str
    state: Span
    role: str
    rtt: str
    path: str
    trend: str
    speed: str
    memory: str
    models: str
    notes: tuple[tuple[str, Tone], ...] = ()


def empty_mesh(view: NodeView, width: int) -> tuple[Line, ...]:
    """What the pane says of a node by itself, in lines of `width` cells."""
    if view.snapshot is None:
        return waiting_lines(view)
    snapshot = view.snapshot
    ready = [one_line(model.id, 60) for model in snapshot.models if model.status == "ready"]
    model = Span(ready[0], "strong") if ready else Span("no model is loaded yet")
    keys = (Span("v", "accent"), muted(" to invite a machine, "), Span("J", "accent"), muted(" to join one."))
    steps = (
        line("This node is by itself. ", muted("Press "), *keys),
        line(""),
        line(Span("What you have", "strong")),
        _step("e", "copies", Span(endpoint(snapshot), "strong"), muted(": what chat apps are told")),
        _step("7", "chats with", model) if ready else _step("l", "loads a model:", model),
        line(""),
        line(Span("How a second machine comes in", "strong")),
        _step("v", "makes an invite here, as text and as QR code"),
        _step("", "there: ", Span("meshllm join TOKEN", "strong"), muted(", or a picture of the code")),
        _step("", "both then answer at one address, and can share a large model"),
    )
    return tuple(part for each in steps for part in hang(each, width, _STEP if each[0].text == "  " else 0))


def _step(key: str, text: str, *more: Span) -> Line:
    """A key and what it does."""
    return line(
        "  ", Span(key.ljust(_STEP - 2), "accent"), muted(f"{text.rstrip()} " if more else text), *more
    )


def header(width: int) -> Line:
    """The names of the columns; empty where there is no table."""
    if width < TABLE_WIDTH:
        return ()
    names = [("Member", _NAME), ("State", _STATE), ("Role", _ROLE), ("RTT", _RTT)]
    names += [("Trend", _TREND)] if width >= TREND_WIDTH else []
    names += [("Path", _PATH), ("tok/s", _SPEED), ("Memory free", _MEMORY)]
    text = "".join(_pad(name, size) for name, size in names)
    return line(muted(text + "Models"))


def sorted_peers(snapshot: NodeSnapshot) -> list[PeerRow]:
    """The members by name, those that are gone last."""
    return sorted(snapshot.peers, key=lambda row: _SORTED[row.status])


class MemberRows:
    """Makes the rows, and remembers each until its member changes: most of 200 members do not.

    Ages in the rows are told to the minute.
    """

    def __init__(self) -> None:
        self._made: dict[str, tuple[PeerRow, tuple[object, ...], tuple[Line, ...]]] = {}

    def rows(self, view: NodeView, width: int) -> tuple[list[str], list[tuple[Line, ...]]]:
        """Keys and lines of the members, this node first. Needs a snapshot with a mesh."""
        snapshot = view.snapshot
        assert snapshot is not None
        assert snapshot.mesh is not None
        names = Counter(row.name for row in snapshot.peers)
        names[snapshot.name] += 1
        blocked = frozenset(snapshot.mesh.blocked)
        fresh: dict[str, tuple[PeerRow, tuple[object, ...], tuple[Line, ...]]] = {}
        for row in sorted_peers(snapshot)[:MEMBERS_LISTED]:
            gone = int(view.wall // _MINUTE) if row.status in ("down", "left") else 0
            barred = row.node in blocked
            context = (width, names[row.name] > 1, snapshot.version, gone, barred)
            known = self._made.get(row.node)
            if known is not None and known[0] is row and known[1] == context:
                fresh[row.node] = known
            else:
                columns = _peer_columns(row, view, snapshot.version, twin=names[row.name] > 1, blocked=barred)
                fresh[row.node] = (row, context, _laid_out(columns, width))
        self._made = fresh
        own = _laid_out(_own_columns(snapshot, snapshot.mesh, names[snapshot.name] > 1), width)
        return [OWN, *fresh], [own, *(lines for _, _, lines in fresh.values())]


def _own_columns(snapshot: NodeSnapshot, mesh: MeshView, twin: bool) -> Columns:
    ready = [str(model.id) for model in snapshot.models if model.status == "ready"]
    coming = [f"{model.id} ({model.status})" for model in snapshot.models if model.status != "ready"]
    reach, tone = own_reach(mesh)
    lending: tuple[tuple[str, Tone], ...] = ()
    if snapshot.lending_paused:
        lending = (("lending is paused: p resumes", "warn"),)
    return Columns(
        name=_twin_name(one_line(snapshot.name, 64), snapshot.node, twin),
        state=OWN_STATE.span,
        role=mesh.role,
        rtt=UNKNOWN,
        path=UNKNOWN,
        trend="",
        speed=_rate(max((model.decode_tokens_per_second for model in snapshot.models), default=0.0)),
        memory=sizes(snapshot.memory_free, snapshot.memory_total) if snapshot.memory_total else UNKNOWN,
        models=_named(ready + coming),
        notes=(*lending, *(((reach, tone),) if tone == "warn" else ())),
    )


def _rate(speed: float) -> str:
    return number(speed) if speed > 0 else UNKNOWN


def _peer_columns(row: PeerRow, view: NodeView, own_version: str, *, twin: bool, blocked: bool) -> Columns:
    gone = row.status in ("down", "left")
    return Columns(
        name=_twin_name(one_line(row.name, 64), row.node, twin),
        state=(BLOCKED if blocked else PEER_STATES[row.status]).span,
        role=row.role,
        rtt=rtt_words(row),
        path=row.path or UNKNOWN,
        trend="" if gone else view.rtts.bars(row.node),
        speed=UNKNOWN if gone else _rate(best_speed(row)),
        memory=sizes(row.memory_free, row.memory_total) if row.memory_total and not gone else UNKNOWN,
        models=UNKNOWN if gone else _named(model_words(row.models)),
        notes=tuple(_notes(row, own_version, view.wall, twin=twin, blocked=blocked)),
    )


def _twin_name(name: str, node: str, twin: bool) -> str:
    """Two machines of one name are told apart by the beginning of their ids."""
    return f"{fit(name, 12)} {short_id(node)}" if twin or not name else name


def model_words(models: tuple[PeerModel, ...]) -> list[str]:
    """Names of a node's models, those that answer first."""
    ready = [model.id for model in models if model.status == "ready"]
    return ready + [f"{one_line(model.id, 120)} (loading)" for model in models if model.status != "ready"]


def _named(names: list[str]) -> str:
    """The first names; how many more there are."""
    shown = ", ".join(one_line(name, 120) for name in names[:_MODELS_NAMED])
    more = len(names) - _MODELS_NAMED
    return f"{shown}, {more:,} more" if more > 0 else shown or "no model"


def _notes(
    row: PeerRow, own_version: str, wall: float, *, twin: bool, blocked: bool
) -> list[tuple[str, Tone]]:
    """What is not as it should be, most important first."""
    notes: list[tuple[str, Tone]] = []
    if blocked:
        notes.append(("blocked here: b talks to it again", "bad"))
    if row.lending_paused:
        notes.append(("its owner paused lending", "warn"))
    if row.status == "suspect":
        notes.append(("does not answer", "warn"))
    elif row.status in ("down", "left"):
        ago = f" {duration(wall - row.since)} ago" if wall > row.since > 0 else ""
        if row.status == "down":
            notes.append((f"stopped answering{ago}", "bad"))
        else:
            notes.append((f"said goodbye{ago}", "muted"))
    reach = reach_words(row)
    if reach and reach != BOTH_WAYS and not blocked and row.status in ("alive", "suspect"):
        notes.append((reach, "warn"))
    others = (version_words(row, own_version), skew_words(row.clock_skew), one_line(row.detail, 300))
    notes += [(words, "warn") for words in others if words]
    if twin:
        notes.append(("another member has this name", "muted"))
    return notes


def _laid_out(columns: Columns, width: int) -> tuple[Line, ...]:
    lines = [_table_line(columns, width)] if width >= TABLE_WIDTH else list(_card(columns, width))
    return (*lines, *_note_lines(columns.notes, width))


def _table_line(columns: Columns, width: int) -> Line:
    fixed = _NAME + _STATE + _ROLE + _RTT + _PATH + _SPEED + _MEMORY
    trend: tuple[Span, ...] = ()
    if width >= TREND_WIDTH:
        fixed += _TREND
        trend = (Span(_pad(columns.trend, _TREND), "muted"),)
    return (
        Span(_pad(columns.name, _NAME), "strong"),
        Span(_pad(columns.state.text, _STATE), columns.state.tone),
        Span(_pad(columns.role, _ROLE)),
        Span(_pad(columns.rtt, _RTT)),
        *trend,
        Span(_pad(columns.path, _PATH), "muted"),
        Span(_pad(columns.speed, _SPEED)),
        Span(_pad(columns.memory, _MEMORY)),
        Span(fit(columns.models, max(width - fixed, 8))),
    )


def _card(columns: Columns, width: int) -> tuple[Line, Line]:
    """Two lines: who and how near; then what it has."""
    role = _pad(columns.role, _ROLE) if width >= _ROLE_FROM else ""
    link = _LINK if width < 60 else _RTT
    name = _pad(columns.name, max(width - _STATE - len(role) - link, 10))
    room = max(width - cells(name) - _STATE - len(role), 4)
    near = columns.rtt if columns.path == UNKNOWN else f"{columns.rtt} {columns.path}"
    trend = f" {columns.trend}" if columns.trend and cells(near) < room - cells(columns.trend) else ""
    first = line(
        Span(name, "strong"),
        Span(_pad(columns.state.text, _STATE), columns.state.tone),
        Span(role),
        muted(fit(near, room) + trend),
    )
    figures = [f"  {columns.speed} tok/s"] if columns.speed != UNKNOWN else []
    figures += [f"  {columns.memory} free"] if columns.memory != UNKNOWN else []
    while figures and cells("".join(figures)) > width - _LEAST - 2:
        figures.pop()
    models = fit(columns.models, max(width - cells("".join(figures)) - 2, _LEAST))
    return first, line("  ", Span(models), muted("".join(figures)))


def _note_lines(notes: tuple[tuple[str, Tone], ...], width: int) -> list[Line]:
    """Notes beside each other, on as many lines as they need; one that is too long alone is cut."""
    rows: list[list[Span]] = []
    left = 0
    for words, tone in notes:
        text = fit(words, width - 4)
        if rows and cells(text) + 3 <= left:
            rows[-1] += [muted(" · "), Span(text, tone)]
            left -= 3 + cells(text)
        else:
            rows.append([muted("    " if rows else "  └ "), Span(text, tone)])
            left = width - 4 - cells(text)
    return [tuple(row) for row in rows]


def _pad(text: str, width: int) -> str:
    """A column: cut to leave a blank at its end, filled up to `width` cells."""
    shown = fit(text, width - 1)
    return shown + " " * (width - cells(shown))


def admitted_words(row: PeerRow, snapshot: NodeSnapshot, wall: float) -> str:
    """Who let a member in and until when."""
    words = [f"by {member_name(snapshot, row.admitted_by)}"] if row.admitted_by else []
    if row.expires_at > 0:
        left = row.expires_at - wall
        words.append(f"ends in {duration(left)}" if left > 0 else "has ended")
    return ", ".join(words)
