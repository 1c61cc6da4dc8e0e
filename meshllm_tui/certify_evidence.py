"""The evidence behind a verdict: figures beside the noise floor; what a review is worth. No Textual here."""

from meshllm_core.api.schema_certify import MeasuredRow, ReviewedRow
from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.certify_words import VERDICTS, Measurement, Review, cuts_words
from meshllm_tui.cleaning import cells, fit, one_line
from meshllm_tui.present import Line, Span, line, muted
from meshllm_tui.units import duration

_LABEL = 11
RULES: tuple[Line, ...] = (
    line(Span("exact", "ok"), muted("     mean KL at most twice what noise does")),
    line(
        Span("bounded", "ok"),
        muted("   mean KL at most 0.001 nats, no more tokens changed than noise changes"),
    ),
    line(Span("rejected", "bad"), muted("  neither")),
)
WORTH = (
    "A review is weaker than a measurement here: one split and one set of prompts of that very artifact, "
    "and whether the next token changed. It is never carried to another model."
)
REVIEWED = {
    "validated": "q8 changed no token in that review",
    "rejected": "q8 changed the next token in that review",
    "untested": "q8 was not tried",
    "exact": "q8 changed nothing",
}


def _fact(label: str, *words: Span | str) -> Line:
    return line(muted(label.ljust(_LABEL)), *words)


def measurement_lines(
    one: Measurement, snapshot: NodeSnapshot | None, wall: float, width: int
) -> tuple[Line, ...]:
    """All that is known of a measurement: who, how, the floor, then each codec."""
    row = one.first
    when = f"{duration(max(wall - row.at, 0.0))} ago"
    lines = [
        line(Span(fit(one.name, width), "strong")),
        _fact("split", f"{cuts_words(row.cuts)}: {len(row.cuts) + 1} stages on {one_line(row.backend, 64)}"),
        _fact("measured", f"{when} by {_signer(row, snapshot)}"),
        _fact("sha256", f"{one_line(row.artifact, 64)[:16]}…"),
    ]
    if row.same_owner:
        lines.append(line(Span("It decides here too: that is a node of your owner.", "ok")))
    elif not row.own:
        lines.append(line(Span("! Not trusted here, so it decides nothing: measure it with m.", "warn")))
    lines += [
        line(""),
        line(Span("Noise floor", "strong"), muted(f": {row.noise:.0e} at the cut, {row.floor_seeds} seeds")),
        _fact("same token", _share(row.floor_agreed, row.positions)),
        _fact("mean KL", f"{row.floor_mean_kl:.1e} nats"),
    ]
    for each in one.rows:
        lines += [line(""), *_codec_lines(each)]
    lines += [line(""), *RULES, line(muted("f32 carries every value as it is: always exact."))]
    room = max(width - _LABEL, 10)
    made = f"meshllm {one_line(row.meshllm, 20)}, llama-cpp-python {one_line(row.llama_cpp, 20)}"
    how = f"device {one_line(row.device, 20)}, {row.threads} threads, KV {one_line(row.kv_type, 8)}"
    return (*lines, line(""), _fact("made with", fit(made, room)), _fact("", fit(how, room)))


def _codec_lines(row: MeasuredRow) -> tuple[Line, ...]:
    state = VERDICTS[row.verdict]
    if row.verdict == "untested":
        return (
            line(Span(f"{one_line(row.codec, 8)} ", "strong"), state.span),
            line(muted(one_line(row.reason, 300))),
        )
    times = row.mean_kl / row.floor_mean_kl if row.floor_mean_kl > 0 else 0.0
    beside = f", {times:,.1f} × the floor" if times else ""
    lines = [
        line(Span(f"{one_line(row.codec, 8)} ", "strong"), state.span),
        _fact("same token", _share(row.agreed, row.positions)),
        *([_fact("", f"{row.shortfall:.1f} s.e. below the floor")] if row.shortfall > 0 else []),
        _fact("mean KL", f"{row.mean_kl:.1e} nats{beside}"),
        _fact("largest KL", f"{row.max_kl:.1e} nats"),
    ]
    return tuple(lines)


def _share(agreed: float, positions: int) -> str:
    part = f" ({agreed / positions * 100:.1f} %)" if positions else ""
    return f"{agreed:,.0f} of {positions:,}{part}"


def _signer(row: MeasuredRow, snapshot: NodeSnapshot | None) -> str:
    if row.own:
        return "this node"
    peers = snapshot.peers if snapshot is not None else ()
    name = next((peer.name for peer in peers if peer.node == row.signer), "")
    return one_line(name, 40) or f"node {one_line(row.signer, 64)[:10]}"


def review_lines(review: Review, width: int) -> tuple[Line, ...]:
    """A review, what it is worth, and its look-alikes beside it."""
    row = review.row
    lines = [
        line(Span(fit(row.family, width), "strong")),
        _fact("artifact", fit(row.model, max(width - _LABEL, 10))),
        _fact("q8", VERDICTS[row.q8].span),
        _fact("", REVIEWED[row.q8]),
        _fact("others use", f"{row.wire} between the stages"),
    ]
    for other in review.opposite[:8]:
        lines += [line(""), *side_by_side(row, other, width)]
    return (*lines, line(""), line(muted(WORTH)))


def side_by_side(one: ReviewedRow, other: ReviewedRow, width: int) -> tuple[Line, ...]:
    """Two look-alikes whose verdicts are opposite, and what that teaches."""
    half = max((width - 2) // 2, 10)

    def pair(left: Span, right: Span) -> Line:
        gap = " " * max(half - cells(left.text) + 2, 1)
        return line(left, gap, right)

    states = VERDICTS[one.q8], VERDICTS[other.q8]
    same = one.family == other.family
    words = (
        f"Both are {one.family}, and their verdicts are opposite: a family's name decides nothing."
        if same
        else "The names look alike, and the verdicts are opposite: a look-alike name means nothing."
    )
    return (
        pair(Span(fit(one.family, half), "strong"), Span(fit(other.family, half), "strong")),
        pair(Span(states[0].span.text, states[0].tone), Span(states[1].span.text, states[1].tone)),
        pair(muted(fit(one.model, half)), muted(fit(other.model, half))),
        line(Span("⇄ ", "warn"), words),
    )
