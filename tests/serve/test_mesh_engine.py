"""Where a request goes: here first, then the quickest, and on to the next where one fails."""

import asyncio
import functools
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from meshllm_core.engine.types import Chunk, Delta, Finished, GenerationRequest, Started
from meshllm_core.errors import (
    ContextLengthExceeded,
    EngineExited,
    InvalidRequest,
    LinkClosed,
    ModelNotReady,
    ModelUnknown,
    Overloaded,
    RequestCancelled,
)
from meshllm_core.ids import ModelId, RequestId
from meshllm_core.serve.router import HostedModel
from meshllm_core.serve.service import InferenceService
from meshllm_core.state.events import AnyEvent, NoticeLogged, RequestFinished, RequestStarted
from meshllm_core.state.reduce import reduce
from meshllm_core.state.snapshot import NodeSnapshot
from tests.api.openai.conftest import eventually
from tests.support.peers import ENTRY, MemoryPeers, RemoteNode, node, offer
from tests.support.scripted_engine import FACTS, Script, ScriptedEngine, Step, Wait

EXITED = EngineExited("The engine ended.")


def engine(*steps: Step, **fields: Any) -> ScriptedEngine:
    return ScriptedEngine([Script(steps=steps or ("Hello", "."), **fields)])


class Entry:
    """The node that a client asks, with a clock of its own."""

    def __init__(self, nodes: Sequence[RemoteNode], **local: ScriptedEngine) -> None:
        self.hosted = {ModelId(n): HostedModel(ModelId(n), 0, "ready", e) for n, e in local.items()}
        self.events: list[AnyEvent] = []
        self.peers = MemoryPeers(*nodes)
        self.service = InferenceService(
            self.hosted, self.events.append, peers=self.peers, name="entry", node=ENTRY
        )
        self.now = 1000.0
        self.service.replicas.now = lambda: self.now

    async def chunks(self, prompt: str = "Hi", model: str = "m", **fields: Any) -> list[Chunk]:
        found, computing = await self.service.resolve(model)
        request = GenerationRequest(request_id=RequestId("r1"), prompt=prompt, **fields)
        return [c async for c in self.service.generate(found, computing, request, route="/v1")]

    async def served_by(self, prompt: str = "Hi", model: str = "m", **fields: Any) -> str:
        """Name of the node that answered."""
        chunks = await self.chunks(prompt, model, **fields)
        assert [type(chunk) for chunk in chunks][:2] == [Started, Delta]
        assert isinstance(chunks[-1], Finished)
        assert isinstance(chunks[0], Started)
        return chunks[0].served_by

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, NoticeLogged)]

    def requests(self, name: str) -> int:
        found = next(one for one in self.peers.nodes if one.name == name)
        return len(found.engines["m"].requests)


@pytest.fixture
async def entries() -> AsyncIterator[list[Entry]]:
    made: list[Entry] = []
    yield made
    for entry in made:
        await entry.peers.close()


def slow(one: RemoteNode, rate: float = 10.0, **fields: Any) -> RemoteNode:
    one.offers = [offer(decode_tokens_per_second=rate, **fields)]
    return one


async def test_a_model_that_is_only_elsewhere(entries: list[Entry]) -> None:
    kitchen = node("kitchen")
    entry = Entry([kitchen])
    entries.append(entry)
    assert await entry.served_by() == "kitchen"
    begun, ended = entry.events
    assert isinstance(begun, RequestStarted)
    assert isinstance(ended, RequestFinished)
    assert (begun.served_by, begun.asked_by, begun.request) == ("kitchen", "", "r1")
    assert (ended.reason, ended.completion_tokens) == ("stop", 3)
    facts_and_answer = len(kitchen.calls)
    await entry.served_by()
    assert (facts_and_answer, len(kitchen.calls)) == (2, 3), "facts are fetched once"
    kitchen.offers = [msgspec.structs.replace(kitchen.offers[0], load=b"again")]
    await entry.served_by()
    assert len(kitchen.calls) == 5, "but anew for another load"


async def test_facts_are_fetched_once_for_many_at_a_time(entries: list[Entry]) -> None:
    kitchen = node("kitchen")
    entry = Entry([kitchen])
    entries.append(entry)
    await asyncio.gather(*(entry.service.resolve("m") for _ in range(10)))
    assert len(kitchen.calls) == 1


async def test_this_node_comes_first_while_it_has_a_lane(entries: list[Entry]) -> None:
    own = ScriptedEngine(facts=msgspec.structs.replace(FACTS, lanes=1))
    release = asyncio.Event()
    own.scripts = [Script(steps=("a", Wait(release))), Script()]
    entry = Entry([slow(node("kitchen"), 500.0)], m=own)
    entries.append(entry)
    first = asyncio.create_task(entry.served_by())
    await eventually(lambda: own.running)
    assert await entry.served_by() == "kitchen"
    release.set()
    assert await first == "entry"
    assert await entry.served_by() == "entry"
    assert [e.served_by for e in entry.events if isinstance(e, RequestStarted)] == ["", "kitchen", ""]


async def test_this_node_queues_when_nobody_has_a_lane(entries: list[Entry]) -> None:
    own = ScriptedEngine(facts=msgspec.structs.replace(FACTS, lanes=1))
    release = asyncio.Event()
    own.scripts = [Script(steps=("a", Wait(release))), Script()]
    entry = Entry([slow(node("kitchen"), 500.0, active=4)], m=own)
    entries.append(entry)
    first = asyncio.create_task(entry.served_by())
    await eventually(lambda: own.running)
    assert await entry.served_by() == "entry"
    release.set()
    await first


async def test_a_full_queue_here_leads_elsewhere(entries: list[Entry]) -> None:
    entry = Entry([node("kitchen")], m=engine(refusal=Overloaded("Full.")))
    entries.append(entry)
    assert await entry.served_by() == "kitchen"
    assert entry.notices == [], "that is no failure"


@pytest.mark.parametrize("status", ["loading", "failed"])
async def test_a_model_that_is_not_ready_here(entries: list[Entry], status: Any) -> None:
    entry = Entry([node("kitchen")])
    entries.append(entry)
    entry.hosted[ModelId("m")] = HostedModel(ModelId("m"), 0, status, detail="why")
    assert await entry.served_by() == "kitchen"


async def test_the_quickest_comes_first(entries: list[Entry]) -> None:
    entry = Entry([slow(node("attic", 1)), slow(node("kitchen", 2), 100.0)])
    entries.append(entry)
    assert await entry.served_by() == "kitchen"


async def test_a_burst_is_spread_before_anybody_announces_it(entries: list[Entry]) -> None:
    release = asyncio.Event()
    nodes = [node(name, n, m=engine("a", Wait(release))) for n, name in enumerate(("a", "b", "c"), 1)]
    entry = Entry(nodes)
    entries.append(entry)
    await entry.service.resolve("m")
    tasks = []
    for _ in range(6):
        tasks.append(asyncio.create_task(entry.chunks()))
        await eventually(lambda: sum(one.engines["m"].running for one in nodes) == len(tasks))
    assert [one.engines["m"].running for one in nodes] == [2, 2, 2]
    release.set()
    await asyncio.gather(*tasks)
    assert not entry.service.replicas.busy


def _fail(one: RemoteNode, how: str) -> None:
    scripted = one.engines["m"]
    match how:
        case "unreachable":
            one.reachable = False
        case "engine":
            scripted.scripts = [Script(steps=(EXITED,))]
        case "refuses":
            scripted.scripts = [Script(refusal=EXITED)]
        case "unloaded":
            one.service.hosted = {}
        case "full":
            scripted.scripts = [Script(refusal=Overloaded("Full."))]


@pytest.mark.parametrize("failure", ["unreachable", "engine", "refuses", "unloaded", "full"])
async def test_a_failure_before_the_first_piece_goes_on(entries: list[Entry], failure: str) -> None:
    bad, good = slow(node("attic", 1), 100.0), node("kitchen", 2)
    entry = Entry([bad, good])
    entries.append(entry)
    assert await entry.served_by() == "attic"
    _fail(bad, failure)
    assert await entry.served_by() == "kitchen"
    starts = [event for event in entry.events if isinstance(event, RequestStarted)]
    assert starts[-1].served_by == "kitchen"
    rows = functools.reduce(reduce, entry.events, NodeSnapshot()).requests
    assert [(row.served_by, row.status) for row in rows] == [("attic", "stop"), ("kitchen", "stop")]
    if failure == "full":
        assert entry.notices == []
    else:
        assert len(entry.notices) == 1
        assert "attic did not answer" in entry.notices[0]


async def test_a_failed_engine_here_leads_elsewhere(entries: list[Entry]) -> None:
    entry = Entry([node("kitchen")], m=engine(EXITED))
    entries.append(entry)
    assert await entry.served_by() == "kitchen"
    assert "entry did not answer" in entry.notices[0]


async def test_a_failure_after_the_first_piece_ends_the_answer(entries: list[Entry]) -> None:
    bad, good = slow(node("attic", 1, m=engine("a", EXITED)), 100.0), node("kitchen", 2)
    entry = Entry([bad, good])
    entries.append(entry)
    with pytest.raises(EngineExited, match="attic: The engine ended"):
        await entry.chunks()
    assert entry.requests("kitchen") == 0
    assert isinstance(entry.events[-1], RequestFinished)
    assert entry.events[-1].reason == "error"
    assert await entry.served_by() == "kitchen", "and it rests"


async def test_a_node_that_dies_in_the_middle(entries: list[Entry]) -> None:
    bad = slow(node("attic", 1, m=engine("a", Wait(asyncio.Event()))), 100.0)
    entry = Entry([bad, node("kitchen", 2)])
    entries.append(entry)
    task = asyncio.create_task(entry.chunks())
    await eventually(lambda: bad.engines["m"].running and bad.calls[-1].other.taken)
    bad.die()
    with pytest.raises(LinkClosed, match="attic went away"):
        await task
    assert await entry.served_by() == "kitchen"


async def test_it_rests_and_is_tried_again(entries: list[Entry]) -> None:
    bad, good = slow(node("attic", 1), 100.0), node("kitchen", 2)
    entry = Entry([bad, good])
    entries.append(entry)
    bad.reachable = False
    await entry.chunks()
    await entry.chunks()
    assert len(entry.notices) == 1, "it was not tried a second time"
    entry.now += 1.01
    await entry.chunks()
    assert len(entry.notices) == 2
    entry.now += 1.01
    await entry.chunks()
    assert len(entry.notices) == 2, "it rests twice as long"
    entry.now += 1.01
    bad.reachable = True
    assert await entry.served_by() == "attic"
    assert await entry.served_by() == "attic"


async def test_the_request_s_own_fault_goes_nowhere(entries: list[Entry]) -> None:
    bad = slow(node("attic", 1, m=engine(refusal=InvalidRequest("No.", param="stop"))), 100.0)
    entry = Entry([bad, node("kitchen", 2)])
    entries.append(entry)
    with pytest.raises(InvalidRequest, match="attic: No") as caught:
        await entry.chunks()
    assert caught.value.param == "stop"
    assert entry.requests("kitchen") == 0


async def test_a_long_prompt_goes_to_a_longer_context(entries: list[Entry]) -> None:
    long = ContextLengthExceeded("Too long.", param="messages")
    small = slow(node("attic", 1, m=engine(refusal=long)), 100.0, context=2048)
    same = slow(node("cellar", 2, m=engine(refusal=long)), 90.0, context=2048)
    large = slow(node("kitchen", 3), 10.0, context=8192)
    entry = Entry([small, same, large])
    entries.append(entry)
    assert await entry.served_by() == "kitchen"
    assert entry.requests("cellar") == 0
    large.alive = False
    with pytest.raises(ContextLengthExceeded):
        await entry.chunks()


async def test_all_are_full(entries: list[Entry]) -> None:
    full = [
        slow(node("attic", 1, m=engine(refusal=Overloaded("Full."))), 20.0, active=4, queued=8),
        slow(node("kitchen", 2, m=engine(refusal=Overloaded("Full."))), 20.0, active=4, queued=1),
    ]
    entry = Entry(full)
    entries.append(entry)
    with pytest.raises(Overloaded, match="All nodes that serve m are busy") as caught:
        await entry.chunks()
    # The kitchen has the shorter queue: 2 requests of 256 tokens at 20 / 2.5 tok/s, 4 lanes.
    assert caught.value.retry_after == 16


async def test_all_have_failed(entries: list[Entry]) -> None:
    entry = Entry([node("attic", 1), node("kitchen", 2)])
    entries.append(entry)
    await entry.service.resolve("m")
    for one in entry.peers.nodes:
        one.reachable = False
    with pytest.raises(ModelNotReady, match=r"No node that serves m can answer now\. .*kitchen cannot") as c:
        await entry.chunks()
    assert c.value.retry_after == 1
    with pytest.raises(ModelNotReady, match="cannot be reached") as c:
        await entry.chunks()
    assert c.value.retry_after == 1


async def test_all_holders_are_gone(entries: list[Entry]) -> None:
    kitchen = node("kitchen")
    entry = Entry([kitchen])
    entries.append(entry)
    await entry.chunks()
    kitchen.die()
    with pytest.raises(ModelNotReady, match="kitchen did") as caught:
        await entry.service.resolve("m")
    assert caught.value.retry_after == 5
    entry.now += 700
    with pytest.raises(ModelUnknown):
        await entry.service.resolve("m")


async def test_names(entries: list[Entry]) -> None:
    loading = node("attic", 2, big=engine())
    loading.offers = [offer("big", status="loading"), offer("bad\x1b[31m")]
    entry = Entry([node("kitchen"), loading], own=engine())
    entries.append(entry)
    with pytest.raises(ModelUnknown, match=r"in this mesh. Served: big, m, own\.$"):
        await entry.service.resolve("nope")
    with pytest.raises(ModelNotReady, match="big is still loading on attic"):
        await entry.service.resolve("big")
    with pytest.raises(ModelUnknown):
        await entry.service.resolve("bad\x1b[31m")


async def test_auto(entries: list[Entry]) -> None:
    big = ScriptedEngine(facts=msgspec.structs.replace(FACTS, parameters=9_000))
    vectors = ScriptedEngine(
        facts=msgspec.structs.replace(FACTS, parameters=90_000, embeddings=True, generates=False)
    )
    entry = Entry([node("kitchen", 1, big=big, m=engine(), v=vectors)], m=engine())
    entries.append(entry)
    assert (await entry.service.resolve("auto", "text"))[0].id == "big"
    assert (await entry.service.resolve("auto", "embeddings"))[0].id == "v"
    entry.service.replicas.health.failed((entry.peers.nodes[0].node, "big"), entry.now, "broke")
    assert (await entry.service.resolve("auto", "text"))[0].id == "m"
    assert await entry.served_by(model="m") == "entry"
    entry.hosted.clear()
    assert await entry.served_by(model="m") == "kitchen"


async def test_another_model_of_the_same_name_is_not_asked(entries: list[Entry]) -> None:
    other = slow(node("attic", 1), 500.0, parameters=7)
    entry = Entry([other, node("kitchen", 2)], m=engine(EXITED))
    entries.append(entry)
    assert await entry.served_by() == "kitchen"
    assert entry.requests("attic") == 0


async def test_a_conversation_stays(entries: list[Entry]) -> None:
    attic, kitchen = slow(node("attic", 1), 24.0), slow(node("kitchen", 2), 20.0)
    entry = Entry([attic, kitchen])
    entries.append(entry)
    attic.alive = False
    conversation = "x" * 600
    assert await entry.served_by(conversation) == "kitchen"
    assert await entry.served_by("Hi", session="alice") == "kitchen"
    attic.alive = True
    assert await entry.served_by("another" * 100) == "attic"
    assert await entry.served_by(conversation + "and more") == "kitchen"
    assert await entry.served_by("Something else", session="alice") == "kitchen"
    slow(kitchen, 2.0)
    assert await entry.served_by(conversation + "and more and more") == "attic"
    slow(kitchen, 20.0)
    assert await entry.served_by(conversation + "and more and more") == "attic", "now it knows it"


async def test_cancelling_a_routed_request(entries: list[Entry]) -> None:
    kitchen = node("kitchen", m=engine("a", Wait(asyncio.Event())))
    entry = Entry([kitchen])
    entries.append(entry)
    assert not entry.service.cancel(RequestId("r1"))
    task = asyncio.create_task(entry.chunks())
    await eventually(lambda: kitchen.engines["m"].running)
    assert entry.service.cancel(RequestId("r1"))
    with pytest.raises(RequestCancelled):
        await task
    await eventually(lambda: not kitchen.engines["m"].running)
    assert isinstance(entry.events[-1], RequestFinished)
    assert entry.events[-1].reason == "cancelled"
    assert entry.notices == []


async def test_the_other_calls_go_on_too(entries: list[Entry]) -> None:
    bad, good = slow(node("attic", 1), 100.0), node("kitchen", 2)
    entry = Entry([bad, good])
    entries.append(entry)
    _, computing = await entry.service.resolve("m")
    bad.reachable = False
    assert await computing.tokenize("Hi", add_special=True, parse_special=True) == (72, 105)
    assert entry.service.served(computing).name == "kitchen"
    assert await computing.detokenize([72]) == "H"
    good.reachable = False
    with pytest.raises(ModelNotReady):
        await computing.detokenize([72])
