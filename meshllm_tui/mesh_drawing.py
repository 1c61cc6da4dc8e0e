"""The mesh as a drawing: this node as a box, members as boxes beside it, links between. No Textual here.

Where a box stands depends on the members' names alone, never on a figure: nothing moves when a round trip
or a speed changes, only when somebody comes or goes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class _Side:
    """The members at one side."""

    rows: Sequence[PeerRow]
    left: int
    """Where their boxes begin."""
    width: int
    spine: int
    """Where the line is that their links leave from."""


def is_drawable(width: int, height: int) -> bool:
    """Whether there is room for a drawing."""
    return width >= SMALLEST[0] and height >= SMALLEST[1]


def draw_mesh(snapshot: NodeSnapshot, width: int, height: int, chosen: str | None, spark: Spark) -> Drawing:
    """The mesh in at most `height` lines of `width` cells. Needs a snapshot with a mesh and room."""
    peers = sorted_peers(snapshot)
    sides = 2 if width >= TWO_SIDES else 1
    tall = height - 1 >= 3 * -(-len(peers) // sides)
    each = 3 if tall else 2
    most = (height - 1) // each * sides
    shown = peers[:most]
    half = -(-len(shown) // sides)
    own_left = (width - _OWN_WIDTH) // 2 if sides == 2 else 0
    placed = [_right(shown[:half], own_left, width)]
    if sides == 2:
        placed.append(_left(shown[half:], own_left))
    lines = max(_OWN_HEIGHT, half * each + 1 if shown else 0)
    canvas = Canvas(width, min(lines, height))
    own = Box(OWN, own_left, (canvas.height - _OWN_HEIGHT) // 2, _OWN_WIDTH, _OWN_HEIGHT)
    boxes = [own]
    blocked = frozenset(snapshot.mesh.blocked) if snapshot.mesh else frozenset()
    canvas.box(own, "accent" if chosen == OWN else "muted", heavy=chosen == OWN)
    for place, words in enumerate(_own_words(snapshot)):
        canvas.text(own.left + 2, own.top + 1 + place, fit(words.text, _OWN_WIDTH - 4), words.tone)
    for side in placed:
        boxes += _draw_side(canvas, side, own, each, chosen, blocked, spark)
    return Drawing(canvas.lines(), tuple(boxes), len(peers) - len(shown))


def _right(rows: Sequence[PeerRow], own_left: int, width: int) -> _Side:
    spine = own_left + _OWN_WIDTH + _GAP
    left = spine + _LINK
    return _Side(rows, left, width - left, spine)


def _left(rows: Sequence[PeerRow], own_left: int) -> _Side:
    spine = own_left - _GAP - 1
    return _Side(rows, 0, spine - _LINK + 1, spine)


def _draw_side(
    canvas: Canvas,
    side: _Side,
    own: Box,
    each: int,
    chosen: str | None,
    blocked: frozenset[str],
    spark: Spark,
) -> list[Box]:
    """The boxes of one side from top to bottom, their links, and the line that these leave from."""
    if not side.rows:
        return []
    right = side.left > own.left
    top = (canvas.height - (len(side.rows) * each + 1)) // 2
    boxes = [
        Box(row.node, side.left, top + place * each, side.width, each + 1)
        for place, row in enumerate(side.rows)
    ]
    for box, row in zip(boxes, side.rows, strict=True):
        canvas.box(box, "muted")
        for place, parts in enumerate(_words(row, side.width - 4, each - 1, row.node in blocked, spark)):
            at = box.left + 2
            for part in parts:
                canvas.text(at, box.top + 1 + place, part.text, part.tone)
                at += cells(part.text)
    for box, row in zip(boxes, side.rows, strict=True):
        if row.node == chosen:
            canvas.box(box, "accent", heavy=True)
    start = own.top + _OWN_HEIGHT // 2
    canvas.across(start, own.right if right else side.spine, side.spine if right else own.left)
    canvas.down(side.spine, min(start, boxes[0].top + 1), max(start, boxes[-1].top + 1))
    for box, row in zip(boxes, side.rows, strict=True):
        _draw_link(canvas, box, side, row, right, row.node in blocked)
    return boxes


def _draw_link(canvas: Canvas, box: Box, side: _Side, row: PeerRow, right: bool, blocked: bool) -> None:
    """From the side's line to a box; how near and by which way stands in it."""
    level = box.top + 1
    first, last = (side.spine, box.left) if right else (box.right, side.spine)
    tag = link_tag(row, blocked=blocked)
    canvas.across(level, first, last, dashed=not tag.linked)
    words = f" {fit(tag.words, _LINK - 5)} "
    canvas.text(first + 1 + (last - first - cells(words)) // 2, level, words, tag.tone)


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
