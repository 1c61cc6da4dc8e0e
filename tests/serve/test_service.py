"""A request's way through the service, and what the event log says of it afterwards."""

import asyncio
from contextlib import aclosing

import pytest

from meshllm_core.engine.types import Chunk, Delta, Finished, GenerationRequest, Started
from meshllm_core.errors import EngineExited, ModelNotReady, Overloaded
from meshllm_core.ids import ModelId, RequestId
from meshllm_core.serve.router import HostedModel
from meshllm_core.serve.service import InferenceService
from meshllm_core.state.events import AnyEvent, RequestFinished, RequestStarted
from tests.support.scripted_engine import Pause, Piece, Script, ScriptedEngine, Step, Wait


class Bench:
    """A service over one scripted model, with its events."""

    def __init__(self, *steps: Step, refusal: Overloaded | None = None) -> None:
        script = Script(steps=steps, cached_tokens=2, refusal=refusal)
        self.engine = ScriptedEngine(scripts=(script,))
        self.model = HostedModel(ModelId("m"), 0, "ready", self.engine)
        self.events: list[AnyEvent] = []
        self.noted = asyncio.Event()
        self.service = InferenceService({self.model.id: self.model}, self._append)

    def _append(self, event: AnyEvent) -> None:
        self.events.append(event)
        self.noted.set()

    def request(self, max_tokens: int | None = None) -> GenerationRequest:
        return GenerationRequest(request_id=RequestId("r1"), prompt="hello", max_tokens=max_tokens)

    async def run(self, max_tokens: int | None = None) -> list[Chunk]:
        model, engine = await self.service.resolve("m")
        chunks = self.service.generate(model, engine, self.request(max_tokens), route="/v1/completions")
        return [chunk async for chunk in chunks]

    @property
    def finished(self) -> RequestFinished:
        event = self.events[-1]
        assert isinstance(event, RequestFinished)
        return event


async def test_chunks_pass_and_the_figures_are_noted() -> None:
    bench = Bench(Pause(0.05), Piece("a", 1), Pause(0.05), Piece("bc", 2), Piece("d", 1))
    chunks = await bench.run()
    assert [type(chunk) for chunk in chunks] == [Started, Delta, Delta, Delta, Finished]
    started, finished = bench.events
    assert isinstance(started, RequestStarted)
    assert (started.model, started.route, started.prompt_tokens) == ("m", "/v1/completions", 5)
    assert isinstance(finished, RequestFinished)
    assert (finished.reason, finished.prompt_tokens, finished.cached_tokens) == ("stop", 5, 2)
    assert finished.completion_tokens == 4
    assert finished.total_ms >= finished.first_token_ms + 45
    assert finished.first_token_ms >= 45
    assert 0 < finished.decode_tokens_per_second < 3 / 0.045


async def test_the_engine_s_reason_is_noted() -> None:
    bench = Bench("a", "b", "c")
    await bench.run(max_tokens=2)
    assert (bench.finished.reason, bench.finished.completion_tokens) == ("length", 2)


async def test_closing_early_cancels_and_is_noted_at_once() -> None:
    bench = Bench("a", Wait(asyncio.Event()), "never")
    chunks = bench.service.generate(bench.model, bench.engine, bench.request(), route="/v1/completions")
    async with aclosing(chunks):
        async for chunk in chunks:
            if isinstance(chunk, Delta):
                break
    assert bench.engine.cancelled == ["r1"]
    assert bench.engine.running == 0
    assert (bench.finished.reason, bench.finished.completion_tokens) == ("cancelled", 1)


async def test_a_cancelled_task_frees_the_engine() -> None:
    bench = Bench("a", Wait(asyncio.Event()))
    task = asyncio.create_task(bench.run())
    await bench.noted.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.engine.running == 0
    assert bench.finished.reason == "cancelled"


async def test_a_dying_engine_ends_the_stream_with_its_error() -> None:
    bench = Bench("a", EngineExited("The engine ended.", reason="signal"))
    with pytest.raises(EngineExited):
        await bench.run()
    assert (bench.finished.reason, bench.finished.error) == ("error", "The engine ended.")
    assert bench.finished.completion_tokens == 1


async def test_a_refusal_before_the_start_leaves_no_event() -> None:
    bench = Bench(refusal=Overloaded("Full."))
    with pytest.raises(Overloaded):
        await bench.run()
    assert bench.events == []


async def test_a_node_that_stops_takes_nothing_new() -> None:
    bench = Bench("a")
    bench.service.accepting = False
    with pytest.raises(ModelNotReady, match="stopping"):
        await bench.service.resolve("m")


async def test_models_are_listed_ready_or_not() -> None:
    bench = Bench()
    loading = HostedModel(ModelId("slow"), 0, "loading")
    service = InferenceService({bench.model.id: bench.model, loading.id: loading}, bench.events.append)
    assert service.models() == (bench.model, loading)
