"""The endpoint's requests in words: a row each, three phases to scale, all facts of one. No Textual here."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from meshllm_core.state.snapshot import RequestView
from meshllm_tui.cleaning import cells, fit, one_line
from meshllm_tui.node_rows import fact
from meshllm_tui.present import Line, NodeView, Span, State, Tone, line, link_words, muted, waiting_lines
from meshllm_tui.units import UNKNOWN, count, duration, milliseconds, number

Shown = Literal["all", "running", "failed"]
SHOWN: Final[tuple[Shown, ...]] = ("all", "running", "failed")
"""What the list can be narrowed to, in the order of its key."""

STATES: Final[dict[str, State]] = {
    "running": State("◐", "running", "accent"),
    "stop": State("✓", "done", "ok"),
    "length": State("!", "cut", "warn"),
    "tool_calls": State("✓", "tool call", "ok"),
    "cancelled": State("○", "cancelled", "muted"),
    "error": State("✗", "failed", "bad"),
}
_MEANING: Final[dict[str, str]] = {
    "length": "the answer reached its limit of tokens",
    "tool_calls": "the model asked for a tool",
    "cancelled": "the client went away, or somebody cancelled it",
}
_ROUTES: Final = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completion",
    "/v1/responses": "response",
    "/v1/embeddings": "embedding",
    "mesh": "mesh",
}
QUEUE, PREFILL, DECODE = "╌", "─", "━"
"""Glyphs of the bar: they differ without colour."""
_TONES: Final[tuple[Tone, ...]] = ("warn", "accent", "ok")
_SECONDS_MAX = 4e9


@dataclass(frozen=True, slots=True)
class Phases:
    """Where a request's time went, in milliseconds."""

    queue: float
    """Until the first step that computed it."""
    prefill: float
    """From there to the first token."""
    decode: float
    """From the first token to the last."""


def phases(request: RequestView) -> Phases | None:
    """None while it runs, and where it ended before it gave a token.

    What gives no tokens at all, embeddings, is all prefill.
    """
    early = request.status in ("error", "cancelled") and request.first_token_ms <= 0
    if request.status == "running" or early or request.total_ms <= 0:
        return None
    queue = min(max(request.queue_ms, 0.0), request.total_ms)
    if request.first_token_ms <= 0:
        return Phases(queue, request.total_ms - queue, 0.0)
    first = min(max(request.first_token_ms, queue), request.total_ms)
    return Phases(queue, first - queue, request.total_ms - first)


def bar_spans(parts: Phases, width: int) -> Line:
    """The phases to scale in `width` cells; one that took any time has a cell."""
    values = (parts.queue, parts.prefill, parts.decode)
    total = sum(values)
    if total <= 0 or width < len(values):
        return (muted(" " * max(width, 0)),)
    taken = [max(round(value / total * width), 1 if value > 0 else 0) for value in values]
    longest = taken.index(max(taken))
    taken[longest] += width - sum(taken)
    each = zip((QUEUE, PREFILL, DECODE), taken, _TONES, strict=True)
    return tuple(Span(glyph * cells_, tone) for glyph, cells_, tone in each if cells_)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the list; those with the highest `rank` go first where there is no room."""

    title: str
    width: int
    rank: int
    right: bool
    text: Callable[[RequestView, NodeView], Span | Line]


def _state(request: RequestView, _: NodeView) -> Span:
    return STATES[request.status].span


def _time(request: RequestView, _: NodeView) -> Span:
    return muted(clock(request.started_at))


def _route(request: RequestView, _: NodeView) -> Span:
    return muted(route(request))


def _who(request: RequestView, _: NodeView) -> Span:
    return Span(one_line(request.served_by, 60) or "here", "accent" if request.served_by else "muted")


def _tokens(request: RequestView, _: NodeView) -> Span:
    return Span(f"{request.prompt_tokens:,} → {request.completion_tokens:,}")


def _phase(name: str) -> Callable[[RequestView, NodeView], Span]:
    def text(request: RequestView, _: NodeView) -> Span:
        parts = phases(request)
        return Span(milliseconds(getattr(parts, name))) if parts else muted(UNKNOWN)

    return text


def _total(request: RequestView, view: NodeView) -> Span:
    if request.status == "running":
        return Span(milliseconds(max(view.wall - request.started_at, 0.0) * 1000), "accent")
    return Span(milliseconds(request.total_ms))


def _speed(request: RequestView, _: NodeView) -> Span:
    speed = request.decode_tokens_per_second
    return Span(number(speed), "strong") if speed > 0 else muted(UNKNOWN)


def _bar(request: RequestView, _: NodeView) -> Line:
    parts = phases(request)
    return bar_spans(parts, 12) if parts else ()


_COLUMNS: Final = (
    _Column("state", 11, 0, False, _state),
    _Column("time", 8, 0, False, _time),
    _Column("route", 10, 5, False, _route),
    _Column("served by", 10, 6, False, _who),
    _Column("tokens", 13, 2, True, _tokens),
    _Column("queue", 7, 4, True, _phase("queue")),
    _Column("prefill", 7, 4, True, _phase("prefill")),
    _Column("decode", 7, 4, True, _phase("decode")),
    _Column("total", 7, 1, True, _total),
    _Column("tok/s", 6, 1, True, _speed),
    _Column("phases", 12, 3, False, _bar),
)
_MODEL_AT = 2
"""The model's column stands here and takes the room that is left."""
_MODEL_WIDTH = 14
_GAP = 2


def columns(width: int) -> tuple[tuple[_Column, ...], int]:
    """The columns that fit in `width` cells beside the model's, and the model's width."""
    kept = list(_COLUMNS)
    while True:
        room = width - sum(column.width + _GAP for column in kept)
        worst = max(column.rank for column in kept)
        if room >= _MODEL_WIDTH or worst == 0:
            return tuple(kept), max(room, 8)
        kept = [column for column in kept if column.rank != worst]


def header(width: int) -> Line:
    """The names of the columns."""
    kept, model = columns(width)
    names = [_aligned(muted(column.title), column.width, column.right) for column in kept]
    names.insert(_MODEL_AT, (muted("model".ljust(model)),))
    return _joined(names)


def request_line(request: RequestView, view: NodeView, width: int) -> Line:
    """A request as a row of `width` cells."""
    kept, model = columns(width)
    texts = [_aligned(column.text(request, view), column.width, column.right) for column in kept]
    name = fit(request.model or "no model", model)
    texts.insert(_MODEL_AT, (Span(name + " " * (model - cells(name)), "strong"),))
    return _joined(texts)


def _aligned(text: Span | Line, width: int, right: bool) -> Line:
    spans = (text,) if isinstance(text, Span) else text
    if len(spans) == 1:
        spans = (Span(fit(spans[0].text, width), spans[0].tone),) if spans[0].text.strip() else spans
    gap = Span(" " * max(width - sum(cells(span.text) for span in spans), 0))
    return (gap, *spans) if right else (*spans, gap)


def _joined(parts: list[Line]) -> Line:
    spans: list[Span] = []
    for index, part in enumerate(parts):
        spans += ([Span(" " * _GAP)] if index else []) + list(part)
    return tuple(span for span in spans if span.text)


def clock(at: float) -> str:
    """A time of day; whatever a node sends is a time."""
    return time.strftime("%H:%M:%S", time.localtime(min(max(at, 0.0), _SECONDS_MAX)))


def route(request: RequestView) -> str:
    """The way it came, in a word."""
    return _ROUTES.get(request.route) or one_line(request.route, 60).removeprefix("/v1/") or "other"


def chosen_requests(view: NodeView, shown: Shown) -> tuple[RequestView, ...]:
    """Newest first."""
    everything = view.snapshot.requests if view.snapshot else ()
    wanted = {"running": ("running",), "failed": ("error",)}.get(shown)
    return tuple(each for each in reversed(everything) if wanted is None or each.status in wanted)


def empty_requests(view: NodeView, shown: Shown) -> tuple[Line, ...]:
    """What the list says without a row."""
    if view.snapshot is None:
        return waiting_lines(view)
    if view.snapshot.requests and shown != "all":
        others = line(muted("Press "), Span("f", "accent"), muted(" for others."))
        return (line(f"No request is {shown}."), others)
    return (
        line("No request has come yet."),
        line(muted("The pane Connect has what to run; the chat sends requests too.")),
    )


def list_title(view: NodeView, shown: Shown) -> str:
    """What the list holds."""
    if view.snapshot is None or not view.snapshot.requests:
        return "Requests"
    running = sum(each.status == "running" for each in view.snapshot.requests)
    words = f"{running} running" if running else "none running"
    return f"Requests: {words}" if shown == "all" else f"Requests: only {shown}, {words}"


def request_facts(request: RequestView | None, view: NodeView, width: int) -> tuple[Line, ...]:
    """All that is known of a request, in lines of `width` cells."""
    if view.snapshot is None:
        return waiting_lines(view)
    if request is None:
        return (line(muted("Choose a request in the list to see where its time went.")),)
    room = max(width - 9, 8)
    state = STATES[request.status]
    why = _MEANING.get(request.status, "")
    lines = [(state.span, *((muted(f"  {why}"),) if why else ()))]
    if view.link != "live":
        lines.append(link_words(view))
    if request.error:
        lines.append(line(Span(one_line(request.error, 600), "bad")))
    lines += [
        fact("Model", Span(fit(request.model or "none", room), "strong")),
        *_timing(request, view, width),
        fact("Tokens", *_token_words(request)),
        fact("Asked", Span(clock(request.started_at)), muted(f"  {_ago(request, view)}")),
        fact("By", Span(fit(request.asked_by, room) if request.asked_by else "a client of this node")),
        fact("Served", Span(fit(request.served_by, room) if request.served_by else "on this node")),
        fact("Route", Span(fit(request.route, room))),
        fact("Id", muted(fit(request.id, room))),
    ]
    return tuple(lines)


def _ago(request: RequestView, view: NodeView) -> str:
    return f"{duration(view.wall - request.started_at)} ago" if view.wall else ""


def _token_words(request: RequestView) -> tuple[Span, ...]:
    cached = f", {request.cached_tokens:,} cached" if request.cached_tokens else ""
    spans = [Span(f"{request.prompt_tokens:,}"), muted(f" prompt{cached}")]
    if request.status != "running":
        spans += [muted("  "), Span(f"{request.completion_tokens:,}"), muted(" answer")]
    return tuple(spans)


def _timing(request: RequestView, view: NodeView, width: int) -> list[Line]:
    if request.status == "running":
        waited = max(view.wall - request.started_at, 0.0)
        later = muted(" so far; phases are known at its end")
        return [fact("Time", Span(duration(waited), "accent"), later)]
    parts = phases(request)
    if parts is None:
        return [fact("Time", Span(milliseconds(request.total_ms)), muted(", before the first token"))]
    speed = request.decode_tokens_per_second
    rate = (muted(", "), Span(number(speed), "strong"), muted(" tok/s")) if speed > 0 else ()
    rows: list[Line] = [fact("Total", Span(milliseconds(request.total_ms)), *rate)]
    rows.append(bar_spans(parts, max(min(width, 60), 12)))
    words = ("waited for a lane", count(request.prompt_tokens, "prompt token"))
    values = (
        (QUEUE, "queue", parts.queue),
        (PREFILL, "prefill", parts.prefill),
        (DECODE, "decode", parts.decode),
    )
    told = (*words, count(request.completion_tokens, "token"))
    for (glyph, label, value), tone, what in zip(values, _TONES, told, strict=True):
        figure = milliseconds(value).rjust(8)
        rows.append(line(Span(f"{glyph} {label:<8}", tone), Span(figure), muted(f"  {what}")))
    return rows


def as_json(request: RequestView) -> str:
    """The request as one line of JSON, as `/api/snapshot` has it."""
    return msgspec.json.encode(request).decode()
