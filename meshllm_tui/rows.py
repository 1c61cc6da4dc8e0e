"""The panes' rows: node facts, model cards, log lines. No Textual here."""

import time

from meshllm_core.state.events import Device
from meshllm_core.state.snapshot import ModelView, NodeSnapshot, Notice
from meshllm_tui.cleaning import cells, fit, one_line
from meshllm_tui.node_rows import LABEL, fact, mesh_facts, routed_facts
from meshllm_tui.present import (
    LEVELS,
    MODEL_STATES,
    NODE_STATES,
    Line,
    NodeView,
    Span,
    endpoint,
    line,
    link_words,
    model_state,
    muted,
    waiting_lines,
)
from meshllm_tui.split_rows import card_map
from meshllm_tui.units import (
    UNKNOWN,
    bar,
    count,
    duration,
    number,
    parameters,
    percent,
    size,
    sizes,
)


def node_lines(view: NodeView, width: int) -> tuple[Line, ...]:
    """The node pane, `width` cells wide."""
    snapshot = view.snapshot
    if snapshot is None:
        return waiting_lines(view)
    shown = NODE_STATES[snapshot.node_state]
    first = [shown.span]
    if snapshot.started_at and view.wall:
        first.append(muted(f"  up {duration(view.wall - snapshot.started_at)}"))
    lines: list[Line] = [tuple(first)]
    if view.link != "live":
        lines.append(link_words(view))
    lines += [
        fact("Endpoint", Span(endpoint(snapshot), "accent")),
        fact("Console", Span(one_line(snapshot.console_url, 200))),
    ]
    if snapshot.memory_total:
        lines.append(_memory(snapshot.memory_free, snapshot.memory_total, width))
    else:
        lines.append(fact("Memory", muted("not measured yet")))
    if snapshot.cpu:
        threads = count(snapshot.threads, "thread")
        room = max(width - LABEL - len(threads) - 2, 8)
        lines.append(fact("CPU", Span(fit(snapshot.cpu, room)), muted(f", {threads}")))
    lines += [_device(device, width) for device in snapshot.devices if device.kind != "cpu"][:8]
    running = sum(1 for request in snapshot.requests if request.status == "running")
    served = sum(model.requests_served for model in snapshot.models)
    lines.append(fact("Requests", Span(f"{running} running"), muted(f", {served:,} served")))
    lines += routed_facts(snapshot, width)
    lines += mesh_facts(snapshot, width)
    lines.append(fact("Version", muted(f"{one_line(snapshot.version, 20)}, process {snapshot.pid}")))
    return tuple(lines)


def _memory(free: int, total: int, width: int) -> Line:
    words = f"{size(free)} free of {size(total)}"
    room = width - LABEL
    if cells(words) > room:
        words = f"{sizes(free, total)} free"
    filled, empty = bar(1 - free / total, min(room - cells(words) - 1, 16))
    gap = " " if filled or empty else ""
    return fact("Memory", Span(filled, "accent"), muted(empty), Span(gap + words))


def _device(device: Device, width: int) -> Line:
    free = f", {size(device.memory_free)} free"
    name = f"{device.name} {device.description}"
    return fact("Device", Span(fit(name, max(width - LABEL - len(free), 8))), muted(free))


def empty_models(view: NodeView) -> tuple[Line, ...]:
    """What the models pane says without a row."""
    if view.snapshot is None:
        return waiting_lines(view)
    return (line("No model is loaded."), line(muted("Press "), Span("l", "accent"), muted(" to load one.")))


def model_card(model: ModelView, snapshot: NodeSnapshot, width: int) -> tuple[Line, ...]:
    """One model's rows, `width` cells wide: name and state, then what matters in that state."""
    shown = model_state(model)
    state = f"{shown.glyph} {shown.word}"
    name = fit(model.id or model.ref, max(width - len(state) - 2, 8))
    gap = " " * max(width - cells(name) - len(state), 2)
    head = line(Span(name, "strong"), gap, shown.span)
    body: tuple[Line, ...]
    match model.status:
        case "requested" if model.error:
            body = _trouble(model)
        case "requested":
            body = (line(muted(f"asked for as {fit(model.ref, max(width - 13, 8))}")),)
        case "downloading":
            fraction = model.bytes_done / model.bytes_total if model.bytes_total else 0.0
            body = _progress(fraction, width, sizes(model.bytes_done, model.bytes_total))
        case "loading" if model.split is not None:
            body = ()
        case "loading":
            body = _progress(model.load_fraction, width, _load_words(model))
        case "ready":
            body = _figures(model, snapshot)
        case "restarting" | "failed":
            body = _trouble(model)
    return (head, *body, *(card_map(model.split, width) if model.split is not None else ()))


def _progress(fraction: float, width: int, words: str) -> tuple[Line, ...]:
    filled, empty = bar(fraction, max(width - 6, 4))
    share = percent(fraction, 1).rjust(6)
    return (line(Span(filled, "accent"), muted(empty), Span(share)), line(muted(words)))


def _load_words(model: ModelView) -> str:
    parts = []
    if model.file_bytes:
        parts.append(f"{sizes(model.load_fraction * model.file_bytes, model.file_bytes)} read")
    if model.memory_needed:
        parts.append(f"needs {size(model.memory_needed)} of memory")
    return ", ".join(parts) or "reading the file"


def _figures(model: ModelView, snapshot: NodeSnapshot) -> tuple[Line, ...]:
    decode, prompt = model.decode_tokens_per_second, model.prompt_tokens_per_second
    speed: Line
    if decode > 0 or prompt > 0:
        figures = (Span(_speed(decode), "ok"), muted("  prompt "), Span(_speed(prompt), "ok"))
        speed = line(muted("decode "), *figures, muted(" tok/s"))
    else:
        speed = line(Span("idle"), muted(_last_answer(model, snapshot)))
    queue = line(
        Span(str(model.active)),
        muted(" active  "),
        Span(str(model.queued)),
        muted(f" queued  of {count(model.lanes, 'lane')}"),
    )
    context = line(
        muted("context "),
        Span(f"{model.context:,}"),
        muted("  KV "),
        Span(percent(model.cells_used, model.cells_total)),
        muted(" used"),
    )
    facts = [one_line(model.architecture, 20), parameters(model.parameters) if model.parameters else ""]
    facts += [one_line(model.device, 20), size(model.memory_measured) if model.memory_measured else ""]
    restarts = f"engine restarted {count(model.restarts, 'time')}" if model.restarts else ""
    rows = [speed, queue, context, line(muted(" · ".join(fact for fact in facts if fact)))]
    if restarts:
        rows.append(line(Span(restarts, "warn")))
    return tuple(rows)


def _speed(tokens_per_second: float) -> str:
    return number(tokens_per_second) if tokens_per_second > 0 else UNKNOWN


def _last_answer(model: ModelView, snapshot: NodeSnapshot) -> str:
    for request in reversed(snapshot.requests):
        if request.model == model.id and request.decode_tokens_per_second > 0:
            return f"  last answer {number(request.decode_tokens_per_second)} tok/s"
    return "  no answer yet"


def _trouble(model: ModelView) -> tuple[Line, ...]:
    tone = MODEL_STATES[model.status].tone
    rows = [line(Span(one_line(model.error, 400) or "no reason was given", tone))]
    if model.hint:
        rows.append(line(Span(one_line(model.hint, 300))))
    if model.status == "failed":
        keys = (Span("r", "accent"), muted(" tries again  "), Span("u", "accent"), muted(" removes it"))
        rows.append(line(*keys))
    return tuple(rows)


def log_lines(view: NodeView) -> tuple[Line, ...]:
    """The log, oldest first: the node's notices and the dashboard's own, by time."""
    notices = view.snapshot.notices if view.snapshot else ()
    merged = sorted((*notices, *view.local), key=lambda notice: notice.at)
    return tuple(_log_line(notice) for notice in merged)


def _log_line(notice: Notice) -> Line:
    level = LEVELS[notice.level]
    clock = time.strftime("%H:%M:%S", time.localtime(min(max(notice.at, 0.0), 4e9)))
    return line(
        muted(f"{clock} "),
        Span(f"{level.glyph} {level.word:<7} ", level.tone),
        Span(f"{one_line(notice.source, 60)} ", "accent"),
        Span(one_line(notice.text, 2000)),
    )
