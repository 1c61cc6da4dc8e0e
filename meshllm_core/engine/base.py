"""The seam between serving and computing: implemented by the supervised child, and by fakes in tests."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from meshllm_core.engine.types import Chunk, GenerationRequest, ModelFacts


class StageEngine(Protocol):
    """A loaded model that computes. All methods may raise EngineExited when its process ends."""

    @property
    def facts(self) -> ModelFacts:
        """What the model says of itself."""

    def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """Started, then deltas, then Finished. Closing the iterator early cancels the request.

        Raises InvalidRequest, ContextLengthExceeded, Overloaded.
        """

    async def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> tuple[int, ...]:
        """Token ids of a text."""

    async def detokenize(self, tokens: Sequence[int]) -> str:
        """Text of token ids; bytes that are not UTF-8 become U+FFFD."""

    async def embed(self, inputs: Sequence[str | tuple[int, ...]]) -> tuple[tuple[list[float], int], ...]:
        """For each input its embedding (length `facts.width`, unit norm) and its token count."""
