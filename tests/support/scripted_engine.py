"""A StageEngine that says what a test tells it to: real implementation of the seam, no model behind it."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from meshllm_core.engine.types import (
    Chunk,
    Delta,
    Finished,
    GenerationRequest,
    ModelFacts,
    PositionLogprobs,
    Started,
    StopReason,
    Timings,
)
from meshllm_core.errors import InvalidRequest, MeshError

FACTS = ModelFacts(
    architecture="scripted",
    name="Scripted",
    parameters=1_000,
    vocabulary=1_114_112,
    width=4,
    layers=1,
    context_trained=4_096,
    context=4_096,
    lanes=4,
    chat_template="",
    bos_text="",
    eos_text="<|im_end|>",
    adds_bos=False,
    embeddings=False,
    generates=True,
    device="CPU",
    llama_cpp="0.0.0",
)
"""Facts of a small chat model without a template; change some with `msgspec.structs.replace`."""


@dataclass(frozen=True)
class Pause:
    """Wait that many seconds before the next step."""

    seconds: float


@dataclass(frozen=True)
class Piece:
    """A delta of the given text; one token unless told otherwise."""

    text: str
    tokens: int = 1
    logprobs: tuple[PositionLogprobs, ...] = ()


@dataclass(frozen=True)
class Wait:
    """Wait until the test sets the event."""

    event: asyncio.Event


Step = str | Piece | Pause | Wait | MeshError
"""A text (a delta of one token), a delta, a pause, or an error that is raised at this place."""


@dataclass(frozen=True)
class Script:
    """One answer. Steps before the first delta happen after Started; `refusal` is raised instead of it."""

    steps: Sequence[Step] = ("Hello", " there", ".")
    reason: StopReason = "stop"
    stop_text: str = ""
    cached_tokens: int = 0
    refusal: MeshError | None = None


@dataclass
class ScriptedEngine:
    """Tokens are characters: a text's token ids are its code points.

    `scripts` are used in order, the last one again and again; a request whose prompt is a key of
    `by_prompt` gets that script instead.
    """

    scripts: Sequence[Script] = (Script(),)
    by_prompt: Mapping[str, Script] = field(default_factory=dict)
    facts: ModelFacts = FACTS
    requests: list[GenerationRequest] = field(default_factory=list)
    """All requests so far, for a test to look at."""
    cancelled: list[str] = field(default_factory=list)
    """Ids of the requests whose iterator was closed before its end."""
    running: int = 0
    """Requests that have begun and not ended."""

    async def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        script = self._script(request)
        self.requests.append(request)
        if script.refusal is not None:
            raise script.refusal
        self.running += 1
        ended = False
        try:
            prompt_tokens = len(request.prompt)
            yield Started(
                request_id=request.request_id,
                prompt_tokens=prompt_tokens,
                cached_tokens=script.cached_tokens,
                queue_ms=0.0,
            )
            tokens, reason = 0, script.reason
            for step in script.steps:
                delta = await self._perform(step, request)
                if delta is None:
                    continue
                if request.max_tokens is not None and tokens + delta.tokens > request.max_tokens:
                    reason = "length"
                    break
                tokens += delta.tokens
                yield delta
            ended = True
            yield Finished(
                request_id=request.request_id,
                reason=reason,
                prompt_tokens=prompt_tokens,
                cached_tokens=script.cached_tokens,
                completion_tokens=tokens,
                timings=Timings(queue_ms=0.0, prefill_ms=1.0, decode_ms=float(tokens)),
                stop_text=script.stop_text if reason == "stop" else "",
            )
        except MeshError:
            ended = True
            raise
        finally:
            self.running -= 1
            if not ended:
                self.cancelled.append(request.request_id)

    async def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> tuple[int, ...]:
        return tuple(map(ord, text))

    async def detokenize(self, tokens: Sequence[int]) -> str:
        return "".join(map(chr, tokens))

    async def embed(self, inputs: Sequence[str | tuple[int, ...]]) -> tuple[tuple[list[float], int], ...]:
        if not self.facts.embeddings:
            raise InvalidRequest(f"The model {self.facts.name} does not make embeddings.", param="model")
        unit = [1.0] + [0.0] * (self.facts.width - 1)
        return tuple((list(unit), len(text)) for text in inputs)

    def _script(self, request: GenerationRequest) -> Script:
        if isinstance(request.prompt, str) and request.prompt in self.by_prompt:
            return self.by_prompt[request.prompt]
        return self.scripts[min(len(self.requests), len(self.scripts) - 1)]

    async def _perform(self, step: Step, request: GenerationRequest) -> Delta | None:
        match step:
            case MeshError():
                raise step
            case Pause(seconds):
                await asyncio.sleep(seconds)
                return None
            case Wait(event):
                await event.wait()
                return None
            case Piece(text, tokens, logprobs):
                return Delta(request_id=request.request_id, text=text, tokens=tokens, logprobs=logprobs)
            case str():
                return Delta(request_id=request.request_id, text=step, tokens=1)
