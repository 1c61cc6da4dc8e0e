"""One endpoint for the models of several nodes, asked by OpenAI's own client over a real socket."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import openai
import pytest

from meshllm_core.api.openai.settings import OpenAISettings
from meshllm_core.errors import EngineExited, Overloaded
from meshllm_core.ids import ModelId
from meshllm_core.serve.answering import CallLimits
from meshllm_core.serve.router import HostedModel
from tests.api.openai.conftest import MODEL, Endpoint, chat_body, error_of, eventually, serving
from tests.api.openai.test_streaming import asked, lines_of
from tests.support.peers import ENTRY, MemoryPeers, RemoteNode, node, offer
from tests.support.scripted_engine import FACTS, Pause, Script, ScriptedEngine, Step, Wait

SERVED = "x-meshllm-served-by"
KITCHEN = "01" * 32
BY_KITCHEN = {"served_by": "kitchen", "node": KITCHEN, "route": "mesh", "hops": 1}
BY_ENTRY = {"served_by": "entry", "node": "ee" * 32, "route": "local", "hops": 0}


def engine(*steps: Step, **fields: Any) -> ScriptedEngine:
    return ScriptedEngine([Script(steps=steps or ("Hello", " there", "."), **fields)])


@contextlib.asynccontextmanager
async def mesh(
    *nodes: RemoteNode,
    local: dict[str, ScriptedEngine] | None = None,
    settings: OpenAISettings | None = None,
    name: str = "entry",
) -> AsyncIterator[Endpoint]:
    """The endpoint of a node that has links to `nodes`."""
    peers = MemoryPeers(*nodes)
    async with serving(local or {}, settings, peers=peers, name=name, node=ENTRY) as endpoint:
        yield endpoint
        await peers.close()


def kitchen(*steps: Step, **fields: Any) -> RemoteNode:
    return node("kitchen", 1, **{MODEL: engine(*steps, **fields)})


def broken() -> RemoteNode:
    """A node that looks quicker and fails before its first piece."""
    one = node("attic", 2, **{MODEL: engine(EngineExited("The engine ended."))})
    one.offers = [offer(MODEL, decode_tokens_per_second=100.0)]
    return one


async def test_one_client_talks_to_models_of_three_nodes() -> None:
    nodes = [node("kitchen", 1, b=engine("from b")), node("attic", 2, c=engine("from c"))]
    async with mesh(*nodes, local={"a": engine("from a")}) as endpoint, endpoint.sdk as client:
        for model in ("a", "b", "c"):
            raw = await client.chat.completions.with_raw_response.create(
                model=model, messages=[{"role": "user", "content": "Hi"}]
            )
            answer = raw.parse()
            assert answer.choices[0].message.content == f"from {model}"
            assert answer.model == model
        assert raw.headers[SERVED] == "attic 0202020202"
        listed = [model.id async for model in client.models.list()]
        assert listed == ["a", "b", "c"]


@pytest.mark.parametrize("where", ["here", "there"])
async def test_every_answer_says_who_served_it(where: str) -> None:
    nodes = [kitchen()] if where == "there" else []
    local = {MODEL: engine()} if where == "here" else {}
    expected, header = (
        (BY_ENTRY, "entry eeeeeeeeee") if where == "here" else (BY_KITCHEN, "kitchen 0101010101")
    )
    bodies: dict[str, dict[str, object]] = {
        "chat/completions": chat_body(),
        "completions": {"model": MODEL, "prompt": "Hi"},
        "responses": {"model": MODEL, "input": "Hi"},
    }
    async with mesh(*nodes, local=local) as endpoint:
        for path, body in bodies.items():
            whole = await endpoint.post(f"/v1/{path}", body)
            assert (whole.headers[SERVED], whole.json()["meshllm"]) == (header, expected)
            stream = await endpoint.post(f"/v1/{path}", {**body, "stream": True})
            assert stream.headers[SERVED] == header
            carrying = [line for line in stream.text.splitlines() if '"meshllm"' in line]
            assert len(carrying) == 1
            event = msgspec.json.decode(carrying[0].removeprefix("data: "))
            assert (event.get("response") or event)["meshllm"] == expected
        tokens = await endpoint.post("/v1/tokenize", {"model": MODEL, "content": "Hi"})
        assert (tokens.headers[SERVED], tokens.json()["tokens"]) == (header, [72, 105])
        text = await endpoint.post("/v1/detokenize", {"model": MODEL, "tokens": [72]})
        assert (text.headers[SERVED], text.json()["content"]) == (header, "H")


async def test_a_name_that_no_header_can_carry() -> None:
    one = kitchen()
    one.name = "Küche\r\nx: y"
    async with mesh(one) as endpoint:
        answer = await endpoint.chat()
    assert answer.headers[SERVED] == "K%C3%BCche%0D%0Ax%3A%20y 0101010101"
    assert "x" not in answer.headers


async def test_embeddings_of_another_node() -> None:
    facts = msgspec.structs.replace(FACTS, embeddings=True, generates=False)
    one = node("kitchen", 1, vectors=ScriptedEngine(facts=facts))
    async with mesh(one) as endpoint, endpoint.sdk as client:
        raw = await client.embeddings.with_raw_response.create(model="vectors", input=["a", "bc"])
        answer = raw.parse()
        assert [item.embedding for item in answer.data] == [[1.0, 0.0, 0.0, 0.0]] * 2
        assert answer.usage.prompt_tokens == 3
        assert raw.headers[SERVED] == "kitchen 0101010101"
        refused = await endpoint.post("/v1/chat/completions", chat_body(model="vectors"))
        assert error_of(refused)["code"] == "unsupported_model_feature"


@pytest.mark.parametrize("stream", [True, False])
async def test_the_header_is_right_after_a_failover(stream: bool) -> None:
    async with mesh(broken(), kitchen()) as endpoint:
        answer = await endpoint.chat(stream=stream)
        assert answer.status_code == 200
        assert answer.headers[SERVED] == "kitchen 0101010101"
        assert answer.text.count('"role":"assistant"') == 1
        assert "Hello" in answer.text


async def test_a_long_prompt_keeps_the_stream_alive_and_the_name_pending() -> None:
    release = asyncio.Event()
    quick = OpenAISettings(keep_alive_seconds=0.05)
    async with (
        mesh(kitchen(Wait(release), "Hi"), settings=quick) as endpoint,
        asked(endpoint, stream=True) as reader,
    ):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert f"{SERVED}: pending" in head
        lines = lines_of(reader)
        assert [await anext(lines) for _ in range(2)] == [": keep-alive"] * 2
        release.set()
        rest = [line async for line in lines if line != ": keep-alive"]
        assert '"role":"assistant"' in rest[0]
        assert '"served_by":"kitchen"' in rest[-2]
        assert rest[-1] == "data: [DONE]"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_the_other_node_s_lane(stream: bool) -> None:
    one = kitchen("a", Wait(asyncio.Event()))
    async with mesh(one) as endpoint:
        async with asked(endpoint, stream=stream) as reader:
            await eventually(lambda: one.engines[MODEL].running)
            if stream:
                await reader.readline()
        began = time.monotonic()
        await eventually(lambda: not one.engines[MODEL].running)
        assert time.monotonic() - began < 0.3
        assert len(one.engines[MODEL].cancelled) == 1


async def test_a_node_that_dies_in_the_middle_ends_the_stream_with_its_name() -> None:
    one = kitchen("a", Wait(asyncio.Event()))
    async with mesh(one) as endpoint, asked(endpoint, stream=True) as reader:
        lines = lines_of(reader)
        while '"content":"a"' not in await anext(lines):
            pass
        one.die()
        last = [line async for line in lines][-1]
        assert '"code":"link_closed"' in last
        assert "kitchen went away" in last


async def test_refusals_carry_the_node_and_the_client_s_own_field_names() -> None:
    async with mesh(kitchen(refusal=Overloaded("Full.", retry_after=7))) as endpoint:
        answer = await endpoint.chat(stream=True)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
        assert "kitchen: Full." in error_of(answer)["message"]


async def test_guests_are_told_when_to_come_back() -> None:
    one = kitchen("a", Wait(asyncio.Event()))
    one.limits = CallLimits(per_peer=1)
    async with mesh(one) as endpoint:
        await endpoint.post("/v1/tokenize", {"model": MODEL, "content": "x"})
        async with asked(endpoint, stream=True):
            await eventually(lambda: one.engines[MODEL].running)
            async with endpoint.sdk as client:
                with pytest.raises(openai.RateLimitError) as caught:
                    await client.completions.create(model=MODEL, prompt="x")
            assert caught.value.response.headers["retry-after"] == "2"


async def test_unknown_gone_and_loading() -> None:
    one = kitchen()
    one.offers.append(offer("slow", status="loading"))
    async with mesh(one, local={"own": engine()}) as endpoint:
        unknown = await endpoint.chat(model="nope")
        assert (unknown.status_code, error_of(unknown)["code"]) == (404, "model_not_found")
        assert "own, scripted, slow" in error_of(unknown)["message"]
        loading = await endpoint.chat(model="slow")
        assert (loading.status_code, loading.headers["retry-after"]) == (503, "2")
        assert "loading on kitchen" in error_of(loading)["message"]
        await endpoint.chat()
        one.die()
        gone = await endpoint.chat()
        assert (gone.status_code, gone.headers["retry-after"]) == (503, "5")
        assert "kitchen" in error_of(gone)["message"]


async def test_all_holders_fail() -> None:
    async with mesh(broken()) as endpoint:
        answer = await endpoint.chat(stream=True)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "attic: The engine ended." in error_of(answer)["message"]


async def test_models_are_listed_once_with_who_has_them() -> None:
    other = node("attic", 2, **{MODEL: engine(), "big": engine()})
    other.offers[0] = offer(MODEL, status="loading")
    async with mesh(kitchen(), other, local={MODEL: engine()}) as endpoint:
        first, second = (await endpoint.http.get("/v1/models")).json()["data"]
        assert first["meshllm"]["nodes"] == [
            {"name": "entry", "node": "ee" * 32, "status": "ready", "local": True},
            {"name": "attic", "node": "02" * 32, "status": "loading", "local": False},
            {"name": "kitchen", "node": KITCHEN, "status": "ready", "local": False},
        ]
        assert (second["id"], second["status"], second["object"]) == ("big", "ready", "model")
        assert "vocabulary" not in second["meta"]
        assert second["meta"]["context"] == 4096
        await endpoint.chat(model="big")
        one = (await endpoint.http.get("/v1/models/big")).json()
        assert one["meta"]["vocabulary"] == FACTS.vocabulary
        missing = await endpoint.http.get("/v1/models/nope")
        assert "big" in error_of(missing)["message"]
        assert (await endpoint.http.get("/readyz")).json()["models"] == {MODEL: "ready", "big": "ready"}


async def test_readiness_counts_other_nodes() -> None:
    one = kitchen()
    async with mesh(one) as endpoint:
        assert (await endpoint.http.get("/readyz")).status_code == 200
        one.alive = False
        assert (await endpoint.http.get("/readyz")).status_code == 503


async def test_what_is_not_ready_here_is_ready_in_the_mesh() -> None:
    async with mesh(kitchen()) as endpoint:
        endpoint.hosted[ModelId(MODEL)] = HostedModel(ModelId(MODEL), 0, "failed", detail="no memory")
        (listed,) = (await endpoint.http.get("/v1/models")).json()["data"]
        assert (listed["status"], "detail" in listed) == ("ready", False)
        assert (await endpoint.chat()).headers[SERVED].startswith("kitchen")


@pytest.mark.parametrize("field", ["prompt_cache_key", "user"])
async def test_a_conversation_stays_with_its_node(field: str) -> None:
    attic, second = node("attic", 2, **{MODEL: engine()}), kitchen()
    second.offers = [offer(MODEL, decode_tokens_per_second=19.0)]
    async with mesh(attic, second) as endpoint:
        attic.alive = False
        await endpoint.chat(**{field: "alice"})
        attic.alive = True
        assert (await endpoint.chat(**{field: "bob"})).headers[SERVED].startswith("attic")
        assert (await endpoint.chat(**{field: "alice"})).headers[SERVED].startswith("kitchen")
        assert {request.session for request in second.engines[MODEL].requests} == {""}


async def test_tools_and_templates_are_the_entry_node_s_work() -> None:
    call = '<tool_call>\n{"name": "look", "arguments": {"at": "sky"}}\n</tool_call>'
    one = kitchen(call)
    template = "{{ tools | tojson }}<tool_call></tool_call>{% for m in messages %}{{ m.content }}{% endfor %}"
    one.engines[MODEL].facts = msgspec.structs.replace(FACTS, chat_template=template)
    tools: Any = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    async with mesh(one) as endpoint, endpoint.sdk as client:
        answer = await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "Hi"}], tools=tools
        )
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].function.name == "look"  # type: ignore[union-attr]
    assert '"look"' in str(one.engines[MODEL].requests[0].prompt)


async def test_long_answers_arrive_whole_and_in_order() -> None:
    words = [f"w{number} " for number in range(400)]
    steps: list[Step] = []
    for number, word in enumerate(words):
        steps += [word, Pause(0)] if number % 7 == 0 else [word]
    async with mesh(kitchen(*steps)) as endpoint, endpoint.sdk as client:
        stream = await client.completions.create(model=MODEL, prompt="x", stream=True)
        assert "".join([chunk.choices[0].text async for chunk in stream]) == "".join(words)
