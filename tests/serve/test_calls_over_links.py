"""Calls over real links: QUIC alone, and TLS beside it."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from meshllm_core.engine.types import Chunk, Delta, GenerationRequest, Started
from meshllm_core.errors import LinkClosed, WireError
from meshllm_core.ids import NodeId, RequestId
from meshllm_core.serve import calls
from meshllm_core.serve.peers import Replica
from meshllm_core.serve.remote import RemoteEngine
from meshllm_core.transport.link import Channel, ChannelKind, Link
from meshllm_core.wire.announcement import Address
from tests.api.openai.conftest import eventually
from tests.serve.entry import engine
from tests.support.peers import RemoteNode, node, offer
from tests.support.scripted_engine import FACTS, Pause, Wait
from tests.transport.test_quic_tls import both, settled

SECONDS = 5.0


class Linked:
    """Implements `serve.peers.Peers` over one link to a node that answers."""

    def __init__(self, near: Link, serving: RemoteNode) -> None:
        self.near = near
        self.serving = serving
        self.path = ""

    def replicas(self) -> Sequence[Replica]:
        return [Replica(self.serving.node, self.serving.name, offer(), 0.001)]

    async def open_call(self, node: NodeId) -> Channel:
        channel = await self.near.open(ChannelKind.CALL)
        self.path = channel.path
        return channel

    async def run(self, prompt: str = "Hi") -> list[Chunk]:
        request = GenerationRequest(request_id=RequestId("r1"), prompt=prompt)
        return [chunk async for chunk in self.remote.generate(request)]

    @property
    def remote(self) -> RemoteEngine:
        return RemoteEngine(self, self.replicas()[0], FACTS)


async def _serve(far: Link, serving: RemoteNode) -> None:
    """Answers what comes until the link ends."""
    async with asyncio.TaskGroup() as tasks:
        try:
            while True:
                channel = await far.accept()
                tasks.create_task(serving.answer(channel))  # type: ignore[arg-type]
        except LinkClosed:
            pass


@asynccontextmanager
async def linked(path: str, serving: RemoteNode) -> AsyncIterator[Linked]:
    """Two transports on loopback with a link between them."""
    async with both() as a, both() as b:
        here = Address("127.0.0.1", b.transport.port)
        near = await a.transport.dial(b.key.public, here, timeout=SECONDS)
        far = await asyncio.wait_for(b.links.get(), SECONDS)
        far.admit()
        near.admit()
        if path == "tls":
            near.offer_tls([here])
            assert await settled(near)
        answering = asyncio.create_task(_serve(far, serving))
        peers = Linked(near, serving)
        yield peers
        assert peers.path == path
        near.close()
        await asyncio.wait_for(answering, SECONDS)


@pytest.fixture(params=["quic", "tls"])
def path(request: pytest.FixtureRequest) -> str:
    """How calls travel."""
    return str(request.param)


async def test_answers_one_after_the_other_and_together(path: str) -> None:
    words = [f"w{number} " for number in range(200)]
    serving = node("kitchen", m=engine(*words, Pause(0.01), "end"))
    async with linked(path, serving) as peers:
        assert await peers.remote.fetch_facts() == FACTS
        for chunks in [await peers.run(), *await asyncio.gather(*(peers.run() for _ in range(6)))]:
            assert isinstance(chunks[0], Started)
            assert chunks[0].served_by == "kitchen"
            text = "".join(chunk.text for chunk in chunks if isinstance(chunk, Delta))
            assert text == "".join(words) + "end"


async def test_long_prompts_and_large_answers(path: str) -> None:
    serving = node("kitchen", m=engine(*["x" * 50_000] * 10))
    async with linked(path, serving) as peers:
        chunks = await peers.run("p" * 300_000)
        assert sum(len(chunk.text) for chunk in chunks if isinstance(chunk, Delta)) == 500_000
        assert len(serving.engines["m"].requests[0].prompt) == 300_000


async def test_giving_up_frees_the_lane(path: str) -> None:
    serving = node("kitchen", m=engine("a", Wait(asyncio.Event())))
    async with linked(path, serving) as peers:
        chunks = peers.remote.generate(GenerationRequest(request_id=RequestId("r1"), prompt="Hi"))
        await anext(chunks)
        began = time.monotonic()
        await chunks.aclose()
        await eventually(lambda: not serving.engines["m"].running)
        assert time.monotonic() - began < 0.1
        assert await peers.remote.detokenize([72]) == "H"


async def test_cancelling_from_outside_wakes_who_waits(path: str) -> None:
    serving = node("kitchen", m=engine("a", Wait(asyncio.Event())))
    async with linked(path, serving) as peers:
        remote = peers.remote
        chunks = remote.generate(GenerationRequest(request_id=RequestId("r1"), prompt="Hi"))
        await anext(chunks)
        await anext(chunks)
        waiting = asyncio.create_task(anext(chunks))
        await asyncio.sleep(0.01)
        remote.cancel()
        with pytest.raises(Exception, match="cancelled"):
            await asyncio.wait_for(waiting, 0.5)
        await eventually(lambda: not serving.engines["m"].running)


async def test_a_frame_that_is_too_large_for_facts(path: str) -> None:
    async def hostile(channel: Channel) -> None:
        try:
            await channel.receive()
            await channel.send(bytes(calls.FACTS_FRAME + 1))
            await channel.receive()
        except LinkClosed:
            pass
        finally:
            channel.abort()

    serving = node("kitchen")
    serving.answerer = hostile
    async with linked(path, serving) as peers:
        with pytest.raises(WireError, match="kitchen"):
            await peers.remote.fetch_facts()


async def test_the_link_ends_in_the_middle(path: str) -> None:
    serving = node("kitchen", m=engine("a", Wait(asyncio.Event())))
    async with linked(path, serving) as peers:
        chunks = peers.remote.generate(GenerationRequest(request_id=RequestId("r1"), prompt="Hi"))
        await anext(chunks)
        await anext(chunks)
        peers.near.close("the test ends it")
        with pytest.raises(LinkClosed, match="kitchen went away"):
            await asyncio.wait_for(anext(chunks), SECONDS)
        await eventually(lambda: not serving.engines["m"].running)
