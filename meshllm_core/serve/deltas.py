"""Raw text of an answer -> typed deltas: thought, content, tool calls. Pure."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from meshllm_core.engine.types import StopReason
from meshllm_core.serve.chunks import (
    ChatDelta,
    ContentDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallStarted,
)
from meshllm_core.serve.reasoning import ReasoningTags
from meshllm_core.serve.tools import Dialect, ToolSpec
from meshllm_core.state.events import FinishReason

__all__ = [
    "ChatDelta",
    "ChatEnd",
    "ChatStream",
    "ContentDelta",
    "ReasoningDelta",
    "ToolCallArguments",
    "ToolCallStarted",
]

Entropy = Callable[[int], bytes]
"""That many random bytes: `os.urandom`."""


class ChatEnd(NamedTuple):
    """What was still held back, and why the answer ended."""

    deltas: list[ChatDelta]
    reason: FinishReason
    """The engine's reason, or tool_calls."""


class ChatStream:
    """One answer being taken apart. Feed it the engine's text in any pieces; the joined deltas are the same."""

    def __init__(
        self,
        *,
        entropy: Entropy,
        tools: Sequence[ToolSpec] = (),
        dialect: Dialect | None = None,
        reasoning: ReasoningTags | None = None,
        opened_reasoning: bool = False,
    ) -> None:
        raise NotImplementedError

    def feed(self, text: str) -> list[ChatDelta]:
        """What became certain with this piece of text; often nothing."""
        raise NotImplementedError

    def finish(self, reason: StopReason = "stop") -> ChatEnd:
        """What was held back, and the finish reason, for the engine's `reason`. Call it once, at the end."""
        raise NotImplementedError
