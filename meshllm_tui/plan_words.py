"""What the planner answered, as lines, and the values of its sliders. No Textual here."""

from collections.abc import Iterator

from meshllm_core.api.schema_plan import PlanAnswer, PlanCandidate, PlanModel, PlannedStage
from meshllm_tui.cleaning import cells, fit, one_line
from meshllm_tui.layer_map import Part, layer_map
from meshllm_tui.present import Line, Span, line, muted
from meshllm_tui.split_rows import capped, layers_words, ms_words
from meshllm_tui.units import UNKNOWN, count, size

HOPS: tuple[tuple[float | None, str], ...] = (
    (None, "measured"),
    *((value, f"{value:g} ms") for value in (0.2, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 150.0)),
)
CONTEXTS: tuple[tuple[int, str], ...] = (
    (0, "as set"),
    *((value, f"{value:,}") for value in (2048, 4096, 8192, 16384, 32768, 65536, 131072)),
)
LANES: tuple[tuple[int, str], ...] = (
    (0, "as set"),
    *((value, f"{value}") for value in (1, 2, 4, 8, 16)),
)
TARGETS: tuple[tuple[float, str], ...] = tuple(
    (1000 / rate, f"{rate} tok/s") for rate in (2, 5, 10, 20, 30, 50, 80)
)
TARGET_AT = 4
"""30 tokens a second, as the planner takes where nothing is said."""
SOURCES = {"loaded": "loaded here", "disk": "on this disk", "catalog": "in the catalogue"}
LABEL = 14
_LISTED = 64


def model_words(model: PlanModel, width: int) -> str:
    """A model in the list to pick from."""
    facts = f"{size(model.bytes) if model.bytes > 0 else UNKNOWN:>9}  {SOURCES[model.source]:<16}"
    name = fit(model.name, max(width - cells(facts) - 2, 12))
    return name + " " * max(width - cells(name) - cells(facts), 2) + facts


def speed_words(candidate: PlanCandidate) -> str:
    """Tokens a second, or the most that is known of it."""
    if candidate.tokens_per_second:
        rate = min(candidate.tokens_per_second, 99_999.0)
        return f"{rate:.0f} tok/s" if rate >= 9.95 else f"{rate:.1f} tok/s"
    if candidate.network_ms:
        return f"at most {min(1000 / candidate.network_ms, 99_999.0):.0f} tok/s"
    return "speed not known"


def candidate_row(candidate: PlanCandidate, rank: int, width: int) -> tuple[Line, ...]:
    """Two lines: which machines and how fast; then whether that will do, or the reason."""
    speed = speed_words(candidate)
    title = fit(candidate.title, max(width - cells(speed) - 6, 6))
    gap = " " * max(width - 3 - cells(title) - cells(speed), 1)
    head = line(muted(f"{rank:>2} "), Span(title, "strong"), gap, Span(speed, "accent"))
    if candidate.refused:
        return head, line("   ", Span(fit(f"✗ {candidate.refused}", max(width - 3, 4)), "bad"))
    reason = candidate.reasons[0] if candidate.reasons else ""
    if candidate.target_met is None:
        return head, line(muted("   " + fit(reason, max(width - 3, 4))))
    met = Span("   ✓ fast enough", "ok") if candidate.target_met else Span("   ! too slow", "warn")
    return head, line(met, muted("  " + fit(reason, max(width - cells(met.text) - 2, 4))))


def refusal_lines(answer: PlanAnswer) -> tuple[Line, ...]:
    """What is said where nothing would do, and what would."""
    refusal = answer.refusal
    lines = [line(Span(f"✗ {one_line(answer.sentence, 400)}", "bad"))]
    if refusal is not None:
        lines += [line(""), line(Span("What is missing", "strong")), *_bullets(refusal.missing)]
        lines += [line(""), line(Span("What would do", "strong")), *_bullets(refusal.would_fit)]
    return (*lines, *_unused(answer), *_notes(answer))


def plan_lines(answer: PlanAnswer, candidate: PlanCandidate, width: int) -> tuple[Line, ...]:
    """One candidate: its map, its stages, what a token costs, why."""
    lines: list[Line] = [line(one_line(answer.sentence, 600))]
    if answer.candidates[:1] != (candidate,) and candidate.price not in answer.sentence:
        lines.append(line(Span(f"{one_line(candidate.price, 600)}.", "strong")))
    if answer.hop_ms is not None:
        lines.append(line(Span(f"! {ms_words(answer.hop_ms)} are supposed for every hop", "warn")))
    lines.append(line(""))
    drawn = layer_map([_part(stage) for stage in candidate.stages], width)
    lines += [*drawn, line("")] if drawn else []
    for stage in candidate.stages[:_LISTED]:
        lines += _stage(stage, width)
    lines += [line(""), *_price(answer, candidate)]
    context = f"{capped(candidate.ctx_size)} tokens × {count(candidate.lanes, 'lane')}"
    lines.append(_fact("Context", context))
    if candidate.wire_dtype:
        verdict, dtype = one_line(candidate.wire_verdict, 300), one_line(candidate.wire_dtype, 20)
        lines.append(_fact("Between them", verdict if verdict.startswith(dtype) else f"{dtype}: {verdict}"))
    glyph = {"none": "○ not from here", "whole": "● L loads it", "split": "● L splits it"}[candidate.launch]
    lines += [line(""), line(Span(glyph, "muted" if candidate.launch == "none" else "ok"))]
    if candidate.launch_note:
        lines.append(line("  ", one_line(candidate.launch_note, 400)))
    lines += [line(""), line(Span("Why", "strong")), *_bullets(candidate.reasons)]
    return (*lines, *_unused(answer), *_notes(answer))


def _part(stage: PlannedStage) -> Part:
    text = size(stage.memory_needed)
    return Part(stage.node_name, stage.start, stage.end, muted(text), text.split(" ")[0], 1.0, "accent")


def _stage(stage: PlannedStage, width: int) -> Iterator[Line]:
    layers = f"layers {layers_words(stage.start, stage.end)}"
    used = f"{size(stage.memory_needed)} of {size(stage.room)}"
    name = fit(stage.node_name, max(width - cells(layers) - 2, 8)) or UNKNOWN
    gap = width - cells(name) - cells(layers) - cells(used) - 2
    if gap >= 2:
        yield line(Span(name, "strong"), "  ", layers, " " * gap, used)
    else:
        yield line(Span(name, "strong"), "  ", layers)
        yield line(f"  {used}")
    times = [f"computes {ms_words(stage.compute_ms)}"] if stage.compute_ms is not None else []
    if stage.compute_ms is None:
        times.append("its speed is not measured")
    if stage.link != "local":
        hop = "hop not known" if stage.hop_ms is None else f"hop {ms_words(stage.hop_ms)}"
        times.append(hop + (f" ({one_line(stage.link, 20)})" if stage.link not in ("measured", "") else ""))
    yield line(muted("  " + ", ".join(times)))


def _price(answer: PlanAnswer, candidate: PlanCandidate) -> Iterator[Line]:
    terms = [
        f"{ms_words(value)} {name}"
        for name, value in (
            ("computing", candidate.compute_ms),
            ("network", candidate.network_ms),
            ("transfer", candidate.transfer_ms),
            ("hand-over", candidate.overhead_ms),
        )
        if value is not None and value > 0
    ]
    total = ms_words(candidate.total_ms) if candidate.total_ms is not None else "not known"
    yield _fact("Per token", f"{total} ({speed_words(candidate)})")
    if terms:
        yield _fact("", " + ".join(terms))
    if candidate.target_met is not None:
        words = f"{'✓ meets' if candidate.target_met else '! misses'} {ms_words(answer.target_ms)} a token"
        yield line(muted("Target".ljust(LABEL)), Span(words, "ok" if candidate.target_met else "warn"))


def _unused(answer: PlanAnswer) -> Iterator[Line]:
    if answer.excluded:
        yield line("")
        yield line(Span("Not used", "strong"))
        for row in answer.excluded[:_LISTED]:
            yield line(muted("· "), Span(fit(row.node_name, 40), "strong"), "  ", one_line(row.reason, 400))


def _notes(answer: PlanAnswer) -> Iterator[Line]:
    if answer.left_out:
        yield line("")
        yield line(muted(f"{answer.left_out:,} more ways were weighed, each worse than those listed."))
    if answer.notes:
        yield line("")
        for note in answer.notes[:_LISTED]:
            yield line(muted(f"· {one_line(note, 400)}"))


def _bullets(texts: tuple[str, ...]) -> Iterator[Line]:
    for text in texts[:_LISTED]:
        yield line(muted("· "), one_line(text, 400))


def _fact(label: str, words: str) -> Line:
    return line(muted(label.ljust(LABEL)), words)


def launch_words(answer: PlanAnswer, candidate: PlanCandidate) -> tuple[str, str]:
    """Title and text of the question before a candidate is launched: its price first."""
    name = fit(answer.model, 40)
    title = f"Split {name}?" if candidate.launch == "split" else f"Load {name}?"
    parts = [f"{one_line(answer.sentence if answer.candidates[0] is candidate else candidate.price, 500)}"]
    if candidate.launch_note:
        parts.append(one_line(candidate.launch_note, 300))
    if answer.source == "catalog":
        parts.append(f"{size(answer.bytes)} are fetched first.")
    if answer.hop_ms is not None:
        parts.append("The latency was supposed for this estimate; the node plans with what it measures.")
    return title, "\n\n".join(parts)
