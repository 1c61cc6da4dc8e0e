"""Snapshots, and a node's client that follows a script: a real implementation of the dashboard's seam."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from meshllm_core.api.client import ChatDelta
from meshllm_core.errors import MeshError, NodeNotRunning
from meshllm_core.ids import ModelId, RequestId
from meshllm_core.state import events as ev
from meshllm_core.state.reduce import reduce
from meshllm_core.state.snapshot import NodeSnapshot

T = TypeVar("T")
GIB = 1 << 30
MIB = 1 << 20
SMALL = ModelId("SmolLM2-135M-Instruct")
LARGE = ModelId("Qwen3-4B-Instruct:Q4_K_M")
BROKEN = ModelId("gemma-3-27b:Q8_0")
START = 1_800_000_000.0


def fold(*happened: ev.AnyEvent, snapshot: NodeSnapshot | None = None) -> NodeSnapshot:
    """The snapshot after some events."""
    current = snapshot or NodeSnapshot()
    for event in happened:
        current = reduce(current, event)
    return current


def bare() -> NodeSnapshot:
    """A node that runs without a model."""
    return fold(
        ev.NodeStarted(
            at=START,
            name="workshop",
            version="0.1.0",
            pid=4711,
            api_url="http://127.0.0.1:9337",
            console_url="http://127.0.0.1:3131",
        ),
        ev.HardwareDetected(
            at=START,
            cpu="AMD Ryzen 7 5800U",
            threads=8,
            memory_total=16 * GIB,
            memory_free=10 * GIB,
            devices=(
                ev.Device(
                    name="CPU", description="", kind="cpu", memory_total=16 * GIB, memory_free=10 * GIB
                ),
                ev.Device(
                    name="CUDA0",
                    description="NVIDIA GeForce RTX 3060",
                    kind="gpu",
                    memory_total=12 * GIB,
                    memory_free=11 * GIB,
                ),
            ),
        ),
    )


def ready(model: ModelId = SMALL, at: float = START + 2) -> tuple[ev.AnyEvent, ...]:
    """A model from request to ready."""
    return (
        ev.ModelRequested(at=at, model=model, ref="default"),
        ev.ModelLoadProgressed(
            at=at, model=model, fraction=0.5, file_bytes=98 * MIB, memory_needed=512 * MIB
        ),
        ev.ModelReady(
            at=at + 0.6,
            model=model,
            pid=4712,
            architecture="llama",
            parameters=134_515_008,
            layers=30,
            context=8192,
            lanes=4,
            memory_measured=412 * MIB,
            device="CPU",
            chat=True,
            embeddings=False,
            load_seconds=0.6,
        ),
    )


def serving() -> NodeSnapshot:
    """A node with a busy model, one being downloaded and one that failed."""
    return fold(
        *ready(),
        ev.RequestStarted(
            at=START + 9, request=RequestId("r1"), model=SMALL, route="/v1/chat/completions", prompt_tokens=31
        ),
        ev.RequestFinished(
            at=START + 11,
            request=RequestId("r1"),
            model=SMALL,
            reason="stop",
            prompt_tokens=31,
            cached_tokens=0,
            completion_tokens=97,
            queue_ms=1.0,
            first_token_ms=84.0,
            total_ms=1700.0,
            decode_tokens_per_second=61.2,
        ),
        ev.ThroughputMeasured(
            at=START + 12,
            model=SMALL,
            decode_tokens_per_second=61.2,
            prompt_tokens_per_second=812.0,
            active=1,
            queued=0,
            cells_used=3932,
            cells_total=32768,
        ),
        ev.ModelRequested(at=START + 12, model=LARGE, ref="unsloth/Qwen3-4B-GGUF:Q4_K_M"),
        ev.ModelDownloadProgressed(
            at=START + 13, model=LARGE, bytes_done=1_100 * MIB, bytes_total=2_497 * MIB
        ),
        ev.ModelRequested(at=START + 14, model=BROKEN, ref="unsloth/gemma-3-27b-GGUF:Q8_0"),
        ev.ModelFailed(
            at=START + 15,
            model=BROKEN,
            code="model_too_large",
            message="gemma-3-27b:Q8_0 needs 31.2 GiB and 10.0 GiB are free.",
            hint="Take a smaller quantization, for example Q4_K_M on a machine of 24 GiB.",
        ),
        ev.NoticeLogged(
            at=START + 16, level="warning", source="hub", text="the download was resumed at 41 %"
        ),
        snapshot=bare(),
    )


@dataclass
class ScriptedClient:
    """Implements NodeClient: what it says is set by the test; what it was asked is kept."""

    state: NodeSnapshot | None = field(default_factory=serving)
    """None: nobody answers."""
    answer: Sequence[ChatDelta | MeshError] = ()
    refusal: MeshError | None = None
    acted: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    answers: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """What an action answers, by its name."""
    replies: dict[str, object] = field(default_factory=dict)
    """What a question is answered by its name, or the error that it is refused with."""
    questions: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    effects: dict[str, Sequence[ev.AnyEvent]] = field(default_factory=dict)
    """What happens on the node when it is asked for an action."""
    asked: list[tuple[list[dict[str, str]], str]] = field(default_factory=list)
    snapshots: int = 0
    hold: asyncio.Event | None = None
    """An answer stops after its script until this is set."""
    cancelled: bool = False
    closed: bool = False
    queue: "asyncio.Queue[ev.LoggedEvent | MeshError | None]" = field(default_factory=asyncio.Queue)
    pace: float = 0.0
    """Seconds between two pieces of an answer."""
    delay: float = 0.0
    """Seconds before a snapshot is given."""

    async def snapshot(self) -> NodeSnapshot:
        self.snapshots += 1
        await asyncio.sleep(self.delay)
        if self.state is None:
            raise NodeNotRunning("No node answers at http://127.0.0.1:3131.", hint="Start one.")
        return self.state

    async def events(self, after: int) -> AsyncGenerator[ev.LoggedEvent]:
        while (item := await self.queue.get()) is not None:
            if isinstance(item, MeshError):
                raise item
            yield item

    async def act(self, name: str, /, **arguments: Any) -> Mapping[str, Any]:
        self.acted.append((name, arguments))
        if self.refusal is not None:
            raise self.refusal
        for event in self.effects.get(name, ()):
            self.happen(event)
        return self.answers.get(name, {})

    async def ask(self, name: str, kind: type[T], /, **arguments: Any) -> T:
        self.questions.append((name, arguments))
        reply = self.replies.get(name)
        if callable(reply):
            reply = reply(**arguments)
        if isinstance(reply, MeshError):
            raise reply
        assert isinstance(reply, kind), f"the test gave no reply to {name}"
        return reply

    async def chat_stream(self, messages: Sequence[dict[str, str]], model: str) -> AsyncGenerator[ChatDelta]:
        self.asked.append((list(messages), model))
        try:
            for piece in self.answer:
                if isinstance(piece, MeshError):
                    raise piece
                yield piece
                await asyncio.sleep(self.pace)
            if self.hold is not None:
                await self.hold.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    async def close(self) -> None:
        self.closed = True

    def happen(self, event: ev.AnyEvent, *, skip: int = 0) -> None:
        """Something happens on the node; `skip` numbers are lost on the way."""
        assert self.state is not None
        for _ in range(skip):
            self.state = reduce(self.state, ev.NoticeLogged(at=START, level="info", source="x", text="lost"))
        self.state = reduce(self.state, event)
        self.queue.put_nowait(ev.LoggedEvent(sequence=self.state.sequence, event=event))
