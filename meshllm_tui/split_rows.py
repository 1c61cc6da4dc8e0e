"""A model that is spread over machines, and stages for other machines' models, as lines. No Textual here.

The layers of a stage are a part of a track that stands for the whole model, and beside it in figures.
"""

from collections.abc import Iterator

from meshllm_core.state.snapshot import ModelView, SplitView
from meshllm_core.state.split_events import HostedStage, StageRow, StageState
from meshllm_tui.cleaning import cells, fit, one_line
from meshllm_tui.present import MODEL_STATES, Line, Span, State, Tone, line, muted
from meshllm_tui.units import bar, count, percent, size, sizes

STAGE_STATES: dict[StageState, State] = {
    "assigned": State("◌", "assigned", "accent"),
    "fetching": State("↓", "fetching", "accent"),
    "loading": State("◐", "loading", "accent"),
    "probing": State("◑", "probing", "accent"),
    "ready": State("●", "ready", "ok"),
    "failed": State("✗", "failed", "bad"),
    "withdrawn": State("○", "withdrawn", "muted"),
}
_IN_CARD = 4
"""Stages that a card in the models pane has room for."""
_LISTED = 64
_TRACK = 8
"""Cells of the track in a card."""
_LONG_TRACK = 20
_STATE_ROOM = 15
"""Cells of the longest state with its progress."""
_LARGEST = 999_999
"""Figures come from other machines: none is shown longer."""


def card_map(split: SplitView, width: int) -> tuple[Line, ...]:
    """The stages in a card, one a line: where in the model, whose, in what state."""
    ready = sum(row.state == "ready" for row in split.stages)
    words = f"{ready} of {count(len(split.stages), 'stage')} ready"
    if split.predicted_ms_per_token > 0:
        words += f" · {_ms(split.predicted_ms_per_token)}/token"
    room = max(width - _TRACK - _STATE_ROOM - 2, 4)
    lines = [line(muted(fit(words, width)))]
    for row in split.stages[:_IN_CARD]:
        name = fit(row.node_name, room) or "–"
        gap = " " * (room - cells(name) + 1)
        lines.append(line(*_track(row, split, _TRACK), " ", name, gap, _state(row)))
    if len(split.stages) > _IN_CARD:
        lines.append(line(muted(f"and {len(split.stages) - _IN_CARD:,} more: s shows all")))
    return tuple(lines)


def split_page(model: ModelView, width: int) -> tuple[Line, ...]:
    """Everything of a split, for a dialog that scrolls."""
    split = model.split
    if split is None:
        return (line(muted("It is not split any more.")),)
    machines = len({row.node for row in split.stages})
    facts = (
        f"  over {count(machines, 'machine')}, context {_int(split.context)}, {count(split.lanes, 'lane')}"
    )
    lines: list[Line] = [
        line(MODEL_STATES[model.status].span, muted(facts)),
        line(one_line(split.sentence, 600)),
        line(""),
    ]
    for place, row in enumerate(split.stages[:_LISTED]):
        before = split.stages[place - 1] if len(split.stages) > 1 else None
        lines += _stage_lines(row, before, split, width)
    if len(split.stages) > _LISTED:
        lines.append(line(muted(f"and {len(split.stages) - _LISTED:,} more")))
    lines += [line(""), *_price(split)]
    dtype, verdict = one_line(split.dtype, 20), one_line(split.verdict, 300)
    lines.append(line(muted("Between them  "), dtype, muted(f"  {verdict}")))
    reasons = [reason for reason in split.reasons if not split.verdict or split.verdict not in reason]
    if reasons:
        lines += [line(""), line(Span("Why", "strong"))]
        lines += [line(muted("· "), one_line(reason, 400)) for reason in reasons[:_LISTED]]
    return tuple(lines)


def _stage_lines(row: StageRow, before: StageRow | None, split: SplitView, width: int) -> Iterator[Line]:
    layers = f"layers {_layers(row.start, row.end)}".ljust(14)
    state = _state(row)
    used = _LONG_TRACK + 2 + len(layers) + 1 + cells(state.text)
    name = fit(row.node_name, max(width - used - 2, 8)) or "–"
    gap = " " * max(width - used - cells(name), 1)
    yield line(*_track(row, split, _LONG_TRACK), "  ", layers, " ", Span(name, "strong"), gap, state)
    facts = [f"{size(row.bytes)} of weights"] if row.bytes > 0 else []
    memory = row.memory_measured or row.memory_needed
    if memory > 0:
        facts.append(f"{'' if row.memory_measured else 'needs '}{size(memory)} of memory")
    if facts:
        yield line(muted("  " + ", ".join(facts)))
    times = [f"predicted {_ms(row.predicted_ms)}"] if row.predicted_ms > 0 else []
    times += [f"measured {_ms(row.measured_ms)}"] if row.measured_ms > 0 else []
    if before is not None and row.rtt_ms > 0:
        times.append(f"RTT {_ms(row.rtt_ms)} to {fit(before.node_name, 40)}")
    if times:
        yield line(muted("  " + ", ".join(times)))
    if row.state == "fetching" and row.bytes_total > 0:
        filled, empty = bar(row.bytes_done / row.bytes_total, _LONG_TRACK - 2)
        words = sizes(row.bytes_done, row.bytes_total)
        yield line("  ", Span(filled, "accent"), muted(empty), f"  {words}")
    if row.detail:
        tone: Tone = "bad" if row.state == "failed" else "plain"
        yield line("  ", Span(one_line(row.detail, 400), tone))


def _price(split: SplitView) -> Iterator[Line]:
    label = muted("Price         ")
    predicted, network, target = split.predicted_ms_per_token, split.network_ms_per_token, split.target_ms
    if predicted <= 0 and network <= 0:
        yield line(label, "not known: nothing is measured yet")
        return
    if predicted > 0:
        of_it = f", {_ms(network)} of it network" if network > 0 else ""
        yield line(label, f"{_ms(predicted)} a token predicted{of_it}")
    else:
        yield line(label, f"{_ms(network)} of network a token; no machine's speed is measured")
    if target > 0 and (predicted > 0 or network > target):
        met = 0 < predicted <= target
        words = "✓ meets" if met else "! misses"
        yield line(muted("Target        "), Span(f"{words} {_ms(target)} a token", "ok" if met else "warn"))


def hosted_card(stage: HostedStage, width: int) -> tuple[Line, ...]:
    """A stage that this node computes for another machine."""
    state = _state(stage)
    name = fit(f"for {stage.coordinator or 'another machine'}", max(width - cells(state.text) - 2, 8))
    gap = " " * max(width - cells(name) - cells(state.text), 2)
    what = f"layers {_layers(stage.start, stage.end)} of {one_line(stage.model, 200)}"
    lines = [line(Span(name, "strong"), gap, state), line(fit(what, width))]
    if stage.state == "fetching" and stage.bytes_total > 0:
        filled, empty = bar(stage.bytes_done / stage.bytes_total, max(width - 18, 4))
        words = sizes(stage.bytes_done, stage.bytes_total)
        lines.append(line(Span(filled, "accent"), muted(empty), muted(f" {words}")))
    else:
        facts = [size(stage.memory_measured)] if stage.memory_measured > 0 else []
        facts += [f"{stage.units:,} steps"] if 0 < stage.units <= 10**9 else []
        facts.append(f"stage {_int(stage.index + 1)} of {_int(stage.stages)}")
        while len(facts) > 1 and cells(" · ".join(facts)) > width:
            facts.pop()
        lines.append(line(muted(fit(" · ".join(facts), width))))
    if stage.detail:
        lines.append(line(Span(one_line(stage.detail, 400), "bad" if stage.state == "failed" else "plain")))
    return tuple(lines)


def _state(stage: StageRow | HostedStage) -> Span:
    shown = STAGE_STATES[stage.state].span
    if stage.state == "fetching" and stage.bytes_total > 0:
        return Span(f"{shown.text} {percent(stage.bytes_done, stage.bytes_total)}", shown.tone)
    return shown


def _track(row: StageRow, split: SplitView, width: int) -> tuple[Span, Span, Span]:
    """The model as a track of `width` cells, the stage's layers thick; at least one cell."""
    total = max(split.stages[-1].end, 1)
    first = min(max(round(row.start / total * width), 0), width - 1)
    end = min(max(round(row.end / total * width), first + 1), width)
    tone = STAGE_STATES[row.state].tone
    return muted("─" * first), Span("━" * (end - first), tone), muted("─" * (width - end))


def _layers(start: int, end: int) -> str:
    return f"{_int(start)}–{_int(end - 1)}"


def _int(value: int) -> str:
    return f"{min(max(value, 0), _LARGEST):,}"


def _ms(value: float) -> str:
    capped = min(max(value, 0.0), float(_LARGEST))
    if capped < 0.095:
        return "under 0.1 ms"
    return f"{capped:.1f} ms" if capped < 9.95 else f"{capped:,.0f} ms"
