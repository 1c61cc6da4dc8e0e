"""The mesh's facts in the node pane: id, name, addresses, reach, what was refused. No Textual here."""

from textwrap import wrap

from meshllm_core.state.snapshot import NodeSnapshot, RequestView
from meshllm_tui.cleaning import fit, one_line
from meshllm_tui.mesh_words import mesh_name, own_reach, publication_span, refusal_words
from meshllm_tui.present import Line, Span, Tone, muted
from meshllm_tui.units import count, number

LABEL = 9
"""Cells of the label column in the node pane."""
_LISTED = 4
_ROUTED = 2


def fact(label: str, *value: Span) -> Line:
    """A label and what it says."""
    return (muted(label.ljust(LABEL)), *value)


def mesh_facts(snapshot: NodeSnapshot, width: int) -> list[Line]:
    """What the node pane says of the mesh; of a node by itself only its id."""
    room = max(width - LABEL, 8)
    lines: list[Line] = []
    refused = refusal_words(snapshot)
    if refused:
        lines.append(fact("Refused", Span(fit(refused, room), "warn")))
    mesh = snapshot.mesh
    if mesh is not None:
        who = f"{mesh_name(mesh)}, {mesh.role}{', founder' if mesh.founder else ''}"
        lines.append(fact("Mesh", Span(fit(who, room), "strong")))
        if mesh.publication != "private":
            listed = publication_span(mesh)
            lines.append(fact("Listed", Span(fit(listed.text, room), listed.tone)))
        reach, tone = own_reach(mesh)
        lines += _listed("Reach", [reach], "plain" if tone == "ok" else tone, room)
        lines += _listed(
            "Told", list(mesh.addresses) or ["nothing: others cannot dial this node"], "plain", room
        )
        lines += _listed("Not told", list(mesh.left_out), "muted", room)
    if snapshot.node:
        copies = "  c copies it"
        lines.append(fact("Id", Span(fit(snapshot.node, max(room - len(copies), 8))), muted(copies)))
    if snapshot.key_storage:
        lines.append(fact("Key", muted(fit(snapshot.key_storage, room))))
    return lines


def _listed(label: str, texts: list[str], tone: Tone, room: int) -> list[Line]:
    """Each text on its own lines, wrapped beside the label; how many more there are."""
    shown = [part for text in texts[:_LISTED] for part in wrap(one_line(text, 200), room)]
    if len(texts) > _LISTED:
        shown.append(f"and {len(texts) - _LISTED} more")
    return [fact("" if place else label, Span(fit(text, room), tone)) for place, text in enumerate(shown)]


def routed_facts(snapshot: NodeSnapshot, width: int) -> list[Line]:
    """The newest requests that another node computed or asked for."""
    room = max(width - LABEL, 8)
    routed = [view for view in snapshot.requests if view.served_by or view.asked_by][-_ROUTED:]
    lines = []
    for place, view in enumerate(reversed(routed)):
        lines.append(fact("Routed" if place == 0 else "", Span(fit(_routed(view), room))))
    return lines


def _routed(view: RequestView) -> str:
    model = one_line(view.model, 60)
    if view.served_by:
        words = f"{one_line(view.served_by, 40)} answers with {model}"
    else:
        words = f"{model} for {one_line(view.asked_by, 40)}"
    if view.status == "running":
        return f"{words}, running"
    if view.error:
        return f"{words}, failed"
    speed = view.decode_tokens_per_second
    figures = f", {number(speed)} tok/s" if speed > 0 else ""
    return f"{words}, {count(view.completion_tokens, 'token')}{figures}"
