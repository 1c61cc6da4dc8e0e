"""A model on another node as a StageEngine: the asking side of a call.

What comes back is checked as what any stranger sends: sizes, order, and never more than was asked for.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import msgspec

from meshllm_core.engine.types import Chunk, Finished, GenerationRequest, ModelFacts, Started
from meshllm_core.errors import (
    EngineTimeout,
    LinkClosed,
    MeshError,
    PeerUnreachable,
    RequestCancelled,
    WireError,
)
from meshllm_core.serve import calls
from meshllm_core.serve.answer_check import AnswerCheck
from meshllm_core.serve.peers import Peers, Replica
from meshllm_core.transport.link import Channel
from meshllm_core.wire import limits

OPEN_SECONDS = 3.0
FIRST_SECONDS, SILENCE_SECONDS = 5.0, 15.0
"""A node that says nothing for so long is gone, at first and later: one that works or waits says so after 1 s
and then every 5 s."""
END_SECONDS = 0.5
"""So long the other side's end, which leaves together with its last frame, is waited for."""
STALLED_SECONDS = 900.0
"""So long a node may say that it is alive and give nothing …"""
FACTS_SECONDS, TOKENIZE_SECONDS = 5.0, 60.0
"""… to a question that needs no lane, …"""
FREE_SECONDS = 30.0
"""… while it tells everybody that a lane is free, …"""
PROMPT_SECONDS, PROMPT_FACTOR = 60.0, 10.0
"""… with a lane, before the first piece: this, and the factor times what the prompt takes by its figures."""
PROMPT_RATE = 80.0
"""Tokens a second of a prompt, where a node has not measured it."""
ALIVE_SECONDS, ALIVES = 0.2, 20
"""So many words of life may follow each other faster than that."""
CONTEXT = 1 << 20
"""Tokens of a context that another node's word is taken for."""

_AGAIN = "Send the request again."


class RemoteEngine:
    """One replica, for one request. All methods may raise PeerUnreachable, LinkClosed, WireError,
    EngineTimeout, and what the other node says.
    """

    def __init__(self, peers: Peers, replica: Replica, facts: ModelFacts | None = None) -> None:
        self._peers = peers
        self._replica = replica
        self._facts = facts
        self._name = replica.name
        self._channel: Channel | None = None
        self._silence = FIRST_SECONDS
        self._cancelled = False

    @property
    def facts(self) -> ModelFacts:
        """What the model says of itself."""
        if self._facts is None:
            raise AssertionError("the facts were not fetched")
        return self._facts

    async def fetch_facts(self) -> ModelFacts:
        """What the other node's engine says of its model."""
        async with self._call(calls.AskFacts(self._replica.offer.name), calls.FACTS_FRAME) as channel:
            reply = await self._reply(channel, FACTS_SECONDS)
            if not isinstance(reply, calls.Facts):
                raise WireError(f"a {type(reply).__name__} instead of facts")
            return calls.check_facts(reply.facts)

    def cancel(self) -> None:
        """End the request from outside its stream, which then raises RequestCancelled."""
        self._cancelled = True
        if self._channel is not None:
            self._channel.abort()

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Chunk, None]:
        """See StageEngine.generate."""
        ask = calls.Generate(self._replica.offer.name, msgspec.structs.replace(request, session=""))
        context = max(self.facts.context, self._replica.offer.context)
        check = AnswerCheck(request, min(context, CONTEXT))
        last: Chunk | None = None
        async with self._call(ask, limits.CALL_FRAME) as channel:
            while True:
                reply = await self._reply(channel, self._patience(last), waiting=last is None)
                if not isinstance(reply, calls.Chunks) or not reply.items:
                    raise WireError(f"a {type(reply).__name__} in the middle of an answer")
                for chunk in reply.items:
                    if fault := check.fault(chunk):
                        raise WireError(fault)
                    last = chunk
                    if isinstance(chunk, Started):
                        yield self._signed(chunk)
                    else:
                        yield chunk
                    if isinstance(chunk, Finished):
                        return

    def _signed(self, started: Started) -> Started:
        """Who it is was proved by the link, so what the other side writes there does not count."""
        return msgspec.structs.replace(
            started, served_by=self._name, served_by_id=self._replica.node.hex(), hops=1
        )

    async def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> tuple[int, ...]:
        """See StageEngine.tokenize."""
        ask = calls.Tokenize(self._replica.offer.name, text, add_special, parse_special)
        async with self._call(ask, limits.CALL_FRAME) as channel:
            reply = await self._reply(channel, TOKENIZE_SECONDS)
            if not isinstance(reply, calls.Tokens):
                raise WireError(f"a {type(reply).__name__} instead of tokens")
            return reply.tokens

    async def detokenize(self, tokens: Sequence[int]) -> str:
        """See StageEngine.detokenize."""
        ask = calls.Detokenize(self._replica.offer.name, tuple(tokens))
        async with self._call(ask, limits.CALL_FRAME) as channel:
            reply = await self._reply(channel, TOKENIZE_SECONDS)
            if not isinstance(reply, calls.Text):
                raise WireError(f"a {type(reply).__name__} instead of text")
            return reply.text

    async def embed(self, inputs: Sequence[str | tuple[int, ...]]) -> tuple[tuple[list[float], int], ...]:
        """See StageEngine.embed."""
        ask = calls.Embed(self._replica.offer.name, tuple(inputs))
        results: list[tuple[list[float], int]] = []
        async with self._call(ask, limits.CALL_FRAME) as channel:
            while len(results) < len(inputs):
                reply = await self._reply(channel)
                if not isinstance(reply, calls.Vectors) or not reply.items:
                    raise WireError(f"a {type(reply).__name__} instead of vectors")
                if len(results) + len(reply.items) > len(inputs):
                    raise WireError("more vectors than inputs")
                results += [
                    (calls.unpack(data, self.facts.width), max(0, count)) for data, count in reply.items
                ]
        return tuple(results)

    # The channel ----------------------------------------------------------------------------

    @asynccontextmanager
    async def _call(self, ask: calls.Ask, limit: int) -> AsyncIterator[Channel]:
        """A channel on which `ask` was sent. Leaving the block by an exception gives it up, which ends what
        is left; otherwise both sides finish, so that a connection can serve again.
        """
        body = calls.encode(ask)
        channel = await self._open()
        try:
            channel.limit = limit
            self._channel = channel
            self._silence = FIRST_SECONDS
            if self._cancelled:
                raise RequestCancelled("The request was cancelled.")
            await channel.send(body)
            yield channel
            await _finished(channel)
        except (LinkClosed, WireError) as error:
            raise self._explained(error) from error
        finally:
            self._channel = None
            channel.abort()

    async def _open(self) -> Channel:
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                return await self._peers.open_call(self._replica.node)
        except (TimeoutError, LinkClosed, PeerUnreachable) as error:
            raise PeerUnreachable(f"{self._name} cannot be reached now.", hint=_AGAIN) from error

    def _patience(self, last: Chunk | None) -> float:
        """How long after this piece of an answer the next one may take, in seconds."""
        if not isinstance(last, Started):
            return STALLED_SECONDS
        rate = self._replica.offer.prompt_tokens_per_second or PROMPT_RATE
        return min(STALLED_SECONDS, PROMPT_SECONDS + PROMPT_FACTOR * last.prompt_tokens / rate)

    def _lane_is_free(self) -> bool:
        """Whether the node says so now."""
        here = (self._replica.node, self._replica.offer.name)
        offers = [r.offer for r in self._peers.replicas() if (r.node, r.offer.name) == here]
        return any(o.status == "ready" and o.active + o.queued < max(1, o.lanes) for o in offers)

    async def _reply(
        self, channel: Channel, patience: float = STALLED_SECONDS, *, waiting: bool = False
    ) -> calls.Reply:
        """The next reply that says something, within `patience` seconds; `waiting` for a lane.

        Raises what the other node refuses with.
        """
        began = busy_at = last = time.monotonic()
        hasty = 0
        while True:
            try:
                async with asyncio.timeout(self._silence):
                    body = await channel.receive()
            except TimeoutError as error:
                raise PeerUnreachable(
                    f"{self._name} said nothing for {self._silence:.0f} s.", hint=_AGAIN
                ) from error
            self._silence = SILENCE_SECONDS
            if body is None:
                raise LinkClosed("The channel ended.")
            match calls.decode_reply(body):
                case calls.Alive():
                    now = time.monotonic()
                    hasty += now - last < ALIVE_SECONDS
                    last = now
                    if hasty > ALIVES:
                        raise WireError("again and again only that it is alive")
                    if now - began > patience:
                        raise EngineTimeout(f"{self._name} gave nothing for {patience:.0f} s.", hint=_AGAIN)
                    if not waiting or not self._lane_is_free():
                        busy_at = now
                    elif now - busy_at > FREE_SECONDS:
                        raise EngineTimeout(
                            f"{self._name} says that it has a free lane, and began nothing for"
                            f" {FREE_SECONDS:.0f} s.",
                            hint=_AGAIN,
                        )
                case calls.Refused() as refused:
                    raise calls.error_of(refused, self._name)
                case reply:
                    return reply

    def _explained(self, error: LinkClosed | WireError) -> MeshError:
        if self._cancelled:
            return RequestCancelled("The request was cancelled.")
        if isinstance(error, LinkClosed):
            return LinkClosed(f"{self._name} went away while it answered.", hint=_AGAIN)
        fault = error.message.rstrip(".")
        return WireError(f"{self._name} answered with what makes no sense: {fault}.", hint=_AGAIN)


async def _finished(channel: Channel) -> None:
    with suppress(LinkClosed, WireError, TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            await channel.finish()
            await channel.receive()
