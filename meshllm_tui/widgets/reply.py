"""One turn of the chat: the question, the reasoning kept apart, the answer as Markdown, its figures."""

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from meshllm_tui.cleaning import clean
from meshllm_tui.conversation import Turn
from meshllm_tui.present import error_lines, line, muted
from meshllm_tui.units import count
from meshllm_tui.widgets.styled import content

if TYPE_CHECKING:
    from textual.widgets import Markdown

QUESTION_SHOWN = 4_000
"""Characters of a question that are shown; all of it is sent."""


class Reply(Vertical):
    """A question with its answer; `refresh_answer` draws what has come since the last time."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(classes="reply")
        self.turn = turn
        self.complete = False
        """Nothing more will change: the last state is drawn."""
        self._shown = 0
        self._body: Markdown | None = None

    def compose(self) -> ComposeResult:
        """The parts, most of them empty at first."""
        yield Static(clean(self.turn.question, QUESTION_SHOWN), classes="question", markup=False)
        yield Static(classes="thinking-title", markup=False)
        yield Static(classes="thinking", markup=False)
        yield Static(classes="reply-error", markup=False)
        yield Static(content([self.turn.answer.figures()]), classes="figures", markup=False)

    async def refresh_answer(self) -> None:
        """Draw the new part of the answer."""
        answer = self.turn.answer
        over = answer.state in ("done", "stopped", "failed")
        if answer.reasoning:
            self._refresh_thinking()
        if len(answer.text) > self._shown:
            piece, self._shown = answer.text[self._shown :], len(answer.text)
            body = self._body or await self._mount_body()
            await body.append(piece)
        if answer.error:
            error = self.query_one(".reply-error", Static)
            error.update(content(error_lines(answer.error, answer.hint)))
            error.display = True
        self.query_one(".figures", Static).update(content([answer.figures()]))
        self.complete = over

    async def _mount_body(self) -> "Markdown":
        # The Markdown parser is not needed before the first answer, and would delay the first paint.
        from textual.widgets import Markdown

        self._body = Markdown(classes="answer", open_links=False)
        await self.mount(self._body, before=self.query_one(".reply-error"))
        return self._body

    def _refresh_thinking(self) -> None:
        answer = self.turn.answer
        body = self.query_one(".thinking", Static)
        glyph = "▾" if body.display else "▸"
        words = count(len(answer.reasoning.split()), "word")
        title = self.query_one(".thinking-title", Static)
        title.display = True
        title.update(content([line(muted(f"{glyph} thinking, {words}  (t)"))]))
        if body.display:
            body.update(answer.reasoning)

    def toggle_thinking(self) -> bool:
        """Show or hide the reasoning. False when there is none."""
        if not self.turn.answer.reasoning:
            return False
        body = self.query_one(".thinking", Static)
        body.display = not body.display
        self._refresh_thinking()
        return True

    def on_click(self) -> None:
        """A click on the reply shows or hides its reasoning only when it hits the title line."""
        if self.query_one(".thinking-title", Static).is_mouse_over:
            self.toggle_thinking()
