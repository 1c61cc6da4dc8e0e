"""Raw text of an answer -> typed deltas: thought, content, tool calls. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from meshllm_core.engine.types import StopReason
from meshllm_core.serve.chunks import (
    ChatDelta,
    ContentDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallStarted,
)
from meshllm_core.serve.reasoning import ReasoningSplitter, ReasoningTags, Split
from meshllm_core.serve.tools import Dialect, ToolSpec
from meshllm_core.serve.tools.call_reader import Entropy
from meshllm_core.serve.tools.parsers import parser_for
from meshllm_core.state.events import FinishReason

__all__ = [
    "ChatDelta",
    "ChatEnd",
    "ChatStream",
    "ContentDelta",
    "Entropy",
    "ReasoningDelta",
    "ToolCallArguments",
    "ToolCallStarted",
]


class ChatEnd(NamedTuple):
    """What was still held back, and why the answer ended."""

    deltas: list[ChatDelta]
    reason: FinishReason
    """The engine's reason, or tool_calls."""


class ChatStream:
    """One answer being taken apart. In whatever pieces the text comes, the joined deltas are the same."""

    def __init__(
        self,
        *,
        entropy: Entropy,
        tools: Sequence[ToolSpec] = (),
        dialect: Dialect | None = None,
        reasoning: ReasoningTags | None = None,
        opened_reasoning: bool = False,
    ) -> None:
        """`tools` are those that this answer may call; calls of others, and all without them, are content.

        `dialect`, `reasoning` and `opened_reasoning` come from the RenderedPrompt, `entropy` makes call ids.
        """
        self._splitter = ReasoningSplitter(reasoning, opened=opened_reasoning)
        names = [tool.name for tool in tools]
        self._parser = parser_for(dialect, names, entropy) if dialect is not None and names else None

    @property
    def calls(self) -> int:
        """Tool calls announced so far."""
        return self._parser.calls if self._parser else 0

    def feed(self, text: str) -> list[ChatDelta]:
        """What became certain with this piece of text; often nothing."""
        return self._deltas(self._splitter.feed(text))

    def finish(self, reason: StopReason = "stop") -> ChatEnd:
        """What was held back, and the finish reason for the engine's `reason`. Call it once, at the end."""
        deltas = self._deltas(self._splitter.finish())
        if self._parser:
            deltas += self._parser.finish()
        return ChatEnd(deltas, "tool_calls" if self.calls and reason == "stop" else reason)

    def _deltas(self, split: Split) -> list[ChatDelta]:
        deltas: list[ChatDelta] = [ReasoningDelta(split.reasoning)] if split.reasoning else []
        if self._parser:
            deltas += self._parser.feed(split.answer)
        elif split.answer:
            deltas.append(ContentDelta(split.answer))
        return deltas
