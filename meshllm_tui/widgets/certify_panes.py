"""The parts of the page of certificates: the records, the evidence of the chosen one, the measurement."""

from collections.abc import Callable

from meshllm_core.api.schema_certify import Certificates
from meshllm_core.errors import MeshError
from meshllm_tui.certify_evidence import measurement_lines, review_lines
from meshllm_tui.certify_words import (
    Measurement,
    Record,
    Review,
    certification_lines,
    matches,
    measurement_card,
    records_of,
    review_line,
)
from meshllm_tui.present import (
    Line,
    NodeView,
    Span,
    error_lines,
    line,
    link_words,
    muted,
    plain,
    waiting_lines,
)
from meshllm_tui.widgets.grouped_list import Row
from meshllm_tui.widgets.search_list import SearchList
from meshllm_tui.widgets.text_pane import TextPane


class RecordsPane(SearchList):
    """What was measured, then what others reviewed."""

    def __init__(self) -> None:
        super().__init__("records", "Records", "/ searches model, family, verdict")
        self.answer: Certificates | MeshError | None = None
        """None while it is asked for."""
        self.only_opposites = False
        self._view = NodeView()
        self._records: dict[str, Record] = {}

    @property
    def chosen(self) -> Record | None:
        """The chosen record."""
        key = self.found.chosen
        return self._records.get(key) if key is not None else None

    def take(self, answer: Certificates | MeshError | None) -> None:
        """Another answer of the node; a refusal takes the place of nothing that is known."""
        if isinstance(answer, Certificates) or not isinstance(self.answer, Certificates):
            self.answer = answer
        self.draw()

    def show(self, view: NodeView) -> None:
        """Draw what is new."""
        self._view = view
        self.border_subtitle = plain((link_words(view),)) if self._records else ""
        if not self._records:
            self.draw()

    def draw(self) -> None:
        """Make the rows anew: another answer, search or width."""
        answer = self.answer
        if not isinstance(answer, Certificates):
            self._records = {}
            self.show_rows([Row("", lines) for lines in (_waiting(self._view, answer),) if lines])
            return
        measured, reviews = records_of(answer)
        mine = [] if self.only_opposites else [one for one in measured if matches(one, self.search)]
        reviewed = [one for one in reviews if matches(one, self.search)]
        if self.only_opposites:
            reviewed = [one for one in reviewed if one.opposite]
        listed: list[Record] = [*mine, *reviewed]
        self._records = {one.key: one for one in listed}
        self.show_rows(self._rows(answer, mine, reviewed))

    def _rows(self, answer: Certificates, mine: list[Measurement], reviewed: list[Review]) -> list[Row]:
        width, rows = self.room, []
        if not self.only_opposites:
            more = f", {answer.left_out:,} older left out" if answer.left_out else ""
            rows.append(_heading("Measured, signed and kept here", len(mine), more))
            rows += [Row(one.key, measurement_card(one, width)) for one in mine]
            if not mine:
                words = "Nothing found." if self.search else "Nothing yet: m measures a model."
                rows.append(Row("", (line(muted(words)),)))
        title = "Look-alikes with opposite verdicts" if self.only_opposites else "Reviewed by others: q8"
        rows.append(_heading(title, len(reviewed)))
        rows += [Row(one.key, (review_line(one, width),)) for one in reviewed]
        if not reviewed:
            rows.append(Row("", (line(muted("Nothing found.")),)))
        return rows


def _heading(words: str, found: int, more: str = "") -> Row:
    return Row("", (line(Span(words, "accent"), muted(f"  {found:,}{more}")),))


def _waiting(view: NodeView, answer: Certificates | MeshError | None) -> tuple[Line, ...]:
    if isinstance(answer, MeshError):
        again = line(muted("Press "), Span("r", "accent"), muted(" to ask again."))
        return (*error_lines(answer.message, answer.hint), again)
    if view.snapshot is None:
        return waiting_lines(view)
    return (line(Span("◌ reading the records…", "accent")),)


class EvidencePane(TextPane):
    """All that is known of the chosen record."""

    def __init__(self, chosen: Callable[[], Record | None]) -> None:
        super().__init__("evidence", "Evidence")
        self._chosen = chosen
        self._key = ""

    def show(self, view: NodeView) -> None:
        """Draw what is new."""
        record, width = self._chosen(), self.room
        match record:
            case Measurement():
                lines = measurement_lines(record, view.snapshot, view.wall, width)
            case Review():
                lines = review_lines(record, width)
            case _:
                lines = (line(muted("Choose a record: its evidence is shown here.")),)
        key = record.key if record is not None else ""
        if key != self._key:
            self._key = key
            self.scroll_home(animate=False)
        self.say(lines)


class MeasurementPane(TextPane):
    """The measurement that runs, or the latest."""

    def __init__(self) -> None:
        super().__init__("measurement", "Measurement")

    def show(self, view: NodeView) -> None:
        """Draw what is new."""
        if view.snapshot is None:
            self.say(waiting_lines(view))
            return
        lines = certification_lines(view.snapshot.certification, view.wall, self.room)
        stale = link_words(view)
        self.say((*lines, stale) if stale else lines)
