"""Where a request goes: here first, then the quickest, and on to the next where one fails."""

import asyncio
import functools
from typing import Any

import msgspec
import pytest

from meshllm_core.errors import (
    ContextLengthExceeded,
    EngineExited,
    InvalidRequest,
    LinkClosed,
    ModelNotReady,
    Overloaded,
    RequestCancelled,
)
from meshllm_core.ids import ModelId, RequestId
from meshllm_core.serve.router import HostedModel
from meshllm_core.state.events import RequestFinished, RequestStarted
from meshllm_core.state.reduce import reduce
from meshllm_core.state.snapshot import NodeSnapshot
from tests.api.openai.conftest import eventually
from tests.serve.entry import Entry, engine, slow
from tests.support.peers import RemoteNode, node
from tests.support.scripted_engine import FACTS, Script, ScriptedEngine, Wait

EXITED = EngineExited("The engine ended.")


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
