"""A chat with the node: the turns, and one answer as it streams in. No Textual here."""

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from meshllm_core.errors import MeshError
from meshllm_tui.cleaning import clean, one_line
from meshllm_tui.present import Line, Span, line, muted
from meshllm_tui.units import count, milliseconds, number

if TYPE_CHECKING:
    from meshllm_core.api.client import ChatDelta

TURNS_KEPT = 100
"""Questions with their answers; the oldest are dropped first."""
ANSWER_LIMIT = 400_000
"""Characters of one answer; a longer one is stopped."""

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

    def figures(self) -> Line:
        """The line below the answer: its state in words, tokens, speed, first token."""
        if self.state == "waiting":
            return line(Span("◌ waiting for the first token…", "accent"), muted("  Esc stops it"))
        parts = {
            "streaming": Span("◐ answering", "accent"),
            "done": muted("● done"),
            "stopped": Span("■ stopped", "warn"),
            "failed": Span("✗ failed", "bad"),
        }
        words = []
        if self.completion_tokens:
            words.append(count(self.completion_tokens, "token"))
        if self.tokens_per_second:
            words.append(f"{number(self.tokens_per_second)} tok/s")
        if self.first_at:
            words.append(f"first token {milliseconds(self.first_token_ms)}")
        if self.served_by:
            words.append(f"by {self.served_by}")
        if self.state == "streaming":
            words.append("Esc stops it")
        if self.finish_reason == "length":
            words.append("cut at the length limit")
        return line(parts[self.state], muted("".join(f"  {word}" for word in words)))


@dataclass
class Turn:
    """A question and its answer."""

    question: str
    answer: Answer


@dataclass
class Conversation:
    """All turns, oldest first."""

    turns: list[Turn] = field(default_factory=list)

    def messages(self) -> list[dict[str, str]]:
        """The body's `messages`: answers that failed before any text take their question with them."""
        messages: list[dict[str, str]] = []
        for turn in self.turns:
            if turn.answer.text:
                messages.append({"role": "user", "content": turn.question})
                messages.append({"role": "assistant", "content": turn.answer.text})
        return messages

    def ask(self, question: str, model: str, now: float) -> tuple[list[dict[str, str]], Turn]:
        """The messages to send for `question`, and the turn that will hold the answer."""
        messages = [*self.messages(), {"role": "user", "content": question}]
        turn = Turn(question, Answer(model=model, asked_at=now))
        self.turns = [*self.turns, turn][-TURNS_KEPT:]
        return messages, turn


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
