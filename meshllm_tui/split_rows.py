"""A model that is spread over machines, and stages for other machines' models, as cards. No Textual here.

The layers of a stage are a part of a track that stands for the whole model, and beside it in figures.
"""

from meshllm_core.state.snapshot import SplitView
from meshllm_core.state.split_events import HostedStage, StageRow, StageState
from meshllm_tui.cleaning import cells, fit, one_line
from meshllm_tui.present import Line, Span, State, line, muted
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
_TRACK = 8
"""Cells of the track in a card."""
_STATE_ROOM = 15
"""Cells of the longest state with its progress."""
_LARGEST = 999_999
"""Figures come from other machines: none is shown longer."""


def card_map(split: SplitView, width: int) -> tuple[Line, ...]:
    """The stages in a card, one a line: where in the model, whose, in what state."""
    ready = sum(row.state == "ready" for row in split.stages)
    words = f"{ready} of {count(len(split.stages), 'stage')} ready"
    if split.predicted_ms_per_token > 0:
        words += f" · {ms_words(split.predicted_ms_per_token)}/token"
    room = max(width - _TRACK - _STATE_ROOM - 2, 4)
    lines = [line(muted(fit(words, width)))]
    for row in split.stages[:_IN_CARD]:
        name = fit(row.node_name, room) or "–"
        gap = " " * (room - cells(name) + 1)
        lines.append(line(*_track(row, split, _TRACK), " ", name, gap, stage_state(row)))
    if len(split.stages) > _IN_CARD:
        lines.append(line(muted(f"and {len(split.stages) - _IN_CARD:,} more: s shows all")))
    return tuple(lines)


def hosted_card(stage: HostedStage, width: int) -> tuple[Line, ...]:
    """A stage that this node computes for another machine."""
    state = stage_state(stage)
    name = fit(f"for {stage.coordinator or 'another machine'}", max(width - cells(state.text) - 2, 8))
    gap = " " * max(width - cells(name) - cells(state.text), 2)
    what = f"layers {layers_words(stage.start, stage.end)} of {one_line(stage.model, 200)}"
    lines = [line(Span(name, "strong"), gap, state), line(fit(what, width))]
    if stage.state == "fetching" and stage.bytes_total > 0:
        filled, empty = bar(stage.bytes_done / stage.bytes_total, max(width - 18, 4))
        words = sizes(stage.bytes_done, stage.bytes_total)
        lines.append(line(Span(filled, "accent"), muted(empty), muted(f" {words}")))
    else:
        facts = [size(stage.memory_measured)] if stage.memory_measured > 0 else []
        facts += [f"{stage.units:,} steps"] if 0 < stage.units <= 10**9 else []
        facts.append(f"stage {capped(stage.index + 1)} of {capped(stage.stages)}")
        while len(facts) > 1 and cells(" · ".join(facts)) > width:
            facts.pop()
        lines.append(line(muted(fit(" · ".join(facts), width))))
    if stage.detail:
        lines.append(line(Span(one_line(stage.detail, 400), "bad" if stage.state == "failed" else "plain")))
    return tuple(lines)


def stage_state(stage: StageRow | HostedStage) -> Span:
    """Glyph and word, with how much is fetched."""
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


def layers_words(start: int, end: int) -> str:
    """Layers [start, end) by their first and last."""
    return f"{capped(start)}–{capped(end - 1)}"


def capped(value: int) -> str:
    """A count that another machine told, not longer than a count is."""
    return f"{min(max(value, 0), _LARGEST):,}"


def ms_words(value: float) -> str:
    """Milliseconds with the digits that matter, not longer than a time is."""
    capped = min(max(value, 0.0), float(_LARGEST))
    if capped < 0.095:
        return "under 0.1 ms"
    return f"{capped:.1f} ms" if capped < 9.95 else f"{capped:,.0f} ms"
