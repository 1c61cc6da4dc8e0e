"""Holds an answer that another node computes to what was asked for. Pure."""

import math

from meshllm_core.engine.types import Chunk, Delta, Finished, GenerationRequest, Started

TOKEN_LENGTH = 128
"""Characters of a token, on the average of a whole answer."""
SPARE = 64 << 10
TEXT = 32 << 20
"""Characters of a whole answer, however long the model's context is said to be."""
_PIECE_LENGTH = 1024
"""Bytes of one token in the log probabilities."""
_COUNT = 1 << 31


class AnswerCheck:
    """For one answer, from its first chunk to its last."""

    def __init__(self, request: GenerationRequest, context: int) -> None:
        """`context` is how many tokens the model may use."""
        asked = request.max_tokens
        self._tokens = context if asked is None else min(asked, context)
        self._text = min(self._tokens * TOKEN_LENGTH + SPARE, TEXT)
        self._pieces = self._tokens + 64
        self._alternatives = request.top_logprobs
        self._positions = 0 if request.top_logprobs is None else self._tokens
        self._id: str | None = None

    def fault(self, chunk: Chunk) -> str:
        """What is wrong with the next chunk; empty if nothing is."""
        if isinstance(chunk, Started):
            if self._id is not None:
                return "a second beginning"
            self._id = chunk.request_id
            return _impossible((chunk.prompt_tokens, chunk.cached_tokens), (chunk.queue_ms,))
        if chunk.request_id != self._id:
            return "a piece of another answer"
        if isinstance(chunk, Finished):
            counts = (chunk.prompt_tokens, chunk.cached_tokens, chunk.completion_tokens)
            times = (chunk.timings.queue_ms, chunk.timings.prefill_ms, chunk.timings.decode_ms)
            return _impossible(counts, times)
        return self._delta_fault(chunk)

    def _delta_fault(self, delta: Delta) -> str:
        self._tokens -= delta.tokens
        self._text -= len(delta.text)
        self._pieces -= 1
        self._positions -= len(delta.logprobs)
        if delta.tokens < 0 or min(self._tokens, self._text, self._pieces, self._positions) < 0:
            return "more than was asked for"
        for position in delta.logprobs:
            if len(position.top) > (self._alternatives or 0):
                return "more alternatives than were asked for"
            if any(len(token.text) > _PIECE_LENGTH for token in (position.chosen, *position.top)):
                return "a token of impossible length"
        return ""


def _impossible(counts: tuple[int, ...], times: tuple[float, ...]) -> str:
    if all(0 <= count < _COUNT for count in counts) and all(0 <= t < math.inf for t in times):
        return ""
    return "figures that cannot be"
