"""One turn of the chat as lines: the question, the reasoning kept apart, the answer, its figures."""

from collections.abc import Iterator

from textual.content import Content
from textual.style import Style

from meshllm_tui.chat_words import figure_lines
from meshllm_tui.cleaning import clean
from meshllm_tui.conversation import Answer, Turn
from meshllm_tui.present import error_lines
from meshllm_tui.units import count
from meshllm_tui.widgets.document import Document
from meshllm_tui.widgets.styled import content

QUESTION_SHOWN = 4_000
"""Characters of a question that are shown; all of it is sent."""
PIECE = 2_000
"""Characters of an answer that are laid out at once: a key that is pressed meanwhile must not wait long."""
_BLANK = Content("")
_BAR = Content.styled("▌ ", "$accent-text on $panel")


class TurnLines:
    """Follows a turn whose answer may still grow, or be replaced by another."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.thinking = False
        """Whether the reasoning is shown."""
        self._answer: Answer = turn.answer
        self._document = Document()
        self._taken = 0
        self._question: tuple[int, list[Content]] = (0, [])
        self._thought = _Thought()

    def prepare(self, width: int) -> bool:
        """Lay out the next piece of the answer. False when there was none left."""
        answer = self.turn.answer
        if answer is not self._answer:
            self._answer, self._taken, self._document = answer, 0, Document()
            self._thought, self.thinking = _Thought(), False
        piece = answer.text[self._taken : self._taken + PIECE]
        if piece:
            self._taken += len(piece)
            self._document.append(piece)
            self._document.lines(width)
        return self._taken < len(answer.text)

    def lines(self, width: int) -> list[Content]:
        """All lines, at most `width` cells wide; an empty one at the end."""
        while self.prepare(width):
            pass
        answer = self.turn.answer
        shown = [*self._question_lines(width), _BLANK]
        if answer.reasoning:
            shown += self._thinking_lines(width)
        if answer.text:
            shown += [*self._document.lines(width), _BLANK]
        if answer.error:
            for each in error_lines(answer.error, answer.hint):
                shown += content([each]).wrap(width)
        for each in figure_lines(answer, width):
            shown += content([each]).wrap(width)
        if answer.how:
            shown += Content.styled(answer.how, "$muted").wrap(width)
        return [*shown, _BLANK]

    def _question_lines(self, width: int) -> list[Content]:
        if self._question[0] != width:
            text = Content(clean(self.turn.question, QUESTION_SHOWN))
            room = max(width - _BAR.cell_length, 1)
            rows = [
                _BAR + each.pad_right(max(room - each.cell_length, 0)).stylize_before("on $panel")
                for each in text.wrap(room)
            ]
            self._question = (width, rows)
        return self._question[1]

    def _thinking_lines(self, width: int) -> Iterator[Content]:
        reasoning = self.turn.answer.reasoning
        glyph = "▾" if self.thinking else "▸"
        words = f"{glyph} thinking, {count(len(reasoning.split()), 'word')}  (t)"
        yield Content.styled(words, "$muted").stylize(Style.from_meta({"thinking": self.turn.id}))
        if self.thinking:
            yield from self._thought.lines(reasoning, width)
        yield _BLANK


class _Thought:
    """Reasoning, wrapped; what ends with a line break is wrapped once."""

    def __init__(self) -> None:
        self._width = 0
        self._taken = 0
        self._lines: list[Content] = []

    def lines(self, text: str, width: int) -> list[Content]:
        if width != self._width:
            self._width, self._taken, self._lines = width, 0, []
        end = text.rfind("\n") + 1
        if end > self._taken:
            self._lines += _indented(text[self._taken : end - 1], width)
            self._taken = end
        return self._lines + _indented(text[self._taken :], width)


def _indented(text: str, width: int) -> list[Content]:
    return [Content("  ") + each for each in Content.styled(text, "$muted").wrap(max(width - 2, 1))]
