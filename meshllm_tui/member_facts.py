"""All that is known of one member, one fact a line. No Textual here."""

from collections.abc import Iterable, Iterator

from meshllm_core.state.mesh_events import PeerModel, PeerRow
from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.cleaning import cells, fit, one_line
from meshllm_tui.hanging import hang
from meshllm_tui.mesh_rows import admitted_words
from meshllm_tui.mesh_words import (
    BLOCKED,
    PEER_STATES,
    own_reach,
    reach_words,
    rtt_words,
    skew_words,
    version_words,
)
from meshllm_tui.present import Line, NodeView, Span, Tone, line, muted
from meshllm_tui.rtt_history import trend
from meshllm_tui.units import UNKNOWN, duration, number, parameters, size, sizes

FACT_ROWS = 5
"""Lines that the facts take beside the table; always as many, so that nothing moves when a row is chosen."""
_LABEL = 10
_SIDE_BY_SIDE = 110
"""Cells from which facts stand in two columns."""
_LISTED = 64
"""Addresses, devices or models of a member that are listed."""

_IN_THE_ROW = ("Reach", "Clock", "Note")
"""Facts that stand below a member's row when there is anything to say."""

Fact = tuple[str, str, Tone]


def member_facts(row: PeerRow, view: NodeView) -> Iterator[Fact]:
    """(label, words, tone) of what matters of a member; what is not known is left out."""
    snapshot = view.snapshot or NodeSnapshot()
    address = one_line(row.address, 80)
    link = f"{address} by {row.path.upper()}" if address and row.path else address
    yield "Address", link or "no link now", "plain" if link else "muted"
    heard, tone = heard_words(row, view.wall)
    yield "Heard", heard, tone
    if trips := trend(view.rtts.of(row.node)):
        yield "RTT", trips, "plain"
    blocked = snapshot.mesh is not None and row.node in snapshot.mesh.blocked
    reach = reach_words(row)
    if blocked:
        # That there is no path is then this machine's own doing.
        yield "Reach", "blocked here: b talks to it again", "warn"
    elif reach:
        yield "Reach", reach, "plain" if row.reach == "both" else "warn"
    other = version_words(row, snapshot.version)
    update = {"older": ": update it", "newer": ": update this one"}.get(other.partition(" ")[0], "")
    version = f"{one_line(row.version, 20) or UNKNOWN}{update}"
    yield "Version", version, "warn" if other else "plain"
    devices = "; ".join(one_line(device, 80) for device in row.devices[:8])
    yield "Devices", devices or "main processor only", "plain"
    yield "Owner", one_line(row.owner, 80) or "none named", "plain" if row.owner else "muted"
    admitted = admitted_words(row, snapshot, view.wall)
    if admitted:
        rights = ", may invite" if row.may_invite else ""
        yield "Admitted", admitted + rights, "plain"
    skew = skew_words(row.clock_skew)
    if skew:
        yield "Clock", f"{skew} of this node's" if row.clock_skew > 0 else f"{skew} this node's", "warn"
    if row.detail and not blocked:
        yield "Note", one_line(row.detail, 400), "warn"
    yield "Id", one_line(row.node, 64), "muted"


def heard_words(row: PeerRow, wall: float) -> tuple[str, Tone]:
    """When the member was last heard of, and through whom."""
    ago = f"{duration(wall - row.since)} ago" if wall > row.since > 0 else "not since this node started"
    if row.status == "alive":
        if row.path:
            return "just now: it answers a ping every 2 s", "plain"
        through = one_line(row.seen_through, 64)
        return f"just now, through {through}" if through else "just now, through others", "plain"
    if row.status == "suspect":
        return f"it has not answered for {duration(max(wall - row.since, 0.0))}; others are asked", "warn"
    return ago, "muted"


def lent_words(row: PeerRow) -> tuple[str, Tone]:
    """What it computes for others."""
    if row.lending_paused:
        return "nothing: its owner paused lending", "warn"
    if row.role == "client":
        return "nothing: it is a client", "muted"
    if not row.memory_lent:
        return "no memory for stages", "muted"
    pace = f", {size(row.weights_per_second)}/s of weights" if row.weights_per_second else ""
    return f"{size(row.memory_lent)} for stages of others' models{pace}", "plain"


def own_facts(view: NodeView) -> Iterator[Fact]:
    """The same of this node."""
    snapshot = view.snapshot
    if snapshot is None or snapshot.mesh is None:
        return
    mesh = snapshot.mesh
    reach, tone = own_reach(mesh)
    told = ", ".join(one_line(address, 60) for address in mesh.addresses[:8])
    yield "Told", told or "no address: others cannot dial this node", "plain" if told else "warn"
    yield "Reach", reach, "plain" if tone == "ok" else tone
    yield "Version", one_line(snapshot.version, 20), "plain"
    rights = [mesh.role, "founder" if mesh.founder else "", "may invite" if mesh.may_invite else ""]
    yield "Role", ", ".join(right for right in rights if right), "plain"
    yield "Id", one_line(snapshot.node, 64), "muted"


def fact_lines(facts: Iterable[Fact], width: int, *, beside_rows: bool = True) -> tuple[Line, ...]:
    """FACT_ROWS lines: facts in two columns, or where there is no room what the row itself does not say.

    Where there are no rows, only a drawing (not `beside_rows`), what is not as it should be comes first.
    """
    shown = [
        (label, words.partition(":")[0] if label == "Reach" and beside_rows else words, tone)
        for label, words, tone in facts
    ]
    if not beside_rows:
        shown.sort(key=lambda fact: fact[2] not in ("warn", "bad"))
    if width < _SIDE_BY_SIDE:
        lines = [_fact(fact, width) for fact in shown if not beside_rows or fact[0] not in _IN_THE_ROW]
    else:
        half = (width - 2) // 2
        lines = []
        for place, fact in enumerate(shown[:FACT_ROWS]):
            first = _fact(fact, half)
            gap = Span(" " * (half + 2 - sum(cells(span.text) for span in first)))
            beside = shown[place + FACT_ROWS : place + FACT_ROWS + 1]
            lines.append((*first, gap, *(_fact(beside[0], half) if beside else ())))
    return tuple([*lines, *[line("")] * FACT_ROWS][:FACT_ROWS])


def _fact(fact: Fact, width: int) -> Line:
    label, words, tone = fact
    return (muted(label.ljust(_LABEL)), Span(fit(words, max(width - _LABEL, 8)), tone))


def member_page(row: PeerRow, view: NodeView, width: int) -> tuple[Line, ...]:
    """Everything of a member, for a dialog that scrolls."""
    mesh = view.snapshot.mesh if view.snapshot else None
    blocked = mesh is not None and row.node in mesh.blocked
    state = BLOCKED if blocked else PEER_STATES[row.status]
    since = f"  for {duration(view.wall - row.since)}" if view.wall > row.since > 0 else ""
    rtt = rtt_words(row)
    lines: list[Line] = [
        line(state.span, muted(since), "  ", row.role, muted("" if rtt == UNKNOWN else f"  RTT {rtt}")),
        line(""),
    ]
    for fact in member_facts(row, view):
        lines += _wrapped_fact(fact, width) if fact[0] != "Id" else ()
    if row.memory_total:
        free = f"{sizes(row.memory_free, row.memory_total)} free"
        lines.append(line(muted("Memory".ljust(_LABEL)), free))
    words, tone = lent_words(row)
    lines += _wrapped_fact(("Lends", words, tone), width)
    node = one_line(row.node, 64)
    lines += [_fact(("Id", node[:32], "muted"), width), _fact(("", node[32:], "muted"), width)]
    said = [one_line(address, 60) for address in row.addresses[:_LISTED]]
    if said:
        lines += [line(""), line(Span("Addresses it tells", "strong")), *(line(f"  {each}") for each in said)]
    lines += [line(""), line(Span("Models", "strong"))]
    ordered = sorted(row.models, key=lambda model: model.status != "ready")
    lines += [part for model in ordered[:_LISTED] for part in _model_lines(model, width)]
    lines += [] if ordered else [line(muted("  none"))]
    if len(row.models) > _LISTED:
        lines.append(line(muted(f"  and {len(row.models) - _LISTED:,} more")))
    return tuple(lines)


def _wrapped_fact(fact: Fact, width: int) -> tuple[Line, ...]:
    label, words, tone = fact
    return hang((muted(label.ljust(_LABEL)), Span(words, tone)), width, _LABEL)


def _model_lines(model: PeerModel, width: int) -> tuple[Line, ...]:
    ready = model.status == "ready"
    words = [f"{number(model.decode_tokens_per_second)} tok/s" if model.decode_tokens_per_second > 0 else ""]
    words += [parameters(model.parameters) if model.parameters > 0 else ""]
    words += [f"{model.active} active, {model.queued} queued" if model.active or model.queued else ""]
    figures = "  ".join(word for word in words if word)
    name = fit(model.id, max(width - cells(figures) - 16, 12))
    state = Span("● ready  " if ready else "◐ loading  ", "ok" if ready else "accent")
    return hang(line("  ", state, Span(name, "strong"), muted(f"  {figures}")), width, _LABEL + 1)
