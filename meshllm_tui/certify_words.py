"""What is known of codecs, in words: records, verdicts, look-alikes, a measurement. No Textual here."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from meshllm_core.api.schema_certify import Certificates, MeasuredRow, ReviewedRow, VerdictName
from meshllm_core.state.certify_events import CertificationView, CertifyPhase
from meshllm_tui.cleaning import cells, fit, one_line
from meshllm_tui.present import Line, Span, State, line, muted
from meshllm_tui.units import bar, duration, percent, sizes

VERDICTS: dict[VerdictName, State] = {
    "exact": State("●", "exact", "ok"),
    "validated": State("◐", "bounded", "ok"),
    "rejected": State("✗", "rejected", "bad"),
    "untested": State("○", "not measured", "muted"),
}
PHASES: dict[CertifyPhase, str] = {
    "hashing": "reading the model's files",
    "writing": "writing the stages' files",
    "answering": "the whole model answers",
    "measuring": "the stages go over the same answers",
}
CODECS = ("f16", "bf16", "q8", "q8x")
FAMILY_WIDTH = 15
STATE_WIDTH = 14
ENOUGH = 10
"""Cells below which a part of a name says nothing."""


@dataclass(frozen=True)
class Measurement:
    """What one node measured at once: some codecs of one artifact, its cuts and a backend."""

    rows: tuple[MeasuredRow, ...]
    """One for each codec; at least one."""

    @property
    def first(self) -> MeasuredRow:
        """Any of them: all but codec and figures are the same."""
        return self.rows[0]

    @property
    def key(self) -> str:
        """Tells it from the others."""
        one = self.first
        return f"m {one.artifact} {one.cuts} {one.backend} {one.signer}"

    @property
    def name(self) -> str:
        """Of the model, as far as it is known."""
        return one_line(self.first.name, 200) or f"artifact {one_line(self.first.artifact, 64)[:12]}"


@dataclass(frozen=True)
class Review:
    """A record that others reviewed, with the look-alikes whose verdict is opposite."""

    row: ReviewedRow
    opposite: tuple[ReviewedRow, ...]

    @property
    def key(self) -> str:
        """Tells it from the others."""
        return f"r {self.row.model}"


Record = Measurement | Review


def records_of(answer: Certificates) -> tuple[tuple[Measurement, ...], tuple[Review, ...]]:
    """The measurements, the newest first, and the reviews by family."""
    groups: dict[tuple[object, ...], list[MeasuredRow]] = {}
    for row in answer.measured:
        groups.setdefault((row.artifact, row.cuts, row.backend, row.signer), []).append(row)
    measured = tuple(Measurement(tuple(sorted(rows, key=_codec_order))) for rows in groups.values())
    families = sorted(answer.reviewed, key=lambda row: (row.family, row.model))
    return measured, tuple(Review(row, opposites(row, answer.reviewed)) for row in families)


def _codec_order(row: MeasuredRow) -> int:
    return CODECS.index(row.codec) if row.codec in CODECS else len(CODECS)


def opposites(row: ReviewedRow, all_rows: Iterable[ReviewedRow]) -> tuple[ReviewedRow, ...]:
    """Records of families whose name looks like this one's, and whose verdict is the other one.

    Names look alike where one begins the other, or where they are the same.
    """
    if row.q8 not in ("validated", "rejected"):
        return ()
    return tuple(
        other
        for other in all_rows
        if other.model != row.model
        and other.q8 in ("validated", "rejected")
        and other.q8 != row.q8
        and _alike(row.family, other.family)
    )


def _alike(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def matches(record: Record, search: str) -> bool:
    """Whether every word of the search is in the record's names, cuts, codecs or verdicts."""
    if isinstance(record, Review):
        verdict = VERDICTS[record.row.q8].word
        text = f"{record.row.model} {record.row.family} q8 {verdict} {record.row.wire}"
    else:
        one = record.first
        found = " ".join(f"{row.codec} {VERDICTS[row.verdict].word}" for row in record.rows)
        text = f"{record.name} {one.artifact} {cuts_words(one.cuts)} {one.backend} {found}"
    text = text.lower()
    return all(word in text for word in search.lower().split())


def cuts_words(cuts: Sequence[int]) -> str:
    """Where a model is cut: "cut at 10, 20"."""
    shown = ", ".join(str(cut) for cut in cuts[:8])
    return f"cut at {shown}" + (f" and {len(cuts) - 8} more" if len(cuts) > 8 else "")


def measurement_card(one: Measurement, width: int) -> tuple[Line, ...]:
    """A measurement in the list: what, where cut, then a verdict for each codec."""
    where = fit(f"{cuts_words(one.first.cuts)}, {one_line(one.first.backend, 20)}", max(width // 2, 8))
    name = fit(one.name, max(width - cells(where) - 2, 8))
    head = line(Span(name, "strong"), muted(f"  {where}"))
    return (head, *verdict_lines([(row.codec, row.verdict) for row in one.rows[:6]], width))


def verdict_lines(found: Sequence[tuple[str, VerdictName]], width: int) -> tuple[Line, ...]:
    """Codecs with their verdicts, as many on a line as fit."""
    lines: list[list[Span]] = [[]]
    used = 0
    for codec, verdict in found:
        pair = [Span(f"{one_line(codec, 8)} "), VERDICTS[verdict].span]
        size = sum(cells(span.text) for span in pair)
        if lines[-1] and used + size + 2 > width:
            lines.append([])
            used = 0
        if lines[-1]:
            lines[-1].append(Span("  "))
            used += 2
        lines[-1] += pair
        used += size
    return tuple(tuple(each) for each in lines)


def review_line(review: Review, width: int) -> Line:
    """A review in the list: family, verdict of q8, artifact; a mark where a look-alike says the opposite."""
    row = review.row
    state = VERDICTS[row.q8]
    family = fit(row.family, FAMILY_WIDTH)
    mark = Span("⇄ ", "warn") if review.opposite else Span("  ")
    room = width - FAMILY_WIDTH - STATE_WIDTH - 4
    return line(
        mark,
        Span(family + " " * (FAMILY_WIDTH - cells(family) + 1), "strong"),
        Span(state.span.text.ljust(STATE_WIDTH + 1), state.tone),
        muted(fit(row.model, room) if room >= ENOUGH else ""),
    )


def certification_lines(view: CertificationView | None, wall: float, width: int) -> tuple[Line, ...]:
    """The measurement that runs, or the latest."""
    if view is None:
        return (
            line(muted("No measurement was made since the node started. ")),
            line(muted("Press "), Span("m", "accent"), muted(" to measure a model that is on its disk.")),
        )
    what = f"{one_line(view.model, 200)}, {cuts_words(view.cuts)}: {', '.join(view.codecs[:8])}"
    if view.state == "running":
        return _running(view, what, wall, width)
    ago = f"{duration(max(wall - view.ended_at, 0.0))} ago"
    if view.state == "done":
        found = verdict_lines([(one.codec, one.verdict) for one in view.verdicts[:8]], width)
        head = f" {ago}: "
        room = max(width - len("● measured and signed") - cells(head), 10)
        return (line(Span("● measured and signed", "ok"), head, fit(what, room)), *found)
    if view.state == "cancelled":
        return (
            line(Span("○ cancelled", "muted"), f" {ago}: {fit(what, width)}"),
            line(muted("Nothing is kept.")),
        )
    return (
        line(Span("✗ failed", "bad"), f" {ago}: {one_line(view.message, 300)}"),
        line(one_line(view.hint, 300)),
    )


def _running(view: CertificationView, what: str, wall: float, width: int) -> tuple[Line, ...]:
    step = list(PHASES).index(view.phase) + 1
    share = view.done / view.total if view.total > 0 else 0.0
    filled, empty = bar(share, max(min(width - 8, 40), 4))
    match view.phase:
        case "hashing":
            done = sizes(view.done, view.total)
        case "writing":
            done = f"from layer {view.done:,} of {view.total:,}"
        case _:
            done = f"{view.done:,} of {view.total:,} positions"
    last = f"{done}, {duration(max(wall - view.started_at, 0.0))} so far"
    where = f", step {step} of {len(PHASES)}: {PHASES[view.phase]}"
    if cells(last) + cells(where) > width:
        where = f", step {step} of {len(PHASES)}"
    return (
        line(Span("◐ measuring", "accent"), f" {fit(what, max(width - 12, 10))}"),
        line(Span(filled, "accent"), muted(empty), f" {percent(view.done, view.total)}"),
        line(muted(last + where)),
    )


def read_cuts(text: str) -> tuple[int, ...] | str:
    """The layers that a person wrote, or what is wrong with them. Nothing: the node takes the middle."""
    parts = [part for part in text.replace(",", " ").split() if part]
    if not all(part.isascii() and part.isdecimal() and len(part) < 6 for part in parts):
        return "Cuts are numbers of layers, as in 10, 20."
    found = tuple(int(part) for part in parts)
    if list(found) != sorted(set(found)) or (found and found[0] < 1):
        return "Cuts rise, from 1 on, as in 10, 20."
    return found


def read_codecs(text: str) -> tuple[str, ...] | str:
    """The codecs that a person wrote, or what is wrong with them. Nothing: all."""
    found = tuple(dict.fromkeys(text.lower().replace(",", " ").split()))
    wrong = [each for each in found if each not in CODECS]
    if "f32" in wrong:
        return "f32 carries every value as it is: there is nothing to measure."
    return f"Codecs are {', '.join(CODECS)}." if wrong else found
