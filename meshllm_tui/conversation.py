"""A chat with the node: the turns, and one answer as it streams in. No Textual here."""

import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from meshllm_core.errors import MeshError
from meshllm_tui.cleaning import clean, one_line

if TYPE_CHECKING:
    from meshllm_core.api.client import ChatDelta

TURNS_KEPT = 500
"""Questions with their answers; the oldest are dropped first."""
ANSWER_LIMIT = 400_000
"""Characters of one answer; a longer one is stopped."""
PROMPT_LIMIT = 200_000
"""Characters of a question."""
SYSTEM_LIMIT = 20_000
"""Characters of a system prompt."""
TITLE_LIMIT = 80
"""Characters of a conversation's title."""

AnswerState = Literal["waiting", "streaming", "done", "stopped", "failed"]


class ChatClient(Protocol):
    """The part of the node's client that a chat needs."""

    def chat_stream(self, messages: Sequence[dict[str, str]], model: str) -> "AsyncGenerator[ChatDelta]":
        """The answer of `model` to the messages. Raises MeshError; closing it cancels the request."""


@dataclass
class Answer:
    """One reply and its figures."""

    model: str
    served_by: str = ""
    """Name of the other member that computed it; empty: the node itself."""
    how: str = ""
    """Who computed it and by which stages, in words; empty while not known."""
    state: AnswerState = "waiting"
    text: str = ""
    reasoning: str = ""
    finish_reason: str = ""
    error: str = ""
    hint: str = ""
    completion_tokens: int = 0
    asked_at: float = 0.0
    first_at: float = 0.0
    last_at: float = 0.0

    @property
    def first_token_ms(self) -> float:
        """From the question to the first piece of the answer; 0 before it."""
        return (self.first_at - self.asked_at) * 1000 if self.first_at else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Tokens after the first over the time after the first; 0 when not known."""
        span = self.last_at - self.first_at
        return (self.completion_tokens - 1) / span if self.completion_tokens > 1 and span > 0 else 0.0

    def take(self, delta: "ChatDelta", now: float) -> None:
        """Add a piece that arrived at `now` (seconds of any monotonic clock)."""
        if delta.text or delta.reasoning:
            self.first_at = self.first_at or now
            self.last_at = now
            self.state = "streaming"
            self.text += clean(delta.text, ANSWER_LIMIT)
            self.reasoning += clean(delta.reasoning, ANSWER_LIMIT)
        self.served_by = one_line(delta.served_by, 40) or self.served_by
        self.finish_reason = delta.finish_reason or self.finish_reason
        self.completion_tokens = delta.completion_tokens or self.completion_tokens

    def fail(self, error: str, hint: str) -> None:
        """Nothing more will come, and why."""
        self.state, self.error, self.hint = "failed", error, hint

    @property
    def over(self) -> bool:
        """Nothing more will come."""
        return self.state in ("done", "stopped", "failed")


def new_id() -> str:
    """An id that no other conversation or turn has."""
    return secrets.token_hex(8)


@dataclass
class Turn:
    """A question and its answer."""

    question: str
    answer: Answer
    id: str = field(default_factory=new_id)
    saved: bool = False
    """The history holds it as it is."""


@dataclass
class Conversation:
    """All turns, oldest first, and what holds for each of them."""

    turns: list[Turn] = field(default_factory=list)
    id: str = field(default_factory=new_id)
    title: str = ""
    """The first question, or what a person called it."""
    system: str = ""
    """The system prompt; empty: none is sent."""
    model: str = ""
    """The model that was asked last, or chosen since."""
    dropped: list[str] = field(default_factory=list)
    """Ids of turns that the history may still hold; at most TURNS_KEPT."""

    @property
    def last(self) -> Turn | None:
        """The newest turn."""
        return self.turns[-1] if self.turns else None

    def messages(self) -> list[dict[str, str]]:
        """The body's `messages`: answers that failed before any text take their question with them."""
        messages: list[dict[str, str]] = []
        if self.system:
            messages.append({"role": "system", "content": self.system})
        for turn in self.turns:
            if turn.answer.text:
                messages.append({"role": "user", "content": turn.question})
                messages.append({"role": "assistant", "content": turn.answer.text})
        return messages

    def ask(self, question: str, model: str, now: float) -> tuple[list[dict[str, str]], Turn]:
        """The messages to send for `question`, and the turn that will hold the answer."""
        messages = [*self.messages(), {"role": "user", "content": question}]
        turn = Turn(question, Answer(model=model, asked_at=now))
        self.model = model
        self.title = self.title or one_line(question, TITLE_LIMIT)
        gone = [each.id for each in self.turns[: max(len(self.turns) + 1 - TURNS_KEPT, 0)]]
        self.turns = [*self.turns, turn][-TURNS_KEPT:]
        self._drop(gone)
        return messages, turn

    def ask_again(self, model: str, now: float) -> tuple[list[dict[str, str]], Turn] | None:
        """The last question with a new answer in place of the old one; None when nothing was asked."""
        turn = self.last
        if turn is None:
            return None
        turn.answer, turn.saved = Answer(model=model, asked_at=now), False
        self.model = model
        return [*self.messages(), {"role": "user", "content": turn.question}], turn

    def drop_last(self) -> Turn | None:
        """Take the newest turn out; None when there is none."""
        turn = self.last
        if turn is not None:
            self.turns = self.turns[:-1]
            self._drop([turn.id])
        return turn

    def _drop(self, gone: list[str]) -> None:
        self.dropped = [*self.dropped, *gone][-TURNS_KEPT:]


async def stream_answer(
    client: ChatClient,
    messages: Sequence[dict[str, str]],
    answer: Answer,
    changed: Callable[[], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Fill `answer` from the node, calling `changed` after each piece. Cancelling it stops the answer."""
    pieces = client.chat_stream(messages, answer.model)
    try:
        async for delta in pieces:
            answer.take(delta, clock())
            changed()
            if len(answer.text) + len(answer.reasoning) > ANSWER_LIMIT:
                answer.finish_reason = "length"
                break
        answer.state = "done"
    except MeshError as error:
        answer.fail(error.message, error.hint)
    finally:
        if answer.state in ("waiting", "streaming"):
            answer.state = "stopped"
        await pieces.aclose()
        changed()
