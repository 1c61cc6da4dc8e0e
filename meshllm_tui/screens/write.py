"""A text to be written or changed: a name, a path, a system prompt."""

from collections.abc import Awaitable, Callable

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static
from textual.worker import Worker, WorkerState

from meshllm_core.errors import MeshError, describe
from meshllm_tui.present import Line, Span, error_lines, line, muted
from meshllm_tui.screens.dialog import Dialog
from meshllm_tui.widgets.prompt import Prompt
from meshllm_tui.widgets.styled import content


class WriteScreen(Dialog[str]):
    """Gives back the text, or None for Esc. `submit` may refuse it: the refusal is shown, to be put right."""

    def __init__(
        self,
        title: str,
        text: str,
        hint: str,
        limit: int,
        submit: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._hint = hint
        self._limit = limit
        self._submit = submit

    def compose(self) -> ComposeResult:
        """The text, what it is for, room for a refusal."""
        with Vertical(classes="dialog write") as frame:
            frame.border_title = Content(self._title)
            frame.border_subtitle = Content("Enter keeps it, Esc cancels")
            yield Prompt("written", text=self._text, words="", limit=self._limit, sends_nothing=True)
            yield Static(content([line(muted(self._hint))]), classes="hint", markup=False)
            yield Static(classes="note", markup=False)

    def on_mount(self) -> None:
        """The keyboard behind the last letter."""
        prompt = self.query_one(Prompt)
        prompt.focus()
        prompt.move_cursor(prompt.document.end)

    def on_prompt_sent(self, event: Prompt.Sent) -> None:
        """Give the text back, unless it is refused."""
        event.stop()
        if len(event.text) > self._limit:
            self._say((line(Span(f"It has {len(event.text):,} of {self._limit:,} characters.", "warn")),))
        elif self._submit is None:
            self.dismiss(event.text)
        else:
            self.run_worker(self._send(event.text, self._submit), exclusive=True, exit_on_error=False)

    async def _send(self, text: str, submit: Callable[[str], Awaitable[None]]) -> None:
        try:
            await submit(text)
        except MeshError as error:
            self._say(error_lines(error.message, error.hint))
        else:
            self.dismiss(text)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault of the dashboard's own must not look like waiting."""
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            self._say(error_lines(describe(event.worker.error), "Please report it with the log."))

    def _say(self, lines: tuple[Line, ...]) -> None:
        note = self.query_one(".note", Static)
        note.display = bool(lines)
        note.update(content(lines))
