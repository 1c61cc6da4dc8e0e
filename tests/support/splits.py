"""A model that is spread over three machines, on its way and ready, and stages for others; as events."""

from typing import Any

import msgspec

from meshllm_core.ids import ModelId
from meshllm_core.state import events as ev
from meshllm_core.state import split_events as split

MIB = 1 << 20
MODEL = ModelId("Qwen3-30B-A3B:Q4_K_M")
RUN = "5f" * 8
SENTENCE = (
    "Qwen3-30B-A3B fits on no machine alone; split attic|desk|shed: 19 tok/s, because 11 + 24 + 12 ms of "
    "network per token."
)
REASONS = (
    "3 stages are the fewest that hold the model: each more costs a hop per token",
    "per token 5.1 ms compute + 47 ms network + 4.5 ms hand-over",
)


def row(index: int, name: str, start: int, end: int, **changes: Any) -> split.StageRow:
    """A stage that is only assigned, but for `changes`."""
    plain = split.StageRow(
        index=index,
        node=name.encode().hex().ljust(64, "7")[:64],
        node_name=name,
        start=start,
        end=end,
        bytes=(end - start) * 350 * MIB,
        state="assigned",
        memory_needed=(end - start) * 380 * MIB,
    )
    return msgspec.structs.replace(plain, **changes)


ATTIC = row(0, "attic", 0, 24, predicted_ms=2.1)
DESK = row(1, "desk", 24, 40, rtt_ms=22.0, predicted_ms=1.9)
SHED = row(2, "shed", 40, 48, rtt_ms=48.0, predicted_ms=1.1)


def planned(*stages: split.StageRow, at: float = 100.0, **changes: Any) -> split.SplitPlanned:
    """The plan, with those stages or with three that are only assigned."""
    plan = split.SplitPlanned(
        at=at,
        model=MODEL,
        run=RUN,
        stages=stages or (ATTIC, DESK, SHED),
        dtype="f16",
        verdict="certified exact for this file and these cuts",
        sentence=SENTENCE,
        reasons=REASONS,
        predicted_ms_per_token=56.6,
        network_ms_per_token=47.0,
        target_ms=33.3,
        context=8192,
        lanes=4,
        chunk=96,
        ahead=4,
    )
    return msgspec.structs.replace(plan, **changes)


def stage(of: split.StageRow, at: float = 101.0, **changes: Any) -> split.StageUpdated:
    """A stage changed."""
    return split.StageUpdated(at=at, model=MODEL, run=RUN, stage=msgspec.structs.replace(of, **changes))


def under_way(at: float = 100.0) -> tuple[ev.AnyEvent, ...]:
    """From the request on: the last stage is ready, one loads, one fetches its layers."""
    return (
        ev.ModelRequested(at=at, model=MODEL, ref="unsloth/Qwen3-30B-A3B-GGUF:Q4_K_M"),
        planned(at=at + 1),
        ev.ModelLoadProgressed(at=at + 1, model=MODEL, fraction=0.0),
        stage(SHED, at + 2, state="ready", measured_ms=1.2, memory_measured=2900 * MIB),
        stage(DESK, at + 3, state="fetching", bytes_done=2296 * MIB, bytes_total=5600 * MIB),
        stage(ATTIC, at + 3, state="loading", detail="reading its layers"),
    )


def ready(at: float = 100.0) -> tuple[ev.AnyEvent, ...]:
    """The same, with all of them ready and measured."""
    return (
        *under_way(at),
        stage(DESK, at + 8, state="ready", measured_ms=2.3, memory_measured=5900 * MIB),
        stage(ATTIC, at + 9, state="ready", measured_ms=2.0, memory_measured=8900 * MIB),
        ev.ModelReady(
            at=at + 9,
            model=MODEL,
            pid=4713,
            architecture="qwen3moe",
            parameters=30_532_122_624,
            context=8192,
            lanes=4,
            memory_measured=8900 * MIB,
            device="CPU",
            chat=True,
            embeddings=False,
            load_seconds=9.0,
            layers=48,
        ),
    )


def hosted(run: str = "a1" * 8, at: float = 100.0, **changes: Any) -> split.StageHosted:
    """A stage for another machine's model."""
    plain = split.HostedStage(
        run=run,
        model="Llama-3.3-70B:Q4_K_M",
        coordinator="cellar",
        index=1,
        stages=4,
        start=20,
        end=30,
        bytes=4800 * MIB,
        state="ready",
        pid=812,
        memory_measured=5100 * MIB,
        units=4312,
    )
    return split.StageHosted(at=at, stage=msgspec.structs.replace(plain, **changes))
