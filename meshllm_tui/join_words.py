"""The join checklist and the invites, in words. No Textual here."""

from collections.abc import Iterator

from meshllm_core.state.mesh_events import InviteRow, JoinStep, StepStatus
from meshllm_core.state.snapshot import JoinLine, JoinView
from meshllm_tui.cleaning import clean, fit, one_line
from meshllm_tui.mesh_words import mesh_name
from meshllm_tui.present import Line, NodeView, Span, State, Tone, line, muted, waiting_lines
from meshllm_tui.units import duration

STEP_STATES: dict[StepStatus, State] = {
    "waiting": State("·", "waiting", "muted"),
    "running": State("◌", "running", "accent"),
    "passed": State("✓", "passed", "ok"),
    "failed": State("✗", "failed", "bad"),
    "skipped": State("–", "skipped", "muted"),
}
STEP_NAMES: dict[JoinStep, str] = {
    "token": "Token",
    "interface": "Network",
    "address": "Address",
    "identity": "Identity",
    "version": "Version",
    "clock": "Clock",
    "admission": "Admission",
    "reachability": "Reachability",
}
INVITE_STATES: dict[str, State] = {
    "open": State("●", "open", "ok"),
    "used_up": State("✓", "used up", "muted"),
    "expired": State("○", "expired", "muted"),
    "revoked": State("✗", "revoked", "bad"),
}
_STEP, _STATE = 13, 9
USES_WIDTH = 26
"""Cells from which the uses stand beside the rest."""
GROUP = 8
"""Characters between two dashes of a token."""


def checklist(view: JoinView, width: int) -> tuple[Line, ...]:
    """Eight lines: glyph, what is checked, how that stands, what was found."""
    return tuple(_step_line(each, width) for each in view.lines)


def _step_line(each: JoinLine, width: int) -> Line:
    state = STEP_STATES[each.status]
    quiet = each.status in ("waiting", "skipped")
    name = STEP_NAMES[each.step].ljust(_STEP)
    detail = fit(each.detail, max(width - _STEP - _STATE - 2, 8))
    return (
        Span(f"{state.glyph} ", state.tone),
        Span(name, "muted" if quiet else "plain"),
        Span(state.word.ljust(_STATE), state.tone),
        Span(detail, "bad" if each.status == "failed" else "muted" if quiet else "plain"),
    )


def ending(view: JoinView, wall: float) -> tuple[Line, ...]:
    """How it ended and what to do next; while it runs, for how long it has."""
    if view.state == "running":
        return (
            line(
                Span("◌ joining…", "accent"),
                muted(f"  {duration(wall - view.started_at)}; it goes on when you leave this page"),
            ),
        )
    tone: Tone = "ok" if view.state == "joined" else "bad"
    words = clean(view.message, 400).strip() or ("Joined." if view.state == "joined" else "It failed.")
    lines = [line(Span(f"{'✓' if view.state == 'joined' else '✗'} {words}", tone))]
    if view.hint:
        lines.append(line(Span(clean(view.hint, 400).strip())))
    return tuple(lines)


def invite_lines(row: InviteRow, wall: float, width: int) -> tuple[Line, ...]:
    """One invite of the list: state, for whom, how long still; who used it beside that or below."""
    state = INVITE_STATES[row.state]
    time = ""
    if row.state == "open":
        time = countdown(row.expires_at - wall) if row.expires_at > 0 else "no end"
    head = f"{state.glyph} {state.word:<9}", f"{one_line(row.id, 10):<12}", f"{row.role:<8}", f"{time:<18}"
    first = line(Span(head[0], state.tone), Span(head[1], "strong"), head[2], muted(head[3]))
    room = width - sum(map(len, head))
    if room < USES_WIDTH:
        return first, line("  ", Span(fit(use_words(row), max(width - 2, 8))))
    return ((*first, Span(fit(use_words(row), room))),)


def empty_invites(view: NodeView) -> tuple[Line, ...]:
    """What the list says without an invite."""
    if view.snapshot is None:
        return waiting_lines(view)
    mesh = view.snapshot.mesh
    if mesh is not None and not mesh.may_invite:
        return (
            line("This node may not invite."),
            line(muted("Ask for an invite that lets it, where the mesh was founded.")),
        )
    begin = "The first one founds a mesh." if mesh is None else "Who uses one is named here."
    return (line("No invite was made yet."), line(muted(begin)))


def use_words(row: InviteRow) -> str:
    """How often it was used, and by whom where that is known."""
    used = (
        f"{row.used} of {row.uses} used" if row.uses else f"{row.used} used" if row.used else "not used yet"
    )
    names = ", ".join(one_line(name, 40) for name in row.used_by[:3])
    more = f" and {len(row.used_by) - 3} more" if len(row.used_by) > 3 else ""
    return f"{used} by {names}{more}" if names else used


def countdown(seconds: float) -> str:
    """The time that is left: to the second within the last hour."""
    if seconds <= 0:
        return "over"
    if seconds < 3600:
        minutes, rest = divmod(int(seconds), 60)
        return f"{minutes}:{rest:02d} left"
    return f"{duration(seconds)} left"


def token_groups(token: str, width: int) -> Iterator[str]:
    """The token in lines of whole groups with their dashes, none wider than `width` where one group fits."""
    head, colon, rest = token.partition(":")
    groups = [group for group in rest.split("-") if group] if colon else [token]
    if colon:
        yield f"{head}:"
    per_line = max(width // (GROUP + 1), 1)
    for start in range(0, len(groups), per_line):
        last = start + per_line >= len(groups)
        yield "-".join(groups[start : start + per_line]) + ("" if last else "-")


def box_lines(view: NodeView) -> tuple[Line, ...]:
    """Below the box: what it takes, and why it may be of no use now."""
    if view.snapshot is None:
        return waiting_lines(view)
    if view.snapshot.mesh is not None:
        return (
            line("This node is in the mesh ", Span(mesh_name(view.snapshot.mesh), "strong"), "."),
            line(muted("To join another one it has to leave first: 1, then L.")),
        )
    return (
        line(
            muted(
                "It begins with MESHLLM: and line breaks in it do no harm. A path works too: "
                "of a file with the invite, or of a picture of its code."
            )
        ),
    )


def next_keys(view: JoinView, *, again: bool) -> tuple[Line, ...]:
    """What to press when it has ended; `again`: the invite is known here."""
    if view.state == "joined":
        return (line(Span("Enter", "accent"), muted(" shows the mesh")),)
    if view.state == "failed":
        first = (Span("r", "accent"), muted(" tries the same invite again  ")) if again else ()
        return (line(*first, Span("n", "accent"), muted(" takes another invite")),)
    return ()
