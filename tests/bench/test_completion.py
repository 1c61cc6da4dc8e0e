"""One timed request: what is sent, how the stream is read, and how every fault is named."""

import json
import time
from dataclasses import replace

import httpx
import pytest

from meshllm_core.bench.completion import Target, complete, find_target, settle_extensions
from meshllm_core.bench.endpoint import parse_endpoint
from meshllm_core.errors import EngineTimeout, InvalidRequest, ModelUnknown, NodeNotRunning, RequestError
from tests.bench.stub import Behaviour, Stub, stub_server


def target(stub: Stub) -> Target:
    return Target(parse_endpoint(stub.url), "stub", timeout=5.0)


async def test_figures_are_those_of_the_delays() -> None:
    async with stub_server(Behaviour(first_delay=0.1, token_delay=0.02, cached_tokens=3)) as stub:
        timing = await complete(target(stub), " a b c d e f g h", 11)
    assert 0.1 <= timing.time_to_first_token < 0.3
    assert timing.decode_rate and 20 < timing.decode_rate < 51
    assert (timing.prompt_tokens, timing.cached_tokens, timing.completion_tokens) == (8, 3, 11)
    assert timing.prompt_rate == pytest.approx(5 / timing.time_to_first_token)
    assert timing.events == 12
    assert 0.019 <= timing.longest_gap < 0.2


async def test_the_wait_for_usage_is_not_decoding() -> None:
    async with stub_server(Behaviour(token_delay=0.2)) as stub:
        timing = await complete(target(stub), " a", 2)
    assert 0.19 < timing.ended - timing.first < 0.38


async def test_what_is_sent() -> None:
    async with stub_server() as stub:
        await complete(target(stub), " a", 2)
        await complete(replace(target(stub), route="chat", ignore_eos=False), " a", 2)
    plain, chat = stub.bodies
    assert plain == {
        "model": "stub",
        "prompt": " a",
        "max_tokens": 2,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }
    assert chat["messages"] == [{"role": "user", "content": " a"}]
    assert "ignore_eos" not in chat
    assert stub.paths == ["/v1/completions", "/v1/chat/completions"]


@pytest.mark.parametrize("behaviour", [
    Behaviour(newline="\r\n"),
    Behaviour(newline="\r\n", split=1),
    Behaviour(split=3),
    Behaviour(framed=False),
])  # fmt: skip
@pytest.mark.parametrize("route", ["completions", "chat"])
async def test_any_framing_gives_the_same_events(behaviour: Behaviour, route: str) -> None:
    async with stub_server(behaviour) as stub:
        where = target(stub)
        timing = await complete(replace(where, route="chat") if route == "chat" else where, " a b", 4)
    assert (timing.events, timing.completion_tokens, timing.prompt_tokens) == (5, 4, 2)


@pytest.mark.parametrize(("behaviour", "words"), [
    (Behaviour(failure="error"), "the engine ended"),
    (Behaviour(failure="close"), "in the middle"),
    (Behaviour(usage=False), "no usage"),
    (Behaviour(usage={"prompt_tokens": -1, "completion_tokens": 2}), "no sense"),
    (Behaviour(usage={"prompt_tokens": "9", "completion_tokens": 2}), "no sense"),
    (Behaviour(usage=[1]), "no usage"),
    (Behaviour(refused_field="temperature"), "'temperature'"),
])  # fmt: skip
async def test_faults_are_named(behaviour: Behaviour, words: str) -> None:
    async with stub_server(behaviour) as stub:
        with pytest.raises(RequestError, match=words):
            await complete(target(stub), " a", 4)


async def test_a_server_that_hangs_is_left() -> None:
    async with stub_server(Behaviour(failure="hang")) as stub:
        began = time.monotonic()
        with pytest.raises(EngineTimeout, match=r"within 0\.2 s"):
            await complete(replace(target(stub), timeout=0.2), " a", 4)
        assert time.monotonic() - began < 2


async def test_no_server() -> None:
    async with stub_server() as stub:
        gone = target(stub)
    with pytest.raises(NodeNotRunning, match=r"meshllm serve"):
        await complete(gone, " a", 1)


async def test_ignore_eos_is_left_out_only_where_it_is_refused() -> None:
    async with stub_server(Behaviour(refused_field="ignore_eos")) as stub:
        settled, timing = await settle_extensions(target(stub), " a")
        assert not settled.ignore_eos
        assert timing.completion_tokens == 1
    async with stub_server(Behaviour(refused_field="stream_options")) as stub:
        with pytest.raises(RequestError, match="stream_options"):
            await settle_extensions(target(stub), " a")
        assert len(stub.bodies) == 1


async def test_the_model_is_the_only_one_or_must_be_named() -> None:
    async with stub_server(Behaviour(models=("only",))) as stub:
        assert (await find_target(parse_endpoint(stub.url), None)).model == "only"
    async with stub_server(Behaviour(models=("a", "b"))) as stub:
        assert (await find_target(parse_endpoint(stub.url), "b")).model == "b"
        with pytest.raises(InvalidRequest, match="--model: a, b"):
            await find_target(parse_endpoint(stub.url), None)
    async with stub_server(Behaviour(models=())) as stub:
        with pytest.raises(ModelUnknown):
            await find_target(parse_endpoint(stub.url), None)


async def test_the_client_costs_less_than_httpx() -> None:
    """The reason for a client of its own: it shares the processor with what it measures."""
    tokens = 1_500
    async with stub_server() as stub:
        began = time.process_time()
        await complete(target(stub), " a", tokens)
        own = time.process_time() - began
        body = {**stub.bodies[0], "max_tokens": tokens}
        async with httpx.AsyncClient(trust_env=False) as client:
            began = time.process_time()
            async with client.stream("POST", f"{stub.url}/v1/completions", json=body) as response:
                lines = [json.loads(line[6:]) async for line in response.aiter_lines() if line[6:7] == "{"]
            common = time.process_time() - began
    assert len(lines) == tokens + 2
    assert own < common
