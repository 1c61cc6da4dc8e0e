"""Which model a name means in a mesh, and what is said when nobody can answer."""

import msgspec
import pytest

from meshllm_core.errors import EngineExited, ModelNotReady, ModelUnknown, Overloaded
from tests.serve.entry import Entry, engine, slow
from tests.support.peers import node, offer
from tests.support.scripted_engine import FACTS, ScriptedEngine

EXITED = EngineExited("The engine ended.")


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
    with pytest.raises(ModelNotReady, match="kitchen served it last") as caught:
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


async def test_a_node_that_names_its_model_auto(entries: list[Entry]) -> None:
    trap = slow(node("attic", 2), 500.0, name="auto", parameters=10**15)
    entry = Entry([trap, node("kitchen")])
    entries.append(entry)
    assert (await entry.service.resolve("auto"))[0].id == "m"


async def test_another_model_of_the_same_name_is_not_asked(entries: list[Entry]) -> None:
    other = slow(node("attic", 1), 500.0, parameters=7)
    entry = Entry([other, node("kitchen", 2)], m=engine(EXITED))
    entries.append(entry)
    assert await entry.served_by() == "kitchen"
    assert entry.requests("attic") == 0
