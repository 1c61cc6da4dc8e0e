"""The asking side of a call, against nodes that are honest, gone, slow or hostile."""

import asyncio
import time
from collections.abc import AsyncIterator

import msgspec
import pytest

from meshllm_core.engine.types import Chunk, Delta, Finished, GenerationRequest, Started, Timings
from meshllm_core.errors import (
    EngineError,
    EngineTimeout,
    LinkClosed,
    Overloaded,
    PayloadTooLarge,
    PeerUnreachable,
    RequestCancelled,
    WireError,
)
from meshllm_core.ids import RequestId
from meshllm_core.serve import calls, remote
from meshllm_core.serve.remote import RemoteEngine
from meshllm_core.wire import limits
from tests.api.openai.conftest import eventually
from tests.support.peers import Answerer, MemoryChannel, MemoryPeers, RemoteNode, node, offer
from tests.support.scripted_engine import FACTS, Script, ScriptedEngine, Wait

R = RequestId("r1")
EMBEDDER = msgspec.structs.replace(FACTS, embeddings=True, generates=False, width=64)
BEGIN = Started(request_id=R, prompt_tokens=1, cached_tokens=0, queue_ms=0.0)
END = Finished(
    request_id=R,
    reason="stop",
    prompt_tokens=1,
    cached_tokens=0,
    completion_tokens=1,
    timings=Timings(queue_ms=0, prefill_ms=0, decode_ms=0),
)


def piece(text: str = "a", tokens: int = 1, of: RequestId = R) -> Delta:
    return Delta(request_id=of, text=text, tokens=tokens)


class Asking:
    """An asking side and the node that it asks."""

    def __init__(self, serving: RemoteNode) -> None:
        self.serving = serving
        self.peers = MemoryPeers(serving)
        self.engine = RemoteEngine(self.peers, self.peers.replicas()[0], FACTS)

    async def run(self, **fields: object) -> list[Chunk]:
        request = GenerationRequest(**{"request_id": R, "prompt": "Hi", **fields})  # type: ignore[arg-type]
        return [chunk async for chunk in self.engine.generate(request)]


def says(*frames: calls.Reply | bytes, forever: bool = False, hang: bool = False) -> Answerer:
    """A node that answers with these frames whatever it is asked."""

    async def answerer(channel: MemoryChannel) -> None:
        channel.limit = limits.CALL_FRAME
        try:
            await channel.receive()
            while True:
                for frame in frames:
                    await channel.send(frame if isinstance(frame, bytes) else calls.encode(frame))
                if not forever:
                    break
            if hang:
                await channel.receive()
            await channel.finish()
        except LinkClosed:
            pass

    return answerer


@pytest.fixture
async def asking() -> AsyncIterator[Asking]:
    one = Asking(node("kitchen"))
    yield one
    await one.peers.close()


async def test_an_answer_names_the_node(asking: Asking) -> None:
    chunks = await asking.run()
    started = chunks[0]
    assert isinstance(started, Started)
    assert (started.served_by, started.served_by_id, started.hops) == ("kitchen", "01" * 32, 1)
    assert "".join(c.text for c in chunks if isinstance(c, Delta)) == "Hello there."
    await asking.peers.idle()


async def test_the_other_calls(asking: Asking) -> None:
    assert await asking.engine.fetch_facts() == FACTS
    assert await asking.engine.tokenize("Hé", add_special=True, parse_special=True) == (72, 233)
    assert await asking.engine.detokenize([72, 233]) == "Hé"
    await asking.peers.idle()


async def test_both_sides_finish_so_that_a_connection_can_serve_again(asking: Asking) -> None:
    await asking.run()
    await asking.engine.tokenize("x", add_special=True, parse_special=True)
    await asking.peers.idle()
    for end in asking.serving.calls:
        assert end.finished
        assert end.other.finished
        assert not end.broken, "neither side gave up what was finished"


async def test_vectors() -> None:
    peers = MemoryPeers(node("kitchen", m=ScriptedEngine(facts=EMBEDDER)))
    engine = RemoteEngine(peers, peers.replicas()[0], EMBEDDER)
    vectors = await engine.embed(["a", (1, 2)])
    assert vectors == (([1.0] + [0.0] * 63, 1), ([1.0] + [0.0] * 63, 2))
    await peers.idle()


async def test_closing_early_frees_the_lane_at_once(asking: Asking) -> None:
    serving = asking.serving.engines["m"]
    serving.scripts = [Script(steps=("a", Wait(asyncio.Event())))]
    chunks = asking.engine.generate(GenerationRequest(request_id=R, prompt="Hi"))
    assert isinstance(await anext(chunks), Started)
    began = time.monotonic()
    await chunks.aclose()
    await eventually(lambda: not serving.running)
    assert time.monotonic() - began < 0.1


async def test_cancelling_from_outside(asking: Asking) -> None:
    serving = asking.serving.engines["m"]
    serving.scripts = [Script(steps=("a", Wait(asyncio.Event())))]
    task = asyncio.create_task(asking.run())
    await eventually(lambda: serving.running)
    asking.engine.cancel()
    with pytest.raises(RequestCancelled):
        await task
    await eventually(lambda: not serving.running)


async def test_a_node_without_a_link(asking: Asking) -> None:
    asking.serving.reachable = False
    with pytest.raises(PeerUnreachable, match="kitchen cannot be reached"):
        await asking.run()


async def test_a_node_that_goes_away(asking: Asking) -> None:
    asking.serving.engines["m"].scripts = [Script(steps=("a", Wait(asyncio.Event())))]
    task = asyncio.create_task(asking.run())
    await eventually(lambda: asking.serving.engines["m"].running)
    asking.serving.die()
    with pytest.raises(LinkClosed, match="kitchen went away"):
        await task


@pytest.mark.parametrize(("when", "first"), [("FIRST_SECONDS", []), ("SILENCE_SECONDS", [calls.Alive()])])
async def test_a_node_that_says_nothing(
    asking: Asking, monkeypatch: pytest.MonkeyPatch, when: str, first: list[calls.Reply]
) -> None:
    monkeypatch.setattr(remote, when, 0.05)
    asking.serving.answerer = says(*first, hang=True)
    with pytest.raises(PeerUnreachable, match="kitchen said nothing"):
        await asking.run()
    await asking.peers.idle()


def lives(*before: calls.Reply, pause: float = 0.02) -> Answerer:
    """A node that says these and then no more than that it is alive."""

    async def answerer(channel: MemoryChannel) -> None:
        try:
            for frame in before:
                await channel.send(calls.encode(frame))
            while True:
                await channel.send(calls.encode(calls.Alive()))
                await asyncio.sleep(pause)
        except LinkClosed:
            pass

    return answerer


@pytest.mark.parametrize(
    ("limit", "before"),
    [("STALLED", []), ("FREE", []), ("PROMPT", [calls.Chunks((BEGIN,))])],
    ids=["queue", "free lane", "prompt"],
)
async def test_a_node_that_only_lives(
    asking: Asking, monkeypatch: pytest.MonkeyPatch, limit: str, before: list[calls.Reply]
) -> None:
    monkeypatch.setattr(remote, "ALIVES", 1000)
    monkeypatch.setattr(remote, f"{limit}_SECONDS", 0.05)
    asking.serving.offers = [offer(active=0 if limit == "FREE" else 4, prompt_tokens_per_second=1e6)]
    asking.engine = RemoteEngine(asking.peers, asking.peers.replicas()[0], FACTS)
    asking.serving.answerer = lives(*before)
    with pytest.raises(EngineTimeout, match="kitchen"):
        await asking.run()
    await asking.peers.idle()


async def test_a_node_that_is_busy_may_let_wait(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "FREE_SECONDS", 0.05)
    asking.serving.offers = [offer(active=4, queued=9)]
    asking.serving.answerer = lives()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await asking.run()
    await asking.peers.idle()


@pytest.mark.parametrize("question", ["fetch_facts", "tokenize", "detokenize"])
async def test_what_needs_no_lane_is_answered_at_once(
    asking: Asking, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    for name in ("FACTS_SECONDS", "TOKENIZE_SECONDS"):
        monkeypatch.setattr(remote, name, 0.05)
    asking.serving.answerer = lives()
    with pytest.raises(EngineTimeout, match="kitchen"):
        match question:
            case "fetch_facts":
                await asking.engine.fetch_facts()
            case "tokenize":
                await asking.engine.tokenize("x", add_special=True, parse_special=True)
            case _:
                await asking.engine.detokenize([1])
    await asking.peers.idle()


async def test_a_flood_of_signs_of_life_is_nonsense(asking: Asking) -> None:
    asking.serving.answerer = lives(pause=0.0)
    with pytest.raises(WireError, match="only that it is alive"):
        await asking.run()
    await asking.peers.idle()


async def test_a_refusal_names_the_node(asking: Asking) -> None:
    asking.serving.engines["m"].scripts = [Script(refusal=Overloaded("Full.", retry_after=7))]
    with pytest.raises(Overloaded, match=r"kitchen: Full\.") as caught:
        await asking.run()
    assert caught.value.retry_after == 7


@pytest.mark.parametrize(
    "frames",
    [
        [b"garbage"],
        [b"x" * (17 << 20)],
        [calls.Text("Hello")],
        [calls.Chunks(())],
        [calls.Chunks((piece(),))],
        [calls.Chunks((BEGIN, BEGIN))],
        [calls.Chunks((BEGIN, piece(of=RequestId("r2"))))],
        [calls.Chunks((BEGIN, piece(text="x" * (1 << 20))))],
        [calls.Chunks((BEGIN, piece(tokens=-5)))],
    ],
)
async def test_nonsense_ends_the_call(asking: Asking, frames: list[calls.Reply | bytes]) -> None:
    asking.serving.answerer = says(*frames, hang=True)
    with pytest.raises(WireError, match="kitchen answered with what makes no sense"):
        await asking.run(max_tokens=8)
    await asking.peers.idle()


async def test_endless_chunks_end_at_what_was_asked(asking: Asking) -> None:
    frames = says(calls.Chunks((piece(),)), forever=True)

    async def answerer(channel: MemoryChannel) -> None:
        await channel.send(calls.encode(calls.Chunks((BEGIN,))))
        await frames(channel)

    asking.serving.answerer = answerer
    got = 0
    with pytest.raises(WireError, match="more than was asked for"):
        async for chunk in asking.engine.generate(GenerationRequest(request_id=R, prompt="Hi", max_tokens=8)):
            got += isinstance(chunk, Delta)
    assert got == 8
    await asking.peers.idle()


async def test_what_follows_the_end_is_not_read(asking: Asking) -> None:
    asking.serving.answerer = says(calls.Chunks((BEGIN, piece(), END, piece("more"))), b"garbage")
    chunks = await asking.run()
    assert [type(chunk) for chunk in chunks] == [Started, Delta, Finished]


async def test_an_answer_without_an_end(asking: Asking) -> None:
    asking.serving.answerer = says(calls.Chunks((BEGIN, piece())))
    with pytest.raises(LinkClosed, match="kitchen"):
        await asking.run()


@pytest.mark.parametrize(
    "frame",
    [
        calls.Facts(msgspec.structs.replace(FACTS, chat_template="x" * (600 << 10))),
        msgspec.msgpack.encode({"type": "facts", "facts": {"chat_template": "x" * (50 << 20)}}),
        calls.Facts(msgspec.structs.replace(FACTS, vocabulary=0)),
        calls.Tokens((1,)),
    ],
    ids=["template", "50 MB", "vocabulary", "kind"],
)
async def test_hostile_facts(asking: Asking, frame: calls.Reply | bytes) -> None:
    asking.serving.answerer = says(frame, hang=True)
    with pytest.raises(WireError, match="kitchen"):
        await asking.engine.fetch_facts()
    await asking.peers.idle()


@pytest.mark.parametrize(
    "items", [((b"\0" * 12, 1),), ((b"\0" * 256, 1),) * 3, ()], ids=["length", "too many", "none"]
)
async def test_hostile_vectors(items: tuple[tuple[bytes, int], ...]) -> None:
    peers = MemoryPeers(node("kitchen"))
    peers.nodes[0].answerer = says(calls.Vectors(items), hang=True)
    engine = RemoteEngine(peers, peers.replicas()[0], EMBEDDER)
    with pytest.raises(WireError):
        await engine.embed(["a", "b"])
    await peers.idle()


async def test_codes_of_later_versions(asking: Asking) -> None:
    asking.serving.answerer = says(calls.Refused(code="tired", message="I am tired."))
    with pytest.raises(EngineError, match="kitchen: I am tired"):
        await asking.run()


async def test_a_prompt_that_is_too_large_is_not_sent(asking: Asking) -> None:
    with pytest.raises(PayloadTooLarge):
        await asking.run(prompt="x" * (17 << 20))
    assert not asking.serving.calls
