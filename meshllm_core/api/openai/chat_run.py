"""One chat answer while it is being computed: the engine's chunks to typed deltas, and what the end tells."""

import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from meshllm_core.api.openai.context import Job
from meshllm_core.engine.types import Delta, Finished, PositionLogprobs, Started
from meshllm_core.errors import RequestCancelled
from meshllm_core.serve.chat_template import RenderedPrompt
from meshllm_core.serve.deltas import ChatDelta, ChatStream, ReasoningDelta
from meshllm_core.serve.tools import ToolSpec
from meshllm_core.state.events import FinishReason


@dataclass
class ChatRun:
    """Iterate `deltas` once; the other attributes are complete when it has ended."""

    job: Job
    prompt: RenderedPrompt
    tools: tuple[ToolSpec, ...] = ()
    """The tools that this answer may call."""
    parallel: bool = True
    """False: calls after the first are left out, where no grammar keeps the model from writing them."""
    finish_reason: FinishReason = "stop"
    finished: Finished | None = None
    logprobs: list[PositionLogprobs] = field(default_factory=list)
    """Of the tokens since somebody last took them."""
    _reasoning_tokens: int = 0

    async def deltas(self) -> AsyncGenerator[list[ChatDelta], None]:
        """An empty list when a lane is found, then what becomes certain, chunk by chunk.

        Raises what the engine raises, and RequestCancelled if the node gave the request up.
        """
        stream = ChatStream(
            entropy=os.urandom,
            tools=self.tools,
            dialect=self.prompt.dialect,
            reasoning=self.prompt.reasoning,
            opened_reasoning=self.prompt.opened_reasoning,
        )
        uncertain = 0
        async with self.job.chunks() as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Delta):
                    if chunk.logprobs:
                        self.logprobs += chunk.logprobs
                    deltas = self._allowed(stream.feed(chunk.text))
                    uncertain += chunk.tokens
                    if deltas:
                        if type(deltas[0]) is ReasoningDelta:
                            self._reasoning_tokens += uncertain
                        uncertain = 0
                        yield deltas
                elif isinstance(chunk, Started):
                    yield []
                else:
                    self.finished = chunk
                    if chunk.reason == "cancelled":
                        raise RequestCancelled("The node gave the request up.", hint="Send it again.")
                    end = stream.finish(chunk.reason)
                    self.finish_reason = end.reason
                    if deltas := self._allowed(end.deltas):
                        yield deltas

    def _allowed(self, deltas: list[ChatDelta]) -> list[ChatDelta]:
        if self.parallel:
            return deltas
        return [delta for delta in deltas if getattr(delta, "index", 0) == 0]

    @property
    def outcome(self) -> Finished:
        """The engine's last chunk."""
        assert self.finished is not None, "the deltas have not ended"
        return self.finished

    @property
    def reasoning_tokens(self) -> int | None:
        """Tokens of the thought; None for a model that does not think."""
        return self._reasoning_tokens if self.prompt.reasoning is not None else None

    def take_logprobs(self) -> list[PositionLogprobs]:
        """The log probabilities since the last time."""
        taken, self.logprobs = self.logprobs, []
        return taken
