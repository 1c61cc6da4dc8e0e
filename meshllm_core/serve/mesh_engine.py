"""One model wherever it is, as a StageEngine: this node's own engine and the replicas on others.

A request goes to one place after the other until one gives a first piece of the answer; from then on it
stays. Made for one request.
"""

import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar, cast

from meshllm_core.engine.base import StageEngine
from meshllm_core.engine.types import Chunk, GenerationRequest, ModelFacts, Started
from meshllm_core.errors import (
    ContextLengthExceeded,
    InvalidRequest,
    MeshError,
    ModelNotReady,
    ModelUnknown,
    Overloaded,
    RequestCancelled,
    RequestError,
)
from meshllm_core.ids import NodeId
from meshllm_core.serve.affinity import keys_of
from meshllm_core.serve.health import Key
from meshllm_core.serve.peers import Replica
from meshllm_core.serve.ranking import Ranked, rank
from meshllm_core.serve.remote import RemoteEngine
from meshllm_core.serve.replicas import OnMove, Replicas, key_of
from meshllm_core.serve.served import ServedBy
from meshllm_core.wire import limits

MOST_PLACES = 8
"""Places that one request is tried at."""
TOKEN_LENGTH = 4
"""Characters of a token, roughly: only to weigh a prompt."""
HERE = NodeId(b"")

_log = logging.getLogger(__name__)
Result = TypeVar("Result")


@dataclass(frozen=True)
class _Place:
    """Where a request may go."""

    key: Key
    name: str
    engine: StageEngine
    context: int
    served: ServedBy
    ranked: Ranked | None = None
    """None: this node."""


@dataclass
class _Refusals:
    """Why the places that were tried did not take the request."""

    full: list[tuple[Overloaded, float]] = field(default_factory=list)
    others: list[MeshError] = field(default_factory=list)

    def add(self, error: MeshError, place: _Place) -> None:
        if isinstance(error, Overloaded):
            self.full.append((error, place.ranked.wait_seconds if place.ranked else 0.0))
        else:
            self.others.append(error)

    def error(self, model: str, rest: Callable[[], tuple[float, str]]) -> MeshError:
        """What the client is told."""
        if self.full:
            seconds = min(max(error.retry_after, math.ceil(wait)) for error, wait in self.full)
            if len(self.full) == 1 and not self.others:
                text = self.full[0][0].message
            else:
                text = f"All nodes that serve {model} are busy."
            return Overloaded(text, hint="Try again in a moment.", retry_after=seconds)
        if (fault := next((e for e in self.others if isinstance(e, InvalidRequest)), None)) is not None:
            return fault
        rests, why = rest()
        reasons = " ".join(dict.fromkeys(error.message for error in self.others)) or why
        return ModelNotReady(
            f"No node that serves {model} can answer now. {reasons}".strip(),
            hint="See `meshllm status`.",
            retry_after=max(1, math.ceil(rests)),
        )


class MeshEngine:
    """See StageEngine. `facts` are those that the prompt was made with: only replicas of that very model are
    asked.
    """

    def __init__(
        self,
        name: str,
        facts: ModelFacts,
        replicas: Replicas,
        *,
        here: ServedBy,
        local: StageEngine | None = None,
        on_move: OnMove = lambda _: None,
    ) -> None:
        self._name = name
        self._facts = facts
        self._replicas = replicas
        self._here = here
        self._local = local
        self._on_move = on_move
        self._running: StageEngine | None = None
        self._cancelled = False
        self.served = here
        """Who served it; right once something was answered."""

    @property
    def facts(self) -> ModelFacts:
        """See StageEngine.facts."""
        return self._facts

    def cancel(self) -> bool:
        """End the request from outside its stream; False when this node's own engine has it."""
        if self._running is not None and not isinstance(self._running, RemoteEngine):
            return False
        self._cancelled = True
        if isinstance(self._running, RemoteEngine):
            self._running.cancel()
        return True

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Chunk, None]:
        """See StageEngine.generate; but Started comes again when the request went on to another place."""
        keys = keys_of(self._name, request)
        prompt_tokens = len(request.prompt) // (TOKEN_LENGTH if isinstance(request.prompt, str) else 1)
        refusals = _Refusals()
        context = 0
        for place in self._places(keys, prompt_tokens):
            if self._cancelled:
                raise RequestCancelled("The request was cancelled.")
            if context and place.context <= context:
                continue
            begun = False
            with self._at(place):
                try:
                    chunks = cast(AsyncGenerator[Chunk, None], place.engine.generate(request))
                    async with aclosing(chunks):
                        async for chunk in chunks:
                            if not begun and not isinstance(chunk, Started):
                                begun = True
                                self._took(place, keys)
                            yield chunk
                    return
                except MeshError as error:
                    self._failed(place, error, begun=begun)
                    refusals.add(error, place)
                    if isinstance(error, ContextLengthExceeded):
                        context = place.context
        raise refusals.error(self._name, self._rest)

    async def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> tuple[int, ...]:
        """See StageEngine.tokenize."""
        return await self._first(
            lambda engine: engine.tokenize(text, add_special=add_special, parse_special=parse_special)
        )

    async def detokenize(self, tokens: Sequence[int]) -> str:
        """See StageEngine.detokenize."""
        return await self._first(lambda engine: engine.detokenize(tokens))

    async def embed(self, inputs: Sequence[str | tuple[int, ...]]) -> tuple[tuple[list[float], int], ...]:
        """See StageEngine.embed."""
        return await self._first(lambda engine: engine.embed(inputs))

    async def _first(self, ask: Callable[[StageEngine], Awaitable[Result]]) -> Result:
        refusals = _Refusals()
        for place in self._places([], 0):
            with self._at(place):
                try:
                    result = await ask(place.engine)
                except MeshError as error:
                    self._failed(place, error, begun=False)
                    refusals.add(error, place)
                else:
                    self._took(place, [])
                    return result
        raise refusals.error(self._name, self._rest)

    # Where to -------------------------------------------------------------------------------

    def _places(self, keys: Sequence[bytes], prompt_tokens: int) -> list[_Place]:
        """This node first while it has a free lane, or nobody else has; then the quickest."""
        replicas = self._replicas
        last = replicas.affinity.last(keys, replicas.now())
        ranked = rank(
            replicas.usable(self._same()), ours=replicas.ours, prompt_tokens=prompt_tokens, last=last
        )
        places = [self._remote(one) for one in ranked[:MOST_PLACES]]
        if self._local is not None:
            key = (HERE, self._name)
            place = _Place(key, self._here.name, self._local, self._local.facts.context, self._here)
            has_lane = replicas.busy[key] < max(1, self._local.facts.lanes)
            free = next((i + 1 for i, one in enumerate(ranked[:MOST_PLACES]) if one.free), 0)
            places.insert(0 if has_lane else free, place)
        return places

    def _same(self) -> list[Replica]:
        """The replicas whose model is the one that `facts` describe, as far as can be seen."""
        architecture = self._facts.architecture[: limits.VERSION]
        return [
            replica
            for replica in self._replicas.all()
            if replica.offer.name == self._name
            and replica.offer.status == "ready"
            and replica.offer.architecture == architecture
            and replica.offer.parameters == self._facts.parameters
        ]

    def _remote(self, ranked: Ranked) -> _Place:
        replica = ranked.replica
        return _Place(
            key_of(replica),
            replica.name,
            RemoteEngine(self._replicas.peers, replica, self._facts),
            replica.offer.context,
            ServedBy.named(replica.name, replica.node, hops=1),
            ranked,
        )

    # How it went ----------------------------------------------------------------------------

    @contextmanager
    def _at(self, place: _Place) -> Iterator[None]:
        self._running = place.engine
        try:
            with self._replicas.counted(place.key), self._replicas.health.attempt(place.key):
                yield
        finally:
            self._running = None

    def _took(self, place: _Place, keys: Sequence[bytes]) -> None:
        self.served = place.served
        self._replicas.health.succeeded(place.key)
        self._replicas.affinity.served(keys, NodeId(place.key[0]), self._replicas.now())

    def _failed(self, place: _Place, error: MeshError, *, begun: bool) -> None:
        """Note a failure. Raises it when the request is at fault, or it is too late for another place."""
        gone = isinstance(error, ModelNotReady | ModelUnknown)
        blamed = place.ranked is not None and (gone or not isinstance(error, RequestError))
        if blamed:
            self._replicas.health.failed(place.key, self._replicas.now(), error.message)
        if begun or not _elsewhere(error):
            raise error
        if isinstance(error, Overloaded | ContextLengthExceeded):
            return
        _log.warning("%s did not answer for %s: %s", place.name, self._name, error)
        self._on_move(f"{place.name} did not answer a request: {error.message}")

    def _rest(self) -> tuple[float, str]:
        """Seconds until the first of the replicas may be tried again, and what is wrong with it."""
        health, now = self._replicas.health, self._replicas.now()
        resting = [(health.rests(key, now), health.why(key)) for key in map(key_of, self._same())]
        return min(resting, default=(5.0, ""))


def _elsewhere(error: MeshError) -> bool:
    """Whether the same request may go well at another place: not if the request itself is at fault."""
    passing = Overloaded | ModelNotReady | ModelUnknown | ContextLengthExceeded
    return isinstance(error, passing) or not isinstance(error, RequestError)
