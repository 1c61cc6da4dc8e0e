"""One chat answer while it is being computed: the engine's chunks to typed deltas, and what the end tells."""

import os
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field

from starlette.requests import Request

from meshllm_core.api.openai.context import Edge, Job, parameters_as, request_id
from meshllm_core.api.openai.schema_common import SamplingFields
from meshllm_core.api.openai.translate import Conversation, sampling_of
from meshllm_core.engine.types import Delta, Finished, GenerationRequest, PositionLogprobs, Started
from meshllm_core.errors import RequestCancelled
from meshllm_core.serve.chat_template import RenderedPrompt
from meshllm_core.serve.deltas import ChatDelta, ChatStream, ReasoningDelta
from meshllm_core.serve.tools import ToolSpec, callable_tools
from meshllm_core.state.events import FinishReason


@dataclass(frozen=True)
class Wanted:
    """What the two routes that chat spell differently."""

    names: Mapping[str, str]
    """What the fields of the layers below are called on the route."""
    max_tokens: int | None
    top_logprobs: int | None
    stop: tuple[str, ...] = ()
    grammar: str = ""
    session: str = ""


async def start_run(
    request: Request, body: SamplingFields, conversation: Conversation, wanted: Wanted
) -> "ChatRun":
    """A run that is ready to begin. Raises InvalidRequest and its kinds, ModelUnknown, ModelNotReady."""
    edge = Edge.of(request)
    model, engine = await edge.resolve_generating(body.model)
    with parameters_as(wanted.names):
        prompt = await conversation.render(engine.facts)
        constraints = conversation.constraints(prompt)
    default = edge.settings.default_max_tokens
    generation = GenerationRequest(
        request_id=request_id(request),
        prompt=prompt.text,
        add_special=not prompt.adds_bos,
        max_tokens=default if wanted.max_tokens is None else wanted.max_tokens,
        sampling=sampling_of(body, engine.facts),
        stop=wanted.stop + prompt.stops,
        grammar=wanted.grammar,
        visible_special=prompt.visible_special,
        top_logprobs=wanted.top_logprobs,
        ignore_eos=bool(body.ignore_eos),
        session=wanted.session,
        **constraints,
    )
    job = Job(edge, model, engine, generation, request.url.path, int(time.time()), wanted.names)
    tools = callable_tools(conversation.tools, conversation.choice)
    return ChatRun(job, prompt, tools, conversation.parallel)


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
                    self.job.answered.begun(chunk)
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
