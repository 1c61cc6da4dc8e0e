"""`/v1/completions`, whole and streamed."""

import asyncio

import msgspec

from meshllm_core.engine.types import PositionLogprobs, TokenLogprob
from meshllm_core.errors import Overloaded
from tests.api.openai.conftest import MODEL, Endpoint, error_of, eventually, scripted, serving
from tests.support.scripted_engine import Piece, ScriptedEngine, Wait

REQUEST_ID = "00000000-0000-4000-8000-00000000000a"


async def test_a_text_is_continued(endpoint: Endpoint) -> None:
    answer = await endpoint.post(
        "/v1/completions", {"model": MODEL, "prompt": "Say:", "seed": 7, "top_k": -1}
    )
    body = answer.json()
    assert body["choices"] == [{"index": 0, "text": "Hello there.", "finish_reason": "stop"}]
    assert body["object"] == "text_completion"
    assert body["model"] == MODEL
    assert body["usage"] == {
        "prompt_tokens": 4,
        "completion_tokens": 3,
        "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    assert body["timings"]["predicted_n"] == 3
    assert "null" not in answer.text


async def test_fields_reach_the_engine() -> None:
    engine = scripted()
    async with serving({MODEL: engine}) as endpoint:
        fields = {
            "prompt": [72, 105],
            "temperature": 0,
            "top_p": 0.5,
            "min_p": 0.1,
            "typical_p": 0.9,
            "repetition_penalty": 1.2,
            "presence_penalty": -1,
            "frequency_penalty": 1,
            "seed": -1,
            "logit_bias": {"5": -100},
            "stop": "END",
            "max_tokens": 2,
            "grammar": 'root ::= "a"',
            "ignore_eos": True,
            "logprobs": 3,
            "n": 1,
            "best_of": 1,
            "echo": False,
            "suffix": "",
            "user": "me",
        }
        answer = await endpoint.post("/v1/completions", {"model": "auto", **fields})
        assert answer.status_code == 200, answer.text
    asked = engine.requests[0]
    assert asked.prompt == (72, 105)
    assert (asked.stop, asked.max_tokens, asked.grammar) == (("END",), 2, 'root ::= "a"')
    assert (asked.ignore_eos, asked.top_logprobs) == (True, 3)
    assert asked.sampling.temperature == 0
    assert asked.sampling.repeat_penalty == 1.2
    assert asked.sampling.logit_bias == ((5, -100.0),)
    assert asked.sampling.seed == 2**32 - 2
    assert (asked.sampling.top_k, asked.sampling.typical_p) == (40, 0.9)


async def test_golden_stream(endpoint: Endpoint) -> None:
    answer = await endpoint.post(
        "/v1/completions",
        {"model": MODEL, "prompt": "x", "stream": True, "stream_options": {"include_usage": True}},
        **{"x-request-id": REQUEST_ID},
    )
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["x-request-id"] == REQUEST_ID
    created = answer.text.split('"created":')[1].split(",")[0]
    head = (
        'data: {"id":"cmpl-0000000000004000800000000000000a","object":"text_completion",'
        f'"created":{created},"model":"scripted"'
    )
    assert answer.text == "".join(
        [
            head + ',"choices":[{"index":0,"text":"Hello","finish_reason":null}]}\n\n',
            head + ',"choices":[{"index":0,"text":" there","finish_reason":null}]}\n\n',
            head + ',"choices":[{"index":0,"text":".","finish_reason":null}]}\n\n',
            head + ',"choices":[{"index":0,"text":"","finish_reason":"stop"}],"timings":{"queue_ms":0.0,'
            '"cache_n":0,"prompt_n":1,"prompt_ms":1.0,"prompt_per_second":1000.0,"predicted_n":3,'
            '"predicted_ms":3.0,"predicted_per_second":666.667}}\n\n',
            head + ',"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":3,"total_tokens":4,'
            '"prompt_tokens_details":{"cached_tokens":0}}}\n\n',
            "data: [DONE]\n\n",
        ]
    )


async def test_logprobs() -> None:
    chosen = TokenLogprob(1, b"Hi", -0.25)
    other = TokenLogprob(2, b"\xff", float("-inf"))
    piece = Piece("Hi", logprobs=(PositionLogprobs(chosen, (chosen, other)),))
    async with serving({MODEL: scripted(piece, piece)}) as endpoint:
        answer = await endpoint.post("/v1/completions", {"model": MODEL, "prompt": "x", "logprobs": 2})
        assert answer.json()["choices"][0]["logprobs"] == {
            "tokens": ["Hi", "Hi"],
            "token_logprobs": [-0.25, -0.25],
            "text_offset": [0, 2],
            "top_logprobs": [{"Hi": -0.25, "\ufffd": -9999.0}] * 2,
        }
        answer = await endpoint.post("/v1/completions", {"model": MODEL, "prompt": "x", "logprobs": 0})
        assert "top_logprobs" not in answer.json()["choices"][0]["logprobs"]


async def test_a_full_queue_says_when_to_come_back() -> None:
    engine = scripted(refusal=Overloaded("Every lane is busy.", retry_after=3))
    async with serving({MODEL: engine}) as endpoint:
        for stream in (False, True):
            answer = await endpoint.post("/v1/completions", {"model": MODEL, "prompt": "x", "stream": stream})
            assert answer.status_code == 429
            assert answer.headers["retry-after"] == "3"
            assert error_of(answer)["code"] == "rate_limit_exceeded"
        assert endpoint.events == []


async def test_requests_of_one_id_at_a_time_are_several_for_the_engine() -> None:
    release = asyncio.Event()
    engine = scripted(Wait(release), "Hi")
    async with serving({MODEL: engine}) as endpoint:
        body = {"model": MODEL, "prompt": "x"}
        asking = [
            asyncio.create_task(endpoint.post("/v1/completions", body, **{"x-request-id": REQUEST_ID}))
            for _ in range(3)
        ]
        await eventually(lambda: engine.running == 3)
        release.set()
        answers = await asyncio.gather(*asking)
        again = await endpoint.post("/v1/completions", body, **{"x-request-id": REQUEST_ID})
    assert {answer.headers["x-request-id"] for answer in [*answers, again]} == {REQUEST_ID}
    assert len({request.request_id for request in engine.requests[:3]}) == 3
    assert engine.requests[3].request_id == REQUEST_ID


async def test_embedding_models_do_not_write() -> None:
    facts = msgspec.structs.replace(ScriptedEngine().facts, generates=False, embeddings=True)
    async with serving({MODEL: ScriptedEngine(facts=facts)}) as endpoint:
        answer = await endpoint.post("/v1/completions", {"model": MODEL, "prompt": "x"})
        assert answer.status_code == 400
        assert error_of(answer)["code"] == "unsupported_model_feature"
