"""One request inside the engine, from its arrival to its last chunk."""

import time
from array import array
from dataclasses import dataclass, field

from meshllm_core.engine.grammar import grammar_of
from meshllm_core.engine.llama.model import Model
from meshllm_core.engine.llama.sampler import Sampler
from meshllm_core.engine.text import TextAssembler
from meshllm_core.engine.types import (
    Delta,
    Finished,
    GenerationRequest,
    PositionLogprobs,
    Started,
    StopReason,
    Timings,
)
from meshllm_core.errors import ContextLengthExceeded, InvalidRequest


@dataclass
class EngineJob:
    """A request with everything that computing it needs."""

    request: GenerationRequest
    tokens: "array[int]"
    """Prompt, then what was generated."""
    prompt_length: int
    limit: int
    """Most tokens to generate."""
    sampler: Sampler
    assembler: TextAssembler
    visible: frozenset[int]
    """Control tokens whose text is shown."""
    arrived: float = field(default_factory=time.monotonic)
    sequence: int = -1
    held: int = 0
    """Tokens that are in the KV cache."""
    cached: int = 0
    """Prompt tokens that were there before this request computed anything."""
    admitted: float = 0.0
    first_token: float = 0.0
    last_token: float = 0.0
    _new_tokens: int = 0
    _logprobs: list[PositionLogprobs] = field(default_factory=list)

    @property
    def generated(self) -> int:
        """Tokens generated so far."""
        return len(self.tokens) - self.prompt_length

    def missing(self) -> int:
        """Tokens not yet in the KV cache."""
        return len(self.tokens) - self.held

    def started(self) -> Started:
        """The first chunk."""
        return Started(
            request_id=self.request.request_id,
            prompt_tokens=self.prompt_length,
            cached_tokens=self.cached,
            queue_ms=(self.admitted - self.arrived) * 1000,
        )

    def take(self, token: int, piece: bytes, logprobs: PositionLogprobs | None, now: float) -> Delta | None:
        """A token was chosen; the text that became certain by it."""
        self.tokens.append(token)
        self.first_token = self.first_token or now
        self.last_token = now
        self._new_tokens += 1
        if logprobs is not None:
            self._logprobs.append(logprobs)
        text = self.assembler.feed(piece)
        self.sampler.note_text(text)
        return self._delta(text) if text else None

    def rest(self) -> Delta | None:
        """What was held back, at the end."""
        text = self.assembler.feed(b"", final=True)
        return self._delta(text) if text or self._new_tokens else None

    def _delta(self, text: str) -> Delta:
        delta = Delta(
            request_id=self.request.request_id,
            text=text,
            tokens=self._new_tokens,
            logprobs=tuple(self._logprobs),
        )
        self._new_tokens = 0
        self._logprobs = []
        return delta

    def finished(self, reason: StopReason) -> Finished:
        """The last chunk."""
        end = self.last_token or time.monotonic()
        first = self.first_token or end
        admitted = self.admitted or end
        return Finished(
            request_id=self.request.request_id,
            reason=reason,
            prompt_tokens=self.prompt_length,
            cached_tokens=self.cached,
            completion_tokens=self.generated,
            timings=Timings(
                queue_ms=(admitted - self.arrived) * 1000,
                prefill_ms=(first - admitted) * 1000,
                decode_ms=(end - first) * 1000,
            ),
            stop_text=self.assembler.stopped_by,
        )


def prepare(model: Model, request: GenerationRequest, context: int) -> EngineJob:
    """Tokenize and check. Raises InvalidRequest or ContextLengthExceeded; touches no KV cache."""
    tokens = _prompt_tokens(model, request)
    room = context - len(tokens)
    if room < 1 and request.max_tokens != 0:
        raise ContextLengthExceeded(
            f"The prompt has {len(tokens)} tokens; the context of this model is {context}.",
            hint="Shorten the prompt, or serve the model with a larger --ctx-size.",
            param="messages",
        )
    for token, _ in request.sampling.logit_bias:
        if not 0 <= token < model.n_vocab:
            raise InvalidRequest(
                f"logit_bias names token {token}; the vocabulary has {model.n_vocab}.", param="logit_bias"
            )
    sampler = Sampler(model, request, *grammar_of(request))
    sampler.feed_prompt(tokens)
    return EngineJob(
        request=request,
        tokens=tokens,
        prompt_length=len(tokens),
        limit=room if request.max_tokens is None else min(room, request.max_tokens),
        sampler=sampler,
        assembler=TextAssembler(request.stop),
        visible=model.control_token_ids(request.visible_special) if request.visible_special else frozenset(),
    )


def _prompt_tokens(model: Model, request: GenerationRequest) -> "array[int]":
    if isinstance(request.prompt, str):
        tokens = model.tokenize(
            request.prompt, add_special=request.add_special, parse_special=request.parse_special
        )
    else:
        wrong = next((t for t in request.prompt if not 0 <= t < model.n_vocab), None)
        if wrong is not None:
            raise InvalidRequest(
                f"The prompt holds token {wrong}; the vocabulary has {model.n_vocab}.", param="prompt"
            )
        tokens = array("i", request.prompt)
    if not tokens:
        raise InvalidRequest("The prompt is empty.", hint="Give at least one token.", param="prompt")
    return tokens
