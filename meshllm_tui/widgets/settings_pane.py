"""The settings: a row each, by section."""

from meshllm_core.api.schema_config import Config, ConfigRow
from meshllm_core.errors import MeshError
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
from meshllm_tui.settings_rows import matches, problem_lines, row_line, state_words
from meshllm_tui.widgets.grouped_list import Row
from meshllm_tui.widgets.search_list import SearchList


class SettingsPane(SearchList):
    """What the node runs with, and what the dashboard itself reads."""

    def __init__(self) -> None:
        super().__init__("keys-of-config", "Settings", "/ searches name, help, source; changed")
        self.answer: Config | MeshError | None = None
        """None while it is asked for."""
        self._view = NodeView()
        self._rows: dict[str, ConfigRow] = {}

    @property
    def chosen(self) -> ConfigRow | None:
        """The chosen setting."""
        key = self.found.chosen
        return self._rows.get(key) if key is not None else None

    @property
    def file(self) -> str:
        """The config.toml that counts."""
        return self.answer.file if isinstance(self.answer, Config) else ""

    def take(self, answer: Config | MeshError | None) -> None:
        """Another answer of the node; a refusal takes the place of nothing that is known."""
        if isinstance(answer, Config) or not isinstance(self.answer, Config):
            self.answer = answer
        self.draw()

    def show(self, view: NodeView) -> None:
        """Draw what is new."""
        self._view = view
        stale = plain((link_words(view),))
        waiting = state_words(self.answer) if isinstance(self.answer, Config) else ""
        self.border_subtitle = stale if isinstance(self.answer, Config) and stale else waiting
        if not isinstance(self.answer, Config):
            self.draw()

    def draw(self) -> None:
        """Make the rows anew: another answer, search or width."""
        answer, width = self.answer, self.room
        known = answer.rows if isinstance(answer, Config) else ()
        found = [row for row in known if matches(row, self.search)]
        rows = []
        if isinstance(answer, Config):
            rows += [Row("", lines) for lines in (problem_lines(answer),) if lines]
        else:
            rows.append(Row("", _waiting(self._view, answer)))
        section = ""
        for row in found:
            if row.section != section:
                section = row.section
                rows.append(Row("", (line(Span(section, "accent")),)))
            rows.append(Row(row.key, (row_line(row, width),)))
        if not found and known:
            rows.append(Row("", (line(muted("Nothing found.")),)))
        self._rows = {row.key: row for row in found}
        self.show_rows(rows)


def _waiting(view: NodeView, answer: Config | MeshError | None) -> tuple[Line, ...]:
    if isinstance(answer, MeshError):
        again = line(muted("Press "), Span("r", "accent"), muted(" to ask again."))
        return (*error_lines(answer.message, answer.hint), again)
    if view.snapshot is None:
        return waiting_lines(view)
    return (line(Span("◌ reading the settings…", "accent")),)
