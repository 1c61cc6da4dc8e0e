"""Joins router and engine: the one place where a request waits for tokens and its figures are noted."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

from meshllm_core.engine.base import StageEngine
from meshllm_core.engine.types import Chunk, Delta, Finished, GenerationRequest, ModelFacts, Started
from meshllm_core.errors import MeshError, ModelNotReady
from meshllm_core.ids import ModelId
from meshllm_core.serve.router import HostedModel, choose
from meshllm_core.state.events import AnyEvent, FinishReason, RequestFinished, RequestStarted

Append = Callable[[AnyEvent], None]


@dataclass
class _Figures:
    """What is known of one request so far."""

    began: float
    started: Started | None = None
    first_token: float = 0.0
    tokens: int = 0
    finished: Finished | None = None
    reason: FinishReason = "cancelled"
    error: str = ""


@dataclass
class InferenceService:
    """What the HTTP edge talks to. `hosted` is owned by the node and read here."""

    hosted: Mapping[ModelId, HostedModel]
    append: Append
    accepting: bool = field(default=True)
    """False while the node stops: new requests are refused, running ones finish."""

    def models(self) -> tuple[HostedModel, ...]:
        """All models of this node, ready or not, in the order they were asked for."""
        return tuple(self.hosted.values())

    def resolve(
        self, name: str, able: Callable[[ModelFacts], bool] = lambda _: True
    ) -> tuple[HostedModel, StageEngine]:
        """The model that `name` means and its engine; `auto` takes one that is `able`.

        Raises ModelUnknown or ModelNotReady.
        """
        if not self.accepting:
            raise ModelNotReady("This node is stopping.", hint="Start it again with `meshllm serve`.")
        return choose(self.hosted, name, able)

    async def generate(
        self, model: HostedModel, engine: StageEngine, request: GenerationRequest, *, route: str
    ) -> AsyncIterator[Chunk]:
        """The engine's chunks, with the request noted in the event log. Closing it cancels the request."""
        figures = _Figures(began=time.monotonic())
        chunks = engine.generate(request)
        try:
            async for chunk in chunks:
                self._note(figures, chunk, model, request, route)
                yield chunk
        except MeshError as error:
            figures.reason, figures.error = "error", str(error)
            raise
        finally:
            await _close(chunks)
            self._note_end(figures, model, request)

    def _note(
        self, figures: _Figures, chunk: Chunk, model: HostedModel, request: GenerationRequest, route: str
    ) -> None:
        match chunk:
            case Started():
                figures.started = chunk
                self.append(
                    RequestStarted(
                        at=time.time(),
                        request=request.request_id,
                        model=model.id,
                        route=route,
                        prompt_tokens=chunk.prompt_tokens,
                    )
                )
            case Delta():
                figures.first_token = figures.first_token or time.monotonic()
                figures.tokens += chunk.tokens
            case Finished():
                figures.finished = chunk
                figures.reason = chunk.reason

    def _note_end(self, figures: _Figures, model: HostedModel, request: GenerationRequest) -> None:
        started = figures.started
        if started is None:
            return
        now = time.monotonic()
        tokens = figures.finished.completion_tokens if figures.finished else figures.tokens
        decode_seconds = now - figures.first_token if figures.first_token else 0.0
        self.append(
            RequestFinished(
                at=time.time(),
                request=request.request_id,
                model=model.id,
                reason=figures.reason,
                prompt_tokens=started.prompt_tokens,
                cached_tokens=started.cached_tokens,
                completion_tokens=tokens,
                queue_ms=started.queue_ms,
                first_token_ms=(figures.first_token - figures.began) * 1000 if figures.first_token else 0.0,
                total_ms=(now - figures.began) * 1000,
                decode_tokens_per_second=(tokens - 1) / decode_seconds
                if tokens > 1 and decode_seconds > 0
                else 0.0,
                error=figures.error,
            )
        )


async def _close(chunks: AsyncIterator[Chunk]) -> None:
    close = getattr(chunks, "aclose", None)
    if close is not None:
        await close()
