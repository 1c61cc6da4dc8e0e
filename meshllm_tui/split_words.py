"""Everything that is known of one split, or of one stage for others, as lines. No Textual here."""

from collections.abc import Iterator, Sequence

from meshllm_core.state.snapshot import ModelView, NodeSnapshot, SplitView
from meshllm_core.state.split_events import HostedStage, StageRow
from meshllm_tui.cleaning import cells, fit, one_line
from meshllm_tui.layer_map import Part, layer_map
from meshllm_tui.present import (
    MODEL_STATES,
    Line,
    NodeView,
    Span,
    Tone,
    line,
    link_words,
    model_state,
    muted,
    waiting_lines,
)
from meshllm_tui.split_rows import STAGE_STATES, capped, layers_words, ms_words, stage_state
from meshllm_tui.units import bar, count, percent, size, sizes

LABEL = 14
TABLE = 93
"""Cells from which stages are a table; below, each has some lines of its own."""
_LISTED = 64
_COLUMNS = (("stage", 18), ("layers", 10), ("state", 16), ("weights", 10), ("memory", 10), ("RTT", 9))
_TIMES = (("predicted", 11), ("measured", 9))


def split_row(model: ModelView, split: SplitView, width: int) -> Line:
    """A split in the list of splits."""
    state = model_state(model).span
    ready = sum(row.state == "ready" for row in split.stages)
    facts = [f"{ready} of {len(split.stages):,} ready"]
    if split.predicted_ms_per_token > 0:
        facts.insert(0, f"{facts[0]} · {ms_words(split.predicted_ms_per_token)}/token")
    return _row(state, one_line(model.id, 200), facts, width)


def hosted_row(stage: HostedStage, width: int) -> Line:
    """A stage for another machine in the list of splits."""
    what = f"layers {layers_words(stage.start, stage.end)} of {one_line(stage.model, 200)}"
    return _row(stage_state(stage), what, [f"for {stage.coordinator or 'another machine'}"], width)


def _row(state: Span, name: str, facts: Sequence[str], width: int) -> Line:
    """`facts` are ways to say the same, the longest first: one is taken that leaves the name its room."""
    lead = state.text + " " * max(17 - cells(state.text), 1)
    room = max(width - cells(lead), 8)
    told = fit(next((text for text in facts if cells(text) <= room // 2), facts[-1]), room // 2)
    name = fit(name, max(room - cells(told) - 2, 4))
    gap = " " * max(room - cells(name) - cells(told), 2)
    return line(Span(lead, state.tone), Span(name, "strong"), gap, muted(told))


def no_splits(view: NodeView) -> tuple[Line, ...]:
    """What is said where nothing is split: why that is well, and what would change it."""
    if view.snapshot is None:
        return waiting_lines(view)
    coming = [m for m in view.snapshot.models if m.status in ("requested", "downloading", "loading")]
    lines = [line("No model is split over machines, and no stage is computed for others.")]
    if coming:
        name = one_line(coming[0].id, 80)
        word = MODEL_STATES[coming[0].status].word
        lines.append(line(Span(name, "strong"), f" is {word}; if it is split, its stages come here."))
        if coming[0].error:
            lines.append(line(Span(one_line(coming[0].error, 600), "warn")))
    lines.append(line(muted("A model that fits on one machine runs on one machine: that is faster.")))
    lines.append(line(muted("Press "), Span("4", "accent"), muted(" to plan one that does not fit.")))
    return tuple(lines)


def split_lines(model: ModelView, view: NodeView, width: int) -> tuple[Line, ...]:
    """All of a split: its price, its map, its stages, why it is so."""
    split = model.split
    if split is None:
        return (line(muted("It is not split any more.")),)
    machines = len({row.node for row in split.stages})
    facts = f"  over {count(machines, 'machine')}, context {capped(split.context)}, "
    facts += count(split.lanes, "lane")
    lines: list[Line] = [line(model_state(model).span, muted(facts))]
    lines += [line(one_line(split.sentence, 600)), line("")]
    drawn = layer_map([_part(row) for row in split.stages], width)
    lines += [*drawn, line("")] if drawn else []
    if model.error and model.status in ("failed", "restarting"):
        tone: Tone = "bad" if model.status == "failed" else "warn"
        lines += [line(Span(one_line(model.error, 600), tone)), line("")]
    if width >= TABLE:
        lines += _table(split.stages[:_LISTED], width)
    else:
        for place, row in enumerate(split.stages[:_LISTED]):
            lines += _stacked(row, split.stages[place - 1] if len(split.stages) > 1 else None, width)
    if len(split.stages) > _LISTED:
        lines.append(line(muted(f"and {len(split.stages) - _LISTED:,} more")))
    lines += [line(""), *_price(model, split, view.snapshot), *_rows_between(split)]
    reasons = [reason for reason in split.reasons if not split.verdict or split.verdict not in reason]
    if reasons:
        lines += [line(""), line(Span("Why", "strong"))]
        lines += [line(muted("· "), one_line(reason, 400)) for reason in reasons[:_LISTED]]
    return tuple(lines)


def _part(row: StageRow) -> Part:
    shown, state = stage_state(row), STAGE_STATES[row.state]
    done = row.bytes_done / row.bytes_total if row.bytes_total > 0 else 0.0
    share = percent(row.bytes_done, row.bytes_total) if row.state == "fetching" else ""
    short = f"{state.glyph} {share}" if share else state.glyph
    heavy = {"ready": 1.0, "fetching": done, "probing": 1.0}.get(row.state, 0.0)
    return Part(row.node_name, row.start, row.end, shown, short, heavy, state.tone)


def _table(stages: Sequence[StageRow], width: int) -> Iterator[Line]:
    """A row for each stage, its columns under their names, and what it says of itself below."""
    wide = max(width - TABLE, 0)
    first = _COLUMNS[0][1] + min(wide, 14)
    names = [text.ljust(room) for text, room in (("stage", first), *_COLUMNS[1:3])]
    names += [text.rjust(room) for text, room in (*_COLUMNS[3:], *_TIMES)]
    yield line(muted("".join(names)))
    for row in stages:
        state = stage_state(row)
        memory = row.memory_measured or row.memory_needed
        figures = (
            size(row.bytes) if row.bytes > 0 else "–",
            size(memory) if memory > 0 else "–",
            _known_ms(row.rtt_ms),
            _known_ms(row.predicted_ms),
            _known_ms(row.measured_ms),
        )
        rooms = [room for _, room in (*_COLUMNS[3:], *_TIMES)]
        yield line(
            Span(_left(row.node_name or "–", first), "strong"),
            _left(layers_words(row.start, row.end), _COLUMNS[1][1]),
            Span(_left(state.text, _COLUMNS[2][1]), state.tone),
            "".join(fit(text, room - 1).rjust(room) for text, room in zip(figures, rooms, strict=True)),
        )
        yield from _said(row, 30)


def _left(text: str, room: int) -> str:
    shown = fit(text, room - 1)
    return shown + " " * (room - cells(shown))


def _known_ms(value: float) -> str:
    return ms_words(value) if value > 0 else "–"


def _stacked(row: StageRow, before: StageRow | None, width: int) -> Iterator[Line]:
    state = stage_state(row)
    layers = f"layers {layers_words(row.start, row.end)}"
    name = fit(row.node_name, max(width - cells(state.text) - cells(layers) - 6, 8)) or "–"
    gap = " " * max(width - cells(name) - cells(layers) - cells(state.text) - 2, 1)
    yield line(Span(name, "strong"), "  ", layers, gap, state)
    facts = [f"{size(row.bytes)} of weights"] if row.bytes > 0 else []
    memory = row.memory_measured or row.memory_needed
    if memory > 0:
        facts.append(f"{'' if row.memory_measured else 'needs '}{size(memory)} of memory")
    if facts:
        yield line(muted("  " + ", ".join(facts)))
    times = [f"predicted {ms_words(row.predicted_ms)}"] if row.predicted_ms > 0 else []
    times += [f"measured {ms_words(row.measured_ms)}"] if row.measured_ms > 0 else []
    if before is not None and row.rtt_ms > 0:
        times.append(f"RTT {ms_words(row.rtt_ms)} to {fit(before.node_name, 40)}")
    if times:
        yield line(muted("  " + ", ".join(times)))
    yield from _said(row, 18)


def _said(row: StageRow, room: int) -> Iterator[Line]:
    """How far its file is, and what it waits for or failed with."""
    if row.state == "fetching" and row.bytes_total > 0:
        filled, empty = bar(row.bytes_done / row.bytes_total, room)
        words = sizes(row.bytes_done, row.bytes_total)
        yield line("  ", Span(filled, "accent"), muted(empty), f"  {words}")
    if row.detail:
        tone: Tone = "bad" if row.state == "failed" else "plain"
        yield line("  ", Span(one_line(row.detail, 400), tone))


def _price(model: ModelView, split: SplitView, snapshot: NodeSnapshot | None) -> Iterator[Line]:
    predicted, network, target = split.predicted_ms_per_token, split.network_ms_per_token, split.target_ms
    measured = sum(row.measured_ms for row in split.stages if row.measured_ms > 0)
    planned = sum(row.predicted_ms for row in split.stages if row.predicted_ms > 0)
    compute = [f"{ms_words(planned)} predicted"] if planned > 0 else []
    if measured > 0 and all(row.measured_ms > 0 for row in split.stages):
        compute.append(f"{ms_words(measured)} measured")
    if compute:
        yield _fact("Computing", ", ".join(compute))
    if predicted <= 0 and network <= 0:
        yield _fact("Per token", "not known: nothing is measured yet")
    elif predicted > 0:
        of_it = f", {ms_words(network)} of it network" if network > 0 else ""
        yield _fact("Per token", f"{ms_words(predicted)} predicted{of_it}")
    else:
        yield _fact("Per token", f"{ms_words(network)} of network; no machine's speed is measured")
    if (now := _now(model, snapshot)) != "":
        yield _fact("", now)
    if model.in_flight > 0:
        yield _fact("In flight", f"up to {count(min(model.in_flight, 10**9), 'token')} between the stages")
    if split.chunk > 0:
        ahead = f", {count(split.ahead, 'chunk')} ahead of its step" if 0 < split.ahead < 10**6 else ""
        yield _fact("Prompts", f"travel by {capped(split.chunk)} tokens{ahead}")
    if target > 0 and (predicted > 0 or network > target):
        met = 0 < predicted <= target
        words = f"{'✓ meets' if met else '! misses'} {ms_words(target)} a token"
        yield line(muted("Target".ljust(LABEL)), Span(words, "ok" if met else "warn"))


def _now(model: ModelView, snapshot: NodeSnapshot | None) -> str:
    """What a token takes, as measured at the requests themselves."""
    if model.active > 0 and model.decode_tokens_per_second > 0:
        each = 1000 * model.active / model.decode_tokens_per_second
        return f"{ms_words(each)} measured now, {count(model.active, 'request')} at a time"
    requests = snapshot.requests if snapshot is not None else ()
    for request in reversed(requests):
        if request.model == model.id and request.decode_tokens_per_second > 0:
            return f"{ms_words(1000 / request.decode_tokens_per_second)} measured at the last request"
    return ""


def _rows_between(split: SplitView) -> Iterator[Line]:
    dtype, verdict = one_line(split.dtype, 20), one_line(split.verdict, 300)
    said = verdict if verdict.startswith(dtype) else f"{dtype}: {verdict}"
    yield _fact("Between them", said)


def _fact(label: str, words: str) -> Line:
    return line(muted(label.ljust(LABEL)), words)


def hosted_lines(stage: HostedStage, width: int) -> tuple[Line, ...]:
    """All of a stage that this node computes for another machine."""
    state = STAGE_STATES[stage.state]
    whose = one_line(stage.coordinator, 80) or "another machine"
    lines = [
        line(stage_state(stage), muted(f"  stage {capped(stage.index + 1)} of {capped(stage.stages)}")),
        line("This machine computes it for ", Span(whose, "strong"), ", which takes the requests."),
        line(""),
        _fact("Model", one_line(stage.model, 200)),
        _fact("Layers", layers_words(stage.start, stage.end)),
    ]
    if stage.bytes > 0:
        lines.append(_fact("Weights", size(stage.bytes)))
    if stage.memory_measured > 0:
        lines.append(_fact("Memory", size(stage.memory_measured)))
    if stage.units > 0:
        lines.append(_fact("Computed", f"{min(stage.units, 10**12):,} steps"))
    if stage.state == "fetching" and stage.bytes_total > 0:
        filled, empty = bar(stage.bytes_done / stage.bytes_total, max(min(width - 40, 40), 8))
        words = sizes(stage.bytes_done, stage.bytes_total)
        label = muted("Fetched".ljust(LABEL))
        lines.append(line(label, Span(filled, state.tone), muted(empty), f"  {words}"))
    if stage.detail:
        tone: Tone = "bad" if stage.state == "failed" else "plain"
        lines += [line(""), line(Span(one_line(stage.detail, 400), tone))]
    ends = "It ends when that machine unloads the model, or this one leaves the mesh."
    lines += [line(""), line(muted(ends))]
    return tuple(lines)


def stale_line(view: NodeView) -> tuple[Line, ...]:
    """That what is shown may be old; nothing while the node answers."""
    return (link_words(view),) if view.snapshot is not None and view.link != "live" else ()
