"""Joins router and engines: the one place where a request waits for tokens and its figures are noted."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from typing import cast

import msgspec

from meshllm_core.engine.base import StageEngine
from meshllm_core.engine.types import Chunk, Delta, Finished, GenerationRequest, Started
from meshllm_core.errors import MeshError, ModelNotReady, ModelUnknown, RequestCancelled
from meshllm_core.ids import ModelId, NodeId, RequestId
from meshllm_core.serve.catalogue import ListedModel, catalogue
from meshllm_core.serve.mesh_engine import HERE, MeshEngine
from meshllm_core.serve.peers import NoPeers, Peers
from meshllm_core.serve.replicas import Replicas
from meshllm_core.serve.router import AUTO, Choice, HostedModel, Need, choose, not_ready, unknown
from meshllm_core.serve.served import ServedBy
from meshllm_core.state.events import AnyEvent, FinishReason, NoticeLogged, RequestFinished, RequestStarted

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
    """What the HTTP edge and other nodes' calls talk to. `hosted` is owned by the node and read here."""

    hosted: Mapping[ModelId, HostedModel]
    append: Append
    accepting: bool = field(default=True)
    """False while the node stops: new requests are refused, running ones finish."""
    peers: Peers = field(default_factory=NoPeers)
    """Given once; what it lists may change at any time."""
    name: str = ""
    """Of this node, for a person: answers say who served them. Empty: they do not."""
    node: NodeId = HERE
    """This node's id."""
    created: int = field(default_factory=lambda: int(time.time()))
    """Seconds since the epoch; models of other nodes are listed with it."""

    def __post_init__(self) -> None:
        self.replicas = Replicas(self.peers)
        self._routed: dict[RequestId, MeshEngine] = {}

    @property
    def here(self) -> ServedBy:
        """This node as one that computes."""
        return ServedBy.named(self.name, self.node)

    def models(self) -> tuple[HostedModel, ...]:
        """All models of this node, ready or not, in the order they were asked for."""
        return tuple(self.hosted.values())

    def catalogue(self) -> list[ListedModel]:
        """All models that a request may name, each once: this node's own, then those of the mesh."""
        return catalogue(
            self.models(),
            self.replicas.all(),
            here=self.here,
            created=self.created,
            known=self.replicas.known_facts,
        )

    # Which model ----------------------------------------------------------------------------

    async def resolve(self, name: str, need: Need = "any") -> tuple[HostedModel, StageEngine]:
        """The model that `name` means and what computes it, here or on other nodes; `auto` takes one that
        can do what is needed.

        Waits only for another node's word on a model that is not here. Raises ModelUnknown, ModelNotReady.
        """
        self._check_accepting()
        replicas = self.replicas.all()
        if name == AUTO:
            replicas = self.replicas.usable(replicas) or replicas
        try:
            choice = choose(self.hosted, name, need, replicas)
        except ModelUnknown:
            if node := self.replicas.gone(name):
                raise ModelNotReady(
                    f"No node that serves {name} can be reached now. {node} served it last.",
                    hint="See `meshllm status`.",
                    retry_after=5,
                ) from None
            raise
        return await self._engine(choice)

    async def _engine(self, choice: Choice) -> tuple[HostedModel, StageEngine]:
        local = choice.local.engine if choice.local is not None else None
        if local is not None and choice.local is not None and not choice.replicas:
            return choice.local, local

        def warn(text: str) -> None:
            self.append(NoticeLogged(at=time.time(), level="warning", source=choice.name, text=text))

        facts = local.facts if local is not None else await self.replicas.facts_of(choice, warn)
        engine = MeshEngine(choice.name, facts, self.replicas, here=self.here, local=local, on_move=warn)
        return choice.local or HostedModel(choice.name, self.created, "ready", engine), engine

    def local(self, name: str) -> tuple[HostedModel, StageEngine]:
        """The model of exactly that name, if its engine is here. Raises ModelUnknown, ModelNotReady."""
        self._check_accepting()
        model = self.hosted.get(ModelId(name))
        if model is None:
            raise unknown(name, [m.id for m in self.hosted.values() if m.status != "failed"])
        if model.engine is None or model.status != "ready":
            raise not_ready(model)
        return model, model.engine

    def served(self, engine: StageEngine) -> ServedBy:
        """Who answered by `engine`; right once something was answered."""
        return engine.served if isinstance(engine, MeshEngine) else self.here

    def _check_accepting(self) -> None:
        if not self.accepting:
            raise ModelNotReady("This node is stopping.", hint="Start it again with `meshllm serve`.")

    # Computing ------------------------------------------------------------------------------

    async def generate(
        self,
        model: HostedModel,
        engine: StageEngine,
        request: GenerationRequest,
        *,
        route: str,
        asked_by: str = "",
    ) -> AsyncGenerator[Chunk, None]:
        """The engine's chunks, with the request noted in the event log. Closing it cancels the request.

        Where a request may still go on to another node, its Started waits for what follows it, so that it
        names the node that answers.
        """
        figures = _Figures(began=time.monotonic())
        waiting: Started | None = None
        try:
            with self._counted(model, engine, request):
                chunks = cast(AsyncGenerator[Chunk, None], engine.generate(request))
                async with aclosing(chunks):
                    async for chunk in chunks:
                        if isinstance(chunk, Started):
                            chunk = self._signed(chunk)
                            self._note_start(figures, chunk, model, request, route, asked_by)
                            if isinstance(engine, MeshEngine):
                                waiting = chunk
                                continue
                        else:
                            self._note(figures, chunk)
                            if waiting is not None:
                                yield waiting
                                waiting = None
                        yield chunk
        except RequestCancelled:
            raise
        except MeshError as error:
            figures.reason, figures.error = "error", str(error)
            raise
        finally:
            self._note_end(figures, model, request)

    def cancel(self, request: RequestId) -> bool:
        """Cancel a request that another node computes; False when there is none of that id."""
        engine = self._routed.get(request)
        return engine is not None and engine.cancel()

    def _counted(self, model: HostedModel, engine: StageEngine, request: GenerationRequest) -> ExitStack:
        stack = ExitStack()
        if isinstance(engine, MeshEngine):
            self._routed[request.request_id] = engine
            stack.callback(self._routed.pop, request.request_id, None)
        else:
            stack.enter_context(self.replicas.counted((HERE, model.id)))
        return stack

    def _signed(self, started: Started) -> Started:
        if started.hops or not (self.name or self.node):
            return started
        return msgspec.structs.replace(started, served_by=self.name, served_by_id=self.node.hex())

    # The event log --------------------------------------------------------------------------

    def _note(self, figures: _Figures, chunk: Delta | Finished) -> None:
        if isinstance(chunk, Delta):
            figures.first_token = figures.first_token or time.monotonic()
            figures.tokens += chunk.tokens
        else:
            figures.finished = chunk
            figures.reason = chunk.reason

    def _note_start(
        self,
        figures: _Figures,
        started: Started,
        model: HostedModel,
        request: GenerationRequest,
        route: str,
        asked_by: str,
    ) -> None:
        figures.started = started
        self.append(
            RequestStarted(
                at=time.time(),
                request=request.request_id,
                model=model.id,
                route=route,
                prompt_tokens=started.prompt_tokens,
                served_by=started.served_by if started.hops else "",
                asked_by=asked_by,
            )
        )

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
