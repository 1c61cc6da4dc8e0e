"""The serving side of a call: another node's request to a model of this one, and to no other.

A call has three tasks whatever its length: one takes chunks from the engine, one sends them (as many as are
ready in one frame), one notices that the asking side gave the call up, which frees the lane at once.
"""

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import msgspec

from meshllm_core.engine.base import StageEngine
from meshllm_core.engine.types import Chunk, Delta, Finished, GenerationRequest, Started
from meshllm_core.errors import (
    LinkClosed,
    MeshError,
    ModelNotReady,
    Overloaded,
    WireError,
    describe,
)
from meshllm_core.ids import NodeId, RequestId, short
from meshllm_core.serve import calls
from meshllm_core.serve.call_checks import check_generation, check_inputs, check_text, check_tokens
from meshllm_core.serve.router import HostedModel
from meshllm_core.serve.timer import IdleTimer
from meshllm_core.transport.link import Channel
from meshllm_core.wire import limits as sizes

ASK_SECONDS = 10.0
"""So long an open channel may wait for its question."""
FIRST_SECONDS, ALIVE_SECONDS = 1.0, 5.0
"""A call that has nothing to say says so after the first and then this often: so a node that is gone is told
from a queue and from a long prompt."""
TAKE_SECONDS = 600.0
"""An asking side that takes nothing for so long is given up."""
LINGER_SECONDS = 5.0
"""So long the channel stays for the other side to take the end."""
PENDING = 64
"""Pieces that wait to be sent; then the engine's wait too, where deltas are merged."""
CLOSED_RETRY_SECONDS = 30
MESH_ROUTE = "mesh"

_log = logging.getLogger(__name__)
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Asker:
    """Who asks."""

    name: str
    """For a person; cleaned."""
    node: NodeId
    public: bool = False
    """Let in by open admission: it may only take a share of each model."""


class LocalModels(Protocol):
    """This node's own models."""

    def local(self, name: str) -> tuple[HostedModel, StageEngine]:
        """The model of exactly that name, if its engine is here. Raises ModelUnknown, ModelNotReady."""

    def generate(
        self,
        model: HostedModel,
        engine: StageEngine,
        request: GenerationRequest,
        *,
        route: str,
        asked_by: str = "",
    ) -> AsyncGenerator[Chunk, None]:
        """The engine's chunks, noted in the event log."""


@dataclass
class CallLimits:
    """How much other nodes may ask at the same time. One for the whole node."""

    per_peer: int = sizes.CALLS_PER_PEER
    total: int = 256
    """Of all peers."""
    public_share: float = 0.5
    """Part of a model's lanes that guests of a public mesh may have together, at least one lane."""
    closed: Callable[[], str] = lambda: ""
    """Why no call is taken now, in a sentence; empty: calls are taken."""
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _calls: Counter[NodeId] = field(default_factory=Counter)
    _public: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def call(self, asker: Asker) -> Iterator[None]:
        """A place for a call of `asker`. Raises Overloaded when there is none, ModelNotReady while closed."""
        if why := self.closed():
            raise ModelNotReady(why, retry_after=CLOSED_RETRY_SECONDS)
        if self._calls[asker.node] >= self.per_peer:
            raise Overloaded(f"{self.per_peer} calls of {asker.name} are open already.", retry_after=2)
        if self._calls.total() >= self.total:
            raise Overloaded(f"{self.total} calls of other nodes are open already.", retry_after=2)
        with _counted(self._calls, asker.node):
            yield

    @contextmanager
    def lane(self, asker: Asker, model: HostedModel, lanes: int) -> Iterator[None]:
        """A place in a model's queue. Raises Overloaded when guests have their share of it already."""
        if not asker.public:
            yield
            return
        share = max(1, int(lanes * self.public_share))
        if self._public[model.id] >= share:
            raise Overloaded(f"All {share} lanes that guests may use of {model.id} are busy.", retry_after=5)
        with _counted(self._public, model.id):
            yield


@contextmanager
def _counted(counts: "Counter[Key]", key: Key) -> Iterator[None]:
    counts[key] += 1
    try:
        yield
    finally:
        counts[key] -= 1
        if not counts[key]:
            del counts[key]


async def answer(
    channel: Channel, asker: Asker, service: LocalModels, limits: CallLimits, first: bytes = b""
) -> None:
    """Takes one call from its question to its end. Raises nothing but cancellation.

    `first` is the question where it was read already.
    """
    call = _Call(channel, asker, service, limits, first)
    try:
        with limits.call(asker):
            await call.run()
        await call.linger()
    except MeshError as error:
        await call.refuse(error)
    finally:
        channel.abort()
        await call.close()


class _Call:
    def __init__(
        self, channel: Channel, asker: Asker, service: LocalModels, limits: CallLimits, first: bytes
    ) -> None:
        self._channel = channel
        self._first = first
        self._asker = asker
        self._service = service
        self._limits = limits
        self._pending: list[Chunk | calls.Reply] = []
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Raises what is to be told to the other side."""
        self._channel.limit = sizes.CALL_FRAME
        ask = await self._question()
        producing = asyncio.create_task(self._produce(ask))
        self._watching = watching = asyncio.create_task(self._watch())
        for task in (producing, watching):
            task.add_done_callback(lambda _: self._wake.set())
        timer = IdleTimer(FIRST_SECONDS, self._wake.set)
        try:
            await self._write(producing, watching, timer)
        finally:
            timer.cancel()
            producing.cancel()
            await asyncio.gather(producing, return_exceptions=True)

    async def linger(self) -> None:
        """Gives the other side time to take the last frames."""
        if self._watching is None:
            return
        with suppress(LinkClosed):
            await self._channel.finish()
        await asyncio.wait({self._watching}, timeout=LINGER_SECONDS)

    async def close(self) -> None:
        """Nobody watches the channel any more."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def refuse(self, error: MeshError) -> None:
        """Tell the other side, if it is still there."""
        if isinstance(error, LinkClosed):
            return
        with suppress(LinkClosed, TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await self._channel.send(calls.encode(calls.refusal_of(error)))
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        await self.linger()

    async def _question(self) -> calls.Ask:
        if self._first:
            return calls.decode_ask(self._first)
        try:
            async with asyncio.timeout(ASK_SECONDS):
                body = await self._channel.receive()
        except TimeoutError as error:
            raise WireError(f"Nothing was asked within {ASK_SECONDS:.0f} s.") from error
        if body is None:
            raise LinkClosed(f"{self._asker.name} asked nothing.")
        return calls.decode_ask(body)

    async def _watch(self) -> None:
        """Until the other side goes away or says something out of turn."""
        with suppress(LinkClosed, WireError):
            await self._channel.receive()

    # Sending --------------------------------------------------------------------------------

    async def _write(
        self, producing: "asyncio.Task[None]", watching: "asyncio.Task[None]", timer: IdleTimer
    ) -> None:
        while not watching.done():
            ended = producing.done()
            for frame in _frames(self._take()):
                await self._send(frame, timer)
            if ended:
                if (fault := producing.exception()) is not None:
                    raise _told(fault)
                return
            if timer.due:
                await self._send(calls.encode(calls.Alive()), timer)
            await self._wake.wait()
            self._wake.clear()
        raise LinkClosed(f"{self._asker.name} gave the call up.")

    def _take(self) -> "list[Chunk | calls.Reply]":
        taken, self._pending = self._pending, []
        self._room.set()
        return taken

    async def _send(self, frame: bytes, timer: IdleTimer) -> None:
        try:
            async with asyncio.timeout(TAKE_SECONDS):
                await self._channel.send(frame)
        except TimeoutError as error:
            raise LinkClosed(f"{self._asker.name} took nothing for {TAKE_SECONDS:.0f} s.") from error
        timer.interval = ALIVE_SECONDS
        timer.restart()

    # Computing ------------------------------------------------------------------------------

    async def _put(self, piece: "Chunk | calls.Reply") -> None:
        self._pending.append(piece)
        self._wake.set()
        if len(self._pending) >= PENDING:
            self._room.clear()
            await self._room.wait()

    async def _produce(self, ask: calls.Ask) -> None:
        model, engine = self._service.local(ask.model)
        facts = engine.facts
        match ask:
            case calls.AskFacts():
                await self._put(calls.Facts(facts))
            case calls.Generate():
                check_generation(ask.request, facts)
                with self._limits.lane(self._asker, model, facts.lanes):
                    await self._generate(model, engine, ask.request)
            case calls.Tokenize():
                check_text(ask.text, "content")
                tokens = await engine.tokenize(
                    ask.text, add_special=ask.add_special, parse_special=ask.parse_special
                )
                await self._put(calls.Tokens(tokens))
            case calls.Detokenize():
                check_tokens(ask.tokens, facts, "tokens")
                await self._put(calls.Text(await engine.detokenize(ask.tokens)))
            case calls.Embed():
                check_inputs(ask.inputs, facts)
                with self._limits.lane(self._asker, model, facts.lanes):
                    results = await engine.embed(ask.inputs)
                size = max(1, calls.VECTORS_FRAME // (facts.width * 4))
                for start in range(0, len(results), size):
                    part = results[start : start + size]
                    vectors = tuple((calls.pack(vector), count) for vector, count in part)
                    await self._put(calls.Vectors(vectors))

    async def _generate(self, model: HostedModel, engine: StageEngine, request: GenerationRequest) -> None:
        # Two nodes may use one id at a time, and a hostile one that of somebody else's request.
        unique = f"{request.request_id}@{short(self._asker.node)}.{next(self._limits.numbers)}"
        own = msgspec.structs.replace(request, request_id=RequestId(unique), session="")
        chunks = self._service.generate(model, engine, own, route=MESH_ROUTE, asked_by=self._asker.name)
        async with aclosing(chunks):
            async for chunk in chunks:
                await self._put(chunk)


def _frames(pieces: "list[Chunk | calls.Reply]") -> Iterator[bytes]:
    """Chunks together in one frame, other replies each in its own."""
    chunks = tuple(piece for piece in pieces if isinstance(piece, Started | Delta | Finished))
    if chunks:
        yield calls.encode(calls.Chunks(chunks))
    for piece in pieces:
        if not isinstance(piece, Started | Delta | Finished):
            yield calls.encode(piece)


def _told(fault: BaseException) -> MeshError:
    """What the other side is told; of faults inside this node only that there was one."""
    if isinstance(fault, MeshError):
        return fault
    _log.error("A call of another node failed: %s", describe(fault), exc_info=fault)
    return MeshError("The node failed while it answered.", hint="Its log says why; please report it.")
