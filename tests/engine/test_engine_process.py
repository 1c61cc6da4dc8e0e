"""The engine child with the real model: batching, reuse, limits, sampling, and its death."""

import asyncio
import json
import math
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from meshllm_core.engine import supervisor
from meshllm_core.engine.protocol import LoadSpec
from meshllm_core.engine.supervisor import EngineProcess
from meshllm_core.engine.types import Delta, Sampling
from meshllm_core.errors import (
    ContextLengthExceeded,
    EngineExited,
    InvalidRequest,
    ModelFileInvalid,
    Overloaded,
    StorageError,
    UnsupportedField,
)
from meshllm_core.node.devices import list_devices
from tests.support.engines import Result, request, run, running_engine

pytestmark = pytest.mark.model

PARIS = "The capital of France is"


async def test_greedy_text_is_the_same_alone_reused_and_beside_others(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        alone = await run(engine, PARIS)
        assert alone.text.startswith(" Paris")
        assert alone.end.completion_tokens == 16
        assert alone.end.reason == "length"
        again = await run(engine, PARIS)
        assert again.text == alone.text
        assert again.end.cached_tokens == alone.end.prompt_tokens - 1
        several = await asyncio.gather(*(run(engine, PARIS) for _ in range(5)))
        assert {result.text for result in several} == {alone.text}


async def test_a_shared_beginning_is_reused_and_gives_the_same_answer(tmp_path: Path) -> None:
    story = " ".join(f"Item {i} is a thing." for i in range(20))
    async with running_engine(tmp_path) as engine:
        fresh = [await run(engine, f"{story} {end}") for end in ("One", "Two")]
    async with running_engine(tmp_path) as engine:
        both = await asyncio.gather(run(engine, story + " One"), run(engine, story + " Two"))
        third = await run(engine, story + " Two")
    assert [result.text for result in both] == [result.text for result in fresh]
    assert third.text == fresh[1].text
    assert third.end.cached_tokens > 100


async def test_prefill_of_one_request_does_not_starve_the_stream_of_another(tmp_path: Path) -> None:
    async with running_engine(tmp_path, context=2048) as engine:
        await run(engine, "warm up " * 100, max_tokens=1)
        gaps: list[float] = []
        last = time.monotonic()
        long = asyncio.create_task(run(engine, "a long prompt " * 600, max_tokens=1))
        async for chunk in engine.generate(request(PARIS, max_tokens=40, ignore_eos=True)):
            if isinstance(chunk, Delta):
                gaps.append(time.monotonic() - last)
                last = time.monotonic()
        result = await long
    assert result.end.prompt_tokens > 1000
    # A step that held the whole prompt would be one gap as long as the prefill.
    assert max(gaps[1:]) < result.end.timings.prefill_ms / 1000 / 2


async def test_a_full_cache_evicts_idle_prefixes_and_fails_nobody(tmp_path: Path) -> None:
    async with running_engine(tmp_path, context=256, lanes=2, prefix_slots=6) as engine:
        prompts = [f"Number {i}: " + "word " * 180 for i in range(8)]
        results = await asyncio.gather(*(run(engine, prompt) for prompt in prompts[:4]))
        results += [await run(engine, prompt) for prompt in prompts[4:]]
    assert all(result.end.completion_tokens == 16 for result in results)


async def test_a_prompt_longer_than_the_context_is_refused_and_others_go_on(tmp_path: Path) -> None:
    async with running_engine(tmp_path, context=256) as engine:
        other = asyncio.create_task(run(engine, PARIS))
        with pytest.raises(ContextLengthExceeded, match="256"):
            await run(engine, "word " * 300)
        assert (await other).end.completion_tokens == 16
        full = await run(engine, "word " * 200, max_tokens=None, ignore_eos=True)
        assert full.end.reason == "length"
        assert full.end.prompt_tokens + full.end.completion_tokens == 256


async def test_the_queue_is_bounded(tmp_path: Path) -> None:
    async with running_engine(tmp_path, queue_limit=3) as engine:
        results = await asyncio.gather(
            *(run(engine, f"{PARIS} {i}", max_tokens=60) for i in range(12)), return_exceptions=True
        )
        refused = [r for r in results if isinstance(r, Overloaded)]
        served = [r for r in results if isinstance(r, Result)]
        assert len(refused) + len(served) == 12
        assert len(served) == 5
        assert (await run(engine, PARIS)).end.completion_tokens == 16


async def test_closing_the_stream_frees_the_lane_at_once(tmp_path: Path) -> None:
    async with running_engine(tmp_path, lanes=1, queue_limit=1) as engine:
        stream = engine.generate(request(PARIS, max_tokens=400, ignore_eos=True))
        async for chunk in stream:
            if isinstance(chunk, Delta):
                break
        began = time.monotonic()
        await stream.aclose()  # type: ignore[attr-defined]
        assert (await run(engine, "Next", max_tokens=1)).end.completion_tokens == 1
        assert time.monotonic() - began < 1.0


async def test_cancel_from_outside_ends_the_stream_in_order(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        wanted = request(PARIS, max_tokens=400, ignore_eos=True)
        ends = []
        async for chunk in engine.generate(wanted):
            if isinstance(chunk, Delta):
                engine.cancel(wanted.request_id)
            ends.append(chunk)
        assert getattr(ends[-1], "reason", "") == "cancelled"
        assert not engine.cancel(wanted.request_id)


async def test_sampling_follows_its_settings(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        warm = Sampling(temperature=1.5, seed=7)
        first, second = [await run(engine, PARIS, sampling=warm) for _ in range(2)]
        other = await run(engine, PARIS, sampling=Sampling(temperature=1.5, seed=8))
        assert first.text == second.text != other.text
        paris = (await engine.tokenize(" Paris", add_special=False, parse_special=False))[0]
        biased = await run(
            engine, PARIS, sampling=Sampling(temperature=0, logit_bias=((paris, -100.0),)), max_tokens=1
        )
        assert biased.text != " Paris"
        loop = Sampling(temperature=0, repeat_penalty=1.5, frequency_penalty=0.5, presence_penalty=0.5)
        assert (await run(engine, "a a a a a a", sampling=loop)).text != (
            await run(engine, "a a a a a a")
        ).text
        with pytest.raises(InvalidRequest, match="vocabulary"):
            await run(engine, PARIS, sampling=Sampling(logit_bias=((999_999, 1.0),)))


async def test_logprobs_are_those_of_the_model(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        result = await run(engine, PARIS, top_logprobs=3, max_tokens=4)
        assert len(result.logprobs) == 4
        for position in result.logprobs:
            assert position.chosen == position.top[0]
            values = [entry.logprob for entry in position.top]
            assert values == sorted(values, reverse=True)
            assert sum(math.exp(value) for value in values) <= 1.0 + 1e-6
        assert b"".join(p.chosen.text for p in result.logprobs).decode() == result.text
        none = await run(engine, PARIS, top_logprobs=0, max_tokens=2)
        assert all(position.top == () for position in none.logprobs)


async def test_grammar_and_schema_bind_the_answer(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}, "size": {"enum": ["small", "big"]}},
        "required": ["city", "size"],
        "additionalProperties": False,
    }
    async with running_engine(tmp_path) as engine:
        result = await run(engine, PARIS, json_schema=json.dumps(schema), max_tokens=80)
        assert set(json.loads(result.text)) == {"city", "size"}
        assert result.end.reason == "stop"
        gbnf = await run(engine, PARIS, grammar='root ::= "yes" | "no"', max_tokens=20)
        assert gbnf.text in ("yes", "no")
        hot = Sampling(temperature=2.0, top_p=1.0, top_k=0, min_p=0.0, seed=3)
        digits = await run(engine, PARIS, grammar="root ::= [0-9]{6}", sampling=hot, max_tokens=20)
        assert digits.text.isdigit()
        assert len(digits.text) == 6
        with pytest.raises(InvalidRequest, match="grammar"):
            await run(engine, PARIS, grammar='root ::= "a" (')
        with pytest.raises(InvalidRequest, match="grammar"):
            await run(engine, PARIS, grammar='other ::= "a"')
        with pytest.raises(InvalidRequest, match="grammar"):
            await run(engine, PARIS, grammar="root ::= root")
        assert (await run(engine, PARIS)).text.startswith(" Paris")


async def test_a_grammar_can_wait_for_its_trigger(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        free = await run(
            engine, PARIS, grammar='root ::= "Paris" " is " [a-z]+', grammar_triggers=("nowhere",)
        )
        assert free.text == (await run(engine, PARIS)).text
        bound = await run(
            engine, PARIS, grammar='root ::= "Paris" " is it."', grammar_triggers=("Paris",), max_tokens=20
        )
        assert bound.text == " Paris is it."
        misfit = await run(engine, PARIS, grammar='root ::= "Pa" "x"', grammar_triggers=("Paris",))
        assert misfit.end.completion_tokens == 16


async def test_stop_strings_and_end_tokens(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        whole = await run(engine, PARIS, max_tokens=30)
        stopped = await run(engine, PARIS, max_tokens=30, stop=("United", "zzz"))
        assert stopped.text == whole.text[: whole.text.index("United")]
        assert stopped.end.reason == "stop"
        assert stopped.end.stop_text == "United"
        chat = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
        answer = await run(engine, chat, max_tokens=200)
        assert answer.end.reason == "stop"
        assert "<|im_end|>" not in answer.text
        nothing = await run(engine, PARIS, max_tokens=0)
        assert (nothing.text, nothing.end.reason, nothing.end.completion_tokens) == ("", "length", 0)


async def test_tokens_both_ways(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        text = "héllo 😀 <|im_end|>"
        plain = await engine.tokenize(text, add_special=False, parse_special=False)
        special = await engine.tokenize(text, add_special=False, parse_special=True)
        assert len(special) < len(plain)
        assert await engine.detokenize(plain) == text
        by_ids = await run(engine, await engine.tokenize(PARIS, add_special=True, parse_special=True))
        assert by_ids.text == (await run(engine, PARIS)).text
        with pytest.raises(InvalidRequest):
            await run(engine, (1, 10_000_000))
        with pytest.raises(InvalidRequest):
            await engine.detokenize((-1,))
        with pytest.raises(InvalidRequest):
            await run(engine, ())
        with pytest.raises(UnsupportedField):
            await engine.embed(["x"])


async def test_killed_in_the_middle_of_a_stream(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        with pytest.raises(EngineExited) as caught:
            async for chunk in engine.generate(request(PARIS, max_tokens=400, ignore_eos=True)):
                if isinstance(chunk, Delta):
                    os.kill(engine.pid, signal.SIGKILL)
        assert caught.value.reason == "signal"
        assert (await asyncio.wait_for(engine.exited, 5)).reason == "signal"
        with pytest.raises(EngineExited):
            await run(engine, PARIS)


async def test_the_child_ends_with_its_node(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        stream = engine.generate(request(PARIS, max_tokens=400, ignore_eos=True))
        await anext(stream)
        pid = engine.pid
    assert not psutil.pid_exists(pid)
    assert not engine.exited.done()


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all" * 100])
async def test_a_bad_file_is_a_typed_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    engine = EngineProcess("bad", tmp_path / "engine.log", lambda stats: None)
    spec = LoadSpec(files=(str(path),), context=256, lanes=1, prefix_slots=1, queue_limit=1, threads=1)
    with pytest.raises(ModelFileInvalid, match=r"bad\.gguf"):
        await engine.start(spec, lambda fraction: None)


async def test_a_long_prefill_is_interrupted_and_its_neighbour_is_not_harmed(tmp_path: Path) -> None:
    long = "one two three four " * 450
    async with running_engine(tmp_path, context=2048, prefill_chunk=1024, batch=1024) as engine:
        await run(engine, "measure " * 600, max_tokens=1)
        whole = await run(engine, long, max_tokens=1)
        assert whole.end.cached_tokens < 10
        expected = await run(engine, PARIS)
        stream = engine.generate(request("again " + long))
        started = await anext(stream)
        assert started.request_id
        await asyncio.sleep(0.2)
        began = time.monotonic()
        await stream.aclose()  # type: ignore[attr-defined]
        after = await run(engine, PARIS)
        waited = time.monotonic() - began
    assert after.text == expected.text
    assert waited < whole.end.timings.prefill_ms / 1000 / 2


async def test_the_device_list_comes_from_a_child() -> None:
    names = [device.name for device in await asyncio.to_thread(list_devices)]
    assert "CPU" in names


async def test_conversations_by_turns_are_parked_and_come_back(tmp_path: Path) -> None:
    talks = [f"Talk {i}. " + f"Sentence number {i} of it. " * 25 for i in range(5)]
    async with running_engine(tmp_path, context=1024, parking_bytes=64 << 20) as engine:
        fresh = [await run(engine, text, max_tokens=1) for text in talks]
        again = [await run(engine, text + "Sentence number", max_tokens=5) for text in talks]
    assert all(result.end.cached_tokens < 20 for result in fresh)
    assert all(result.end.cached_tokens > 150 for result in again), [r.end.cached_tokens for r in again]
    # The pattern leaves no doubt, so that the answer tells whose tokens came back.
    assert [result.text for result in again] == [f" {i} of it." for i in range(5)]


async def test_without_parking_room_idle_prefixes_are_given_up(tmp_path: Path) -> None:
    talks = [f"Talk {i}. " + f"Sentence number {i} of it. " * 25 for i in range(4)]
    async with running_engine(tmp_path, context=1024, parking_bytes=0) as engine:
        for text in talks:
            await run(engine, text, max_tokens=1)
        first = await run(engine, talks[0], max_tokens=1)
        assert first.end.cached_tokens < 20
        last = await run(engine, talks[0], max_tokens=1)
        assert last.end.cached_tokens > 150


async def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    in_the_way = tmp_path / "logs"
    in_the_way.write_text("a file, not a folder")
    engine = EngineProcess("m", in_the_way / "engine.log", lambda stats: None)
    spec = LoadSpec(files=("x",), context=256, lanes=1, prefix_slots=1, queue_limit=1, threads=1)
    with pytest.raises(StorageError, match="logs"):
        await engine.start(spec, lambda fraction: None)


async def test_a_child_that_sends_nonsense_is_ended(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        stream = engine.generate(request(PARIS, max_tokens=400, ignore_eos=True))
        await anext(stream)
        engine._reader.feed_data(b"\x05\x00\x00\x00wrong")
        with pytest.raises(EngineExited):
            async for _chunk in stream:
                pass
        assert (await asyncio.wait_for(engine.exited, 5)).reason == "signal"


async def test_a_child_that_has_work_and_stays_silent_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "STUCK_SECONDS", 1.0)
    async with running_engine(tmp_path) as engine:
        assert (await run(engine, PARIS)).end.completion_tokens == 16
        await asyncio.sleep(1.3)
        assert not engine.exited.done(), "an idle child is not stuck"
        os.kill(engine.pid, signal.SIGSTOP)
        with pytest.raises(EngineExited):
            await run(engine, PARIS)
