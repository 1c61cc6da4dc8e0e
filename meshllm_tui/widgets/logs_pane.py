"""The logs of the node and its engines: one at a time, followed while it is shown."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Log, Static

from meshllm_core.api.schema_logs import LogPiece, LogsAnswer
from meshllm_core.errors import MeshError
from meshllm_tui.keys import bindings_of
from meshllm_tui.log_text import LINES_KEPT, LogText, empty_log, log_choices, log_title, with_words
from meshllm_tui.present import Line, NodeView, error_lines, link_words
from meshllm_tui.screens.choose import ChooseScreen
from meshllm_tui.session import Session
from meshllm_tui.widgets.filter_box import FilterBox
from meshllm_tui.widgets.styled import content

PIECES_AT_ONCE = 8
"""Pieces that are read one after the other before the screen gets its turn."""


class LogView(Log):
    """The lines; takes j and k too."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
        Binding("h", "scroll_left", "Left", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(id="log-lines", max_lines=LINES_KEPT, highlight=False)


class LogsPane(Vertical):
    """The end of a log, and what is written to it from then on."""

    BINDINGS = bindings_of("logs")

    def __init__(self, session: Session) -> None:
        super().__init__(id="logs", classes="pane")
        self._session = session
        self._view = NodeView()
        self._text = LogText("node")
        self._words = ""
        self._asked = False
        """An answer has come."""
        self._asking = False
        self._trouble: tuple[Line, ...] = ()
        self._note: tuple[Line, ...] | None = None

    def compose(self) -> ComposeResult:
        """Words in place of lines, lines, filter."""
        yield Static(id="log-note", markup=False)
        yield LogView()
        yield FilterBox("log-filter")

    def on_mount(self) -> None:
        """Say which log it is."""
        self._label()

    def on_show(self) -> None:
        """Read at once when the pane comes into view."""
        self.show(self._view)

    @property
    def _lines(self) -> LogView:
        return self.query_one(LogView)

    def show(self, view: NodeView) -> None:
        """Draw `view`, and read on while the pane is shown; called every second too."""
        self._view = view
        self._tell()
        if self.display and view.link == "live" and not self._asking:
            self._asking = True
            self.run_worker(self._read(), group="logs", exit_on_error=False)

    async def _read(self) -> None:
        """Take what was written since the last time."""
        text = self._text
        try:
            for _ in range(PIECES_AT_ONCE):
                piece = await self._session.client.ask(
                    "logs/read", LogPiece, name=text.name, after=text.after, file=text.file or None
                )
                if text is not self._text:
                    return
                self._trouble = ()
                new = text.take(piece)
                if new:
                    self._lines.write_lines(with_words(new, self._words))
                if not text.behind:
                    break
        except MeshError as error:
            self._trouble = error_lines(error.message, error.hint)
        finally:
            self._asking = False
        self._asked = True
        self._tell()

    def _tell(self) -> None:
        """Words in place of lines, where there are none or the log cannot be read."""
        note = self._trouble
        if not note and not self._lines.line_count:
            note = empty_log(self._view, self._asked, self._words)
        if note != self._note:
            self._note = note
            told = self.query_one("#log-note", Static)
            told.update(content(note))
            told.display = bool(note)
            self._lines.display = not note or bool(self._text.lines)
            self.refresh_bindings()
        self._label()

    def _label(self) -> None:
        title = Content(f"Logs: {log_title(self._text.name)}")
        if self.border_title != title:
            self.border_title = title
        parts = []
        if self._view.link != "live" and self._view.snapshot is not None:
            parts.append("".join(span.text for span in link_words(self._view)))
        parts.append("follows" if self._lines.auto_scroll else "f follows")
        under = Content(" · ".join(parts))
        if self.border_subtitle != under:
            self.border_subtitle = under

    def focus_main(self) -> None:
        """Give the keyboard to this pane."""
        self._lines.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is something to copy only where there are lines."""
        return action not in ("copy", "copy_all") or bool(self._text.lines)

    def on_filter_box_filtered(self, event: FilterBox.Filtered) -> None:
        """Other words."""
        event.stop()
        self._words = event.words
        self._lines.clear()
        self._lines.write_lines(with_words(self._text.lines, self._words))
        self._tell()

    def on_filter_box_left(self, event: FilterBox.Left) -> None:
        """Back to the lines."""
        event.stop()
        self.focus_main()

    def action_filter(self) -> None:
        """Ask for words."""
        self.query_one(FilterBox).open()

    def action_follow(self) -> None:
        """Go to the log's end and stay there."""
        self._lines.auto_scroll = True
        self._lines.scroll_end(animate=False)
        self._label()

    def action_choose(self) -> None:
        """Ask which log is to be read."""
        self.run_worker(self._choose(), group="choose-log", exclusive=True, exit_on_error=False)

    async def _choose(self) -> None:
        try:
            answer = await self._session.client.ask("logs", LogsAnswer)
        except MeshError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        choices = log_choices(answer.logs, self._view.wall)
        if choices:
            self.app.push_screen(ChooseScreen("Which log?", choices), self.read)
        else:
            self.notify("No log has been written yet.", severity="warning", markup=False)

    def read(self, name: str | None) -> None:
        """Read that log from now on."""
        if name is None or name == self._text.name:
            return
        self._text, self._asked, self._asking, self._trouble = LogText(name), False, False, ()
        self._lines.clear()
        self._lines.auto_scroll = True
        self.show(self._view)

    def action_copy(self) -> None:
        """Copy the lines of the log that are on the screen."""
        top = self._lines.scroll_offset.y
        shown = self._lines.lines[top : top + self._lines.scrollable_content_region.height]
        self.app.copy_to_clipboard("\n".join(shown))
        self.notify(f"Copied {len(shown)} lines.", markup=False)

    def action_copy_all(self) -> None:
        """Copy what is kept of the log."""
        shown = with_words(self._text.lines, self._words)
        self.app.copy_to_clipboard("\n".join(shown))
        self.notify(f"Copied {len(shown):,} lines.", markup=False)
