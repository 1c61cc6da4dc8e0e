"""The serving side of calls: what it computes, what it refuses, and that it lets go at once."""

import asyncio
import time
from collections.abc import AsyncIterator

import msgspec
import pytest

from meshllm_core.engine.types import Delta, Finished, GenerationRequest, Started
from meshllm_core.errors import ContextLengthExceeded, LinkClosed, WireError
from meshllm_core.ids import NodeId, RequestId
from meshllm_core.serve import answering, calls
from meshllm_core.serve.answering import Asker, CallLimits
from meshllm_core.state.events import RequestFinished, RequestStarted
from meshllm_core.wire import limits
from tests.api.openai.conftest import eventually
from tests.support.peers import ENTRY, MemoryChannel, MemoryPeers, RemoteNode, channel_pair, node
from tests.support.scripted_engine import FACTS, Pause, Script, ScriptedEngine, Wait

EMBEDDER = msgspec.structs.replace(FACTS, embeddings=True, generates=False, width=64)


def engine(*steps: object, **fields: object) -> ScriptedEngine:
    return ScriptedEngine([Script(steps=steps or ("Hello", "."), **fields)])  # type: ignore[arg-type]


def generate(model: str = "m", **fields: object) -> calls.Generate:
    request = GenerationRequest(**{"request_id": RequestId("r1"), "prompt": "Hi", **fields})  # type: ignore[arg-type]
    return calls.Generate(model, request)


class Bench:
    """One serving node, and calls to it."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, serving: RemoteNode, message: calls.Ask | bytes) -> MemoryChannel:
        ours, theirs = channel_pair()
        ours.limit = limits.CALL_FRAME
        self.tasks.append(asyncio.create_task(serving.answer(theirs)))
        await ours.send(message if isinstance(message, bytes) else calls.encode(message))
        return ours

    async def whole(self, serving: RemoteNode, message: calls.Ask | bytes) -> list[calls.Reply]:
        channel = await self.ask(serving, message)
        replies = []
        while (body := await channel.receive()) is not None:
            replies.append(calls.decode_reply(body))
        channel.abort()
        return replies

    async def refusal(self, serving: RemoteNode, message: calls.Ask | bytes) -> calls.Refused:
        (reply,) = await self.whole(serving, message)
        assert isinstance(reply, calls.Refused)
        return reply


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    one = Bench()
    yield one
    async with asyncio.timeout(5):
        await asyncio.gather(*one.tasks)


async def test_an_answer(bench: Bench) -> None:
    serving = node("kitchen", m=engine("a", "b", Pause(0.01), "c"))
    replies = await bench.whole(serving, generate())
    chunks = [item for reply in replies if isinstance(reply, calls.Chunks) for item in reply.items]
    assert [type(chunk) for chunk in chunks] == [Started, Delta, Delta, Delta, Finished]
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, Delta)) == "abc"
    assert len(replies) < len(chunks), "what is ready together travels together"
    begun, ended = serving.events
    assert isinstance(begun, RequestStarted)
    assert isinstance(ended, RequestFinished)
    assert (begun.route, begun.asked_by, begun.served_by) == ("mesh", "entry", "")
    assert begun.request == ended.request == f"r1@{ENTRY.hex()[:10]}.1"


async def test_requests_with_one_id_do_not_meet(bench: Bench) -> None:
    serving = node("kitchen")
    await asyncio.gather(*(bench.whole(serving, generate()) for _ in range(3)))
    running = serving.engines["m"].requests
    assert len({request.request_id for request in running}) == 3


async def test_the_client_s_name_for_its_conversation_stays_there(bench: Bench) -> None:
    serving = node("kitchen")
    await bench.whole(serving, generate(session="alice"))
    assert serving.engines["m"].requests[0].session == ""


async def test_facts_tokens_text_and_vectors(bench: Bench) -> None:
    serving = node("kitchen", m=engine(), e=ScriptedEngine(facts=EMBEDDER))
    assert await bench.whole(serving, calls.AskFacts("m")) == [calls.Facts(FACTS)]
    assert await bench.whole(serving, calls.Tokenize("m", "Hé", True, True)) == [calls.Tokens((72, 233))]
    assert await bench.whole(serving, calls.Detokenize("m", (72, 233))) == [calls.Text("Hé")]
    (reply,) = await bench.whole(serving, calls.Embed("e", ("a", (1, 2))))
    assert isinstance(reply, calls.Vectors)
    assert [count for _, count in reply.items] == [1, 2]


async def test_many_vectors_come_in_several_frames(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "VECTORS_FRAME", 64 * 4 * 10)
    serving = node("kitchen", e=ScriptedEngine(facts=EMBEDDER))
    replies = await bench.whole(serving, calls.Embed("e", ("a",) * 25))
    assert [len(reply.items) for reply in replies if isinstance(reply, calls.Vectors)] == [10, 10, 5]


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (b"garbage", "wire_error"),
        (calls.AskFacts("nope"), "model_not_found"),
        (generate("nope"), "model_not_found"),
        (generate(request_id="a b"), "invalid_value"),
        (generate(prompt=(2_000_000,)), "invalid_value"),
        (calls.Tokenize("m", "a\0", True, True), "invalid_value"),
        (calls.Detokenize("m", (-1,)), "invalid_value"),
        (calls.Embed("m", ("a",)), "unsupported_model_feature"),
    ],
)
async def test_refusals(bench: Bench, ask: calls.Ask | bytes, code: str) -> None:
    serving = node("kitchen")
    assert (await bench.refusal(serving, ask)).code == code
    assert not serving.engines["m"].requests


async def test_the_engine_s_refusal_is_passed_on(bench: Bench) -> None:
    refusal = ContextLengthExceeded("Too long.", hint="Shorten it.", param="messages")
    told = await bench.refusal(node("kitchen", m=engine(refusal=refusal)), generate())
    assert (told.code, told.message, told.hint, told.param) == (
        "context_length_exceeded",
        "Too long.",
        "Shorten it.",
        "messages",
    )


async def test_a_fault_inside_is_not_told(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ScriptedEngine):
        async def detokenize(self, tokens: object) -> str:
            raise ZeroDivisionError("secret")

    told = await bench.refusal(node("kitchen", m=Broken()), calls.Detokenize("m", (1,)))
    assert (told.code, "secret" in told.message) == ("internal_error", False)
    assert "secret" in caplog.text


async def test_a_frame_that_is_too_large(bench: Bench) -> None:
    serving = node("kitchen")
    channel = await bench.ask(serving, b"x" * (limits.CALL_FRAME + 1))
    with pytest.raises(LinkClosed):
        await channel.receive()


async def test_models_of_third_nodes_are_not_passed_on(bench: Bench) -> None:
    serving = node("kitchen")
    serving.service.peers = MemoryPeers(node("cellar", 2, big=engine()))
    serving.service.__post_init__()
    assert "big" in [model.id for model in serving.service.catalogue()]
    assert (await bench.refusal(serving, generate("big"))).code == "model_not_found"


async def test_a_call_that_is_given_up_frees_the_lane_at_once(bench: Bench) -> None:
    serving = node("kitchen", m=engine("a", Wait(asyncio.Event())))
    channel = await bench.ask(serving, generate())
    await channel.receive()
    running = serving.engines["m"]
    assert running.running == 1
    began = time.monotonic()
    channel.abort()
    await eventually(lambda: not running.running)
    assert time.monotonic() - began < 0.1
    assert len(running.cancelled) == 1
    await eventually(lambda: len(serving.events) == 2)


@pytest.mark.parametrize("extra", [b"more", None])
async def test_an_asker_that_speaks_out_of_turn_is_given_up(bench: Bench, extra: bytes | None) -> None:
    serving = node("kitchen", m=engine("a", Wait(asyncio.Event())))
    channel = await bench.ask(serving, generate())
    await channel.receive()
    await (channel.finish() if extra is None else channel.send(extra))
    await eventually(lambda: not serving.engines["m"].running)


async def test_signs_of_life_while_there_is_nothing_to_say(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "ALIVE_SECONDS", 0.03)
    release = asyncio.Event()
    serving = node("kitchen", m=engine(Wait(release), "late"))
    channel = await bench.ask(serving, generate())
    kinds = [type(calls.decode_reply(await channel.receive() or b"")) for _ in range(4)]
    assert kinds == [calls.Chunks, calls.Alive, calls.Alive, calls.Alive]
    release.set()
    while (body := await channel.receive()) is not None:
        last = calls.decode_reply(body)
    assert isinstance(last, calls.Chunks)
    channel.abort()


async def test_a_first_sign_of_life_in_a_queue(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    class Queueing(ScriptedEngine):
        async def generate(self, request):  # type: ignore[no-untyped-def]
            await asyncio.sleep(60)
            yield

    monkeypatch.setattr(answering, "FIRST_SECONDS", 0.02)
    channel = await bench.ask(node("kitchen", m=Queueing()), generate())
    assert calls.decode_reply(await channel.receive() or b"") == calls.Alive()
    channel.abort()


async def test_nothing_is_asked(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "ASK_SECONDS", 0.05)
    ours, theirs = channel_pair()
    ours.limit = limits.CALL_FRAME
    bench.tasks.append(asyncio.create_task(node("kitchen").answer(theirs)))
    reply = calls.decode_reply(await ours.receive() or b"")
    assert isinstance(reply, calls.Refused)
    assert "asked" in reply.message
    ours.abort()


async def test_an_asker_that_takes_nothing_does_not_grow_the_node(bench: Bench) -> None:
    serving = node("kitchen", m=engine(*["x" * 10_000] * 1000))
    channel = await bench.ask(serving, generate())
    await asyncio.sleep(0.1)
    assert serving.engines["m"].running, "ten megabytes went somewhere"
    text = 0
    while (body := await channel.receive()) is not None:
        reply = calls.decode_reply(body)
        assert isinstance(reply, calls.Chunks)
        assert len(reply.items) <= answering.PENDING + 1
        text += sum(len(item.text) for item in reply.items if isinstance(item, Delta))
    assert text == 10_000_000
    channel.abort()


async def test_one_peer_has_so_many_calls(bench: Bench) -> None:
    serving = node("kitchen", m=engine("a", Wait(asyncio.Event())))
    serving.limits = CallLimits(per_peer=2)
    open_calls = [await bench.ask(serving, generate()) for _ in range(2)]
    await eventually(lambda: serving.engines["m"].running == 2)
    told = await bench.refusal(serving, generate())
    assert (told.code, told.retry_after) == ("rate_limit_exceeded", 2)
    serving.asker = Asker("other", NodeId(b"o" * 32))
    open_calls.append(await bench.ask(serving, generate()))
    await eventually(lambda: serving.engines["m"].running == 3)
    for channel in open_calls:
        channel.abort()
    await eventually(lambda: not serving.engines["m"].running)
    serving.asker = Asker("entry", ENTRY)
    assert isinstance((await bench.whole(serving, calls.AskFacts("m")))[0], calls.Facts)


async def test_guests_have_their_share_of_the_lanes(bench: Bench) -> None:
    serving = node("kitchen", m=engine("a", Wait(asyncio.Event())))
    guests = [Asker(f"guest {n}", NodeId(bytes([n]) * 32), public=True) for n in range(3)]
    open_calls = []
    for serving.asker in guests[:2]:
        open_calls.append(await bench.ask(serving, generate()))
        await eventually(lambda: serving.engines["m"].running == len(open_calls))
    serving.asker = guests[2]
    told = await bench.refusal(serving, generate())
    assert (told.code, told.retry_after) == ("rate_limit_exceeded", 5)
    assert "2 lanes that guests may use" in told.message
    serving.asker = Asker("member", ENTRY)
    open_calls.append(await bench.ask(serving, generate()))
    await eventually(lambda: serving.engines["m"].running == 3)
    for channel in open_calls:
        channel.abort()
    await eventually(lambda: not serving.engines["m"].running)


async def test_a_node_that_stops_ends_its_calls() -> None:
    serving = node("kitchen", m=engine("a", Wait(asyncio.Event())))
    ours, theirs = channel_pair()
    ours.limit = limits.CALL_FRAME
    task = asyncio.create_task(serving.answer(theirs))
    await ours.send(calls.encode(generate()))
    await ours.receive()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not serving.engines["m"].running
    with pytest.raises((LinkClosed, WireError)):
        await ours.receive()
