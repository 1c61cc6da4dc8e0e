"""The mesh as a drawing: this node as a box, members as boxes beside it, links between. No Textual here.

Where a box stands depends on the members' names alone, never on a figure: nothing moves when a round trip
or a speed changes, only when somebody comes or goes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from meshllm_core.state.mesh_events import PeerRow
from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.box_canvas import Box, Canvas
from meshllm_tui.cleaning import cells, fit, one_line
from meshllm_tui.mesh_rows import OWN, sorted_peers
from meshllm_tui.mesh_words import BLOCKED, OWN_STATE, PEER_STATES, best_speed, link_tag, mesh_name, name_of
from meshllm_tui.present import Line, Span, Tone
from meshllm_tui.units import number, sizes

SMALLEST = (62, 8)
"""Cells and lines below which a table says more than a drawing."""
TWO_SIDES = 104
"""Cells from which members stand at both sides of this node."""
_OWN_WIDTH, _OWN_HEIGHT = 22, 6
_LINK = 18
"""Cells between a box and the line that all links of a side leave from, that line included."""
_GAP = 2
"""Cells between this node's box and that line."""

Spark = Callable[[str], str]
"""A member's latest round trips as a row of small bars, by its id."""


@dataclass(frozen=True)
class Drawing:
    """What is drawn, and where its boxes are."""

    lines: tuple[Line, ...]
    boxes: tuple[Box, ...]
    """This node first; then the members in the order in which keys go through them."""
    left_out: int
    """Members that there was no room for."""


def is_drawable(width: int, height: int) -> bool:
    """Whether there is room for a drawing."""
    return width >= SMALLEST[0] and height >= SMALLEST[1]


def draw_mesh(snapshot: NodeSnapshot, width: int, height: int, chosen: str | None, spark: Spark) -> Drawing:
    """The mesh in at most `height` lines of `width` cells. Needs a snapshot with a mesh and room."""
    peers = sorted_peers(snapshot)
    sides = 2 if width >= TWO_SIDES else 1
    each = 3 if height - 1 >= 3 * -(-len(peers) // sides) else 2
    shown = peers[: (height - 1) // each * sides]
    blocked = frozenset(snapshot.mesh.blocked) if snapshot.mesh else frozenset()
    tags = [link_tag(row, blocked=row.node in blocked) for row in shown]
    keys = [OWN, *(row.node for row in shown)]
    picked = keys.index(chosen) if chosen in keys else -1
    base, places = _skeleton(width, height, each, picked, tuple(not tag.linked for tag in tags))
    canvas = base.copy()
    for line, words in enumerate(_own_words(snapshot)):
        canvas.text(places[0].left + 2, places[0].top + 1 + line, fit(words.text, _OWN_WIDTH - 4), words.tone)
    for place, row, tag in zip(places[1:], shown, tags, strict=True):
        _fill(canvas, place, _words(row, place.width - 4, each - 1, row.node in blocked, spark))
        words_of_link = f" {fit(tag.words, _LINK - 5)} "
        first = place.left - _LINK if place.left > places[0].left else place.right
        at = first + 1 + (_LINK - 1 - cells(words_of_link)) // 2
        canvas.text(at, place.top + 1, words_of_link, tag.tone)
    boxes = tuple(replace(place, key=key) for place, key in zip(places, keys, strict=True))
    return Drawing(canvas.lines(), boxes, len(peers) - len(shown))


def _fill(canvas: Canvas, place: Box, lines: Sequence[Sequence[Span]]) -> None:
    for line, parts in enumerate(lines):
        at = place.left + 2
        for part in parts:
            canvas.text(at, place.top + 1 + line, part.text, part.tone)
            at += cells(part.text)


@lru_cache(maxsize=16)
def _skeleton(
    width: int, height: int, each: int, chosen: int, dashed: tuple[bool, ...]
) -> tuple[Canvas, tuple[Box, ...]]:
    """Boxes and links without words: this node's, then one for each of `dashed`, of `each` lines.

    `chosen` is the place of the box with a thick border; `dashed` says which members have no link.
    Figures change all the time and this does not, so the last ones are kept.
    """
    sides = 2 if width >= TWO_SIDES else 1
    half = -(-len(dashed) // sides)
    own_left = (width - _OWN_WIDTH) // 2 if sides == 2 else 0
    canvas = Canvas(width, min(max(_OWN_HEIGHT, half * each + 1 if dashed else 0), height))
    own = Box(OWN, own_left, (canvas.height - _OWN_HEIGHT) // 2, _OWN_WIDTH, _OWN_HEIGHT)
    spine = own.right + 1 + _GAP
    left = spine + _LINK
    boxes = [own, *_column(canvas, left, width - left, half, each)]
    other = own.left - 1 - _GAP
    boxes += _column(canvas, 0, other - _LINK + 1, len(dashed) - half, each)
    for box in boxes:
        canvas.box(box, "muted")
    if 0 <= chosen < len(boxes):
        canvas.box(boxes[chosen], "accent", heavy=True)
    start = own.top + _OWN_HEIGHT // 2
    if half:
        canvas.across(start, own.right, spine)
        _links(canvas, boxes[1 : half + 1], dashed[:half], spine, start)
    if len(dashed) > half:
        canvas.across(start, other, own.left)
        _links(canvas, boxes[half + 1 :], dashed[half:], other, start)
    return canvas, tuple(boxes)


def _column(canvas: Canvas, left: int, width: int, count: int, each: int) -> list[Box]:
    top = (canvas.height - (count * each + 1)) // 2
    return [Box("", left, top + place * each, width, each + 1) for place in range(count)]


def _links(canvas: Canvas, boxes: Sequence[Box], dashed: Sequence[bool], spine: int, start: int) -> None:
    """The line that all links of a side leave from, and each of them."""
    canvas.down(spine, min(start, boxes[0].top + 1), max(start, boxes[-1].top + 1))
    for box, broken in zip(boxes, dashed, strict=True):
        first, last = (spine, box.left) if box.left > spine else (box.right, spine)
        canvas.across(box.top + 1, first, last, dashed=broken)


def _own_words(snapshot: NodeSnapshot) -> tuple[Span, ...]:
    assert snapshot.mesh is not None
    mesh = snapshot.mesh
    ready = [model for model in snapshot.models if model.status == "ready"]
    speed = max((model.decode_tokens_per_second for model in ready), default=0.0)
    models = one_line(ready[0].id, 60) if ready else "no model is ready"
    more = f" +{len(ready) - 1}" if len(ready) > 1 else ""
    rate = f"{number(speed)} tok/s" if speed > 0 else ""
    lending = "‖ lending paused" if snapshot.lending_paused else rate or f"{mesh.role}, {mesh_name(mesh)}"
    return (
        Span(f"{OWN_STATE.glyph} {one_line(snapshot.name, 60) or 'this node'}", "strong"),
        Span(f"{fit(models, _OWN_WIDTH - 4 - len(more))}{more}", "plain" if ready else "muted"),
        Span(lending, "warn" if snapshot.lending_paused else "muted"),
        Span(sizes(snapshot.memory_free, snapshot.memory_total) if snapshot.memory_total else "", "muted"),
    )


def _words(row: PeerRow, width: int, lines: int, blocked: bool, spark: Spark) -> tuple[tuple[Span, ...], ...]:
    """What stands in a member's box: its state and name; then its model and speed."""
    state = BLOCKED if blocked else PEER_STATES[row.status]
    gone = row.status in ("down", "left")
    speed = best_speed(row)
    rate = f"{number(speed)} tok/s" if speed > 0 and not gone else ""
    bars = "" if gone else spark(row.node)
    notes = "client" if row.role == "client" else "paused" if row.lending_paused else ""
    aside = state.word if gone or blocked else notes or (rate if lines == 1 else bars)
    name = name_of(row)
    if aside in (rate, bars) and cells(name) + cells(aside) + 3 > width:
        # A figure makes room for a name, not a name for a figure.
        aside = aside[-max(width - 3 - cells(name), 0) :] if aside == bars and cells(name) < width - 5 else ""
    name = fit(name, max(width - cells(aside) - 3, 6))
    pad = " " * max(width - 2 - cells(name) - cells(aside), 1)
    tone: Tone = state.tone if gone or blocked else "warn" if notes == "paused" else "muted"
    first = (
        Span(f"{state.glyph} ", state.tone),
        Span(name, "muted" if gone else "strong"),
        Span(pad + aside, tone),
    )
    if lines == 1:
        return (first,)
    models = [one_line(model.id, 80) for model in row.models if model.status == "ready"]
    more = f" +{len(models) - 1}" if len(models) > 1 else ""
    free = sizes(row.memory_free, row.memory_total) if row.memory_total and not gone else ""
    said = models[0] if models and not gone else ""
    right = f"{more} {rate}".rstrip() if said and width >= 18 else more
    text = f"{fit(said, max(width - cells(right), 6))}{right}" if said else free or "–"
    return first, (Span(fit(text, width), "plain" if said else "muted"),)
