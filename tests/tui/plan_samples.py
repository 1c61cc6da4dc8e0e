"""What the planner answers about three machines: a model that must be split, one that need not, a refusal."""

from typing import Any

import msgspec

from meshllm_core.api.schema_plan import (
    PlanAnswer,
    PlanCandidate,
    PlanExclusion,
    PlanModel,
    PlanModels,
    PlannedStage,
    PlanRefusal,
)
from tests.tui.samples import GIB, MIB

MODELS = PlanModels(
    models=(
        PlanModel(name="Qwen3-30B-A3B-Q4_K_M", ref="big", source="disk", bytes=17 * GIB),
        PlanModel(name="SmolLM2-135M-Instruct", ref="default", source="disk", bytes=98 * MIB),
        PlanModel(
            name="llama-3.3-70b",
            ref="llama-3.3-70b",
            source="catalog",
            bytes=40 * GIB,
            parameters=70_554_000_000,
        ),
    )
)


def stage(node: str, start: int, end: int, **changes: Any) -> PlannedStage:
    """Layers on a machine."""
    plain = PlannedStage(
        node_name=node,
        start=start,
        end=end,
        bytes=(end - start) * 350 * MIB,
        memory_needed=(end - start) * 380 * MIB,
        room=12 * GIB,
        compute_ms=2.1,
        hop_ms=11.0,
        link="measured",
    )
    return msgspec.structs.replace(plain, **changes)


def candidate(*stages: PlannedStage, rate: float | None = 19.0, **changes: Any) -> PlanCandidate:
    """A way to run it on those machines."""
    names = [each.node_name for each in stages]
    title = f"{names[0]} alone" if len(names) == 1 else "|".join(names)
    plain = PlanCandidate(
        title=title,
        price=f"split {title}: 19 tok/s, because 2 × 11 ms of network per token",
        stages=stages,
        ctx_size=8192,
        lanes=4,
        total_ms=1000 / rate if rate else None,
        tokens_per_second=rate,
        network_ms=22.0 if len(names) > 1 else 0.0,
        compute_ms=4.2,
        overhead_ms=1.5 * (len(names) - 1),
        target_met=rate is not None and rate >= 30,
        wire_dtype="f16" if len(names) > 1 else "",
        wire_verdict="f16, the smallest format that is certified (exact)" if len(names) > 1 else "",
        spare_bytes=GIB,
        reasons=("2 stages are the fewest that hold the model: each more costs a hop per token",),
    )
    return msgspec.structs.replace(plain, **changes)


SPLIT = candidate(
    stage("attic", 0, 30),
    stage("workshop", 30, 48),
    launch="split",
    launch_note="workshop takes the requests and computes the last layers.",
)
OTHER = candidate(
    stage("attic", 0, 20),
    stage("shed", 20, 34, compute_ms=None, link="assumed", hop_ms=24.0),
    stage("workshop", 34, 48),
    rate=11.5,
    launch_note="The node would take attic|workshop, which ranks better.",
    reasons=("one stage more than is needed: each token pays for every hop",),
)
FORBIDDEN = candidate(
    stage("attic", 0, 30),
    stage("shed", 30, 48),
    rate=9.1,
    refused="The wire format q8 changes the answers of this file (rejected).",
    launch_note="The wire format q8 changes the answers of this file (rejected).",
)


def answer(*candidates: PlanCandidate, **changes: Any) -> PlanAnswer:
    """What the node says."""
    plain = PlanAnswer(
        model="Qwen3-30B-A3B-Q4_K_M",
        ref="big",
        source="disk",
        layers=48,
        bytes=17 * GIB,
        driver="workshop",
        machines=3,
        hop_ms=None,
        target_ms=100 / 3,
        sentence="Qwen3-30B-A3B-Q4_K_M fits on no machine alone; split attic|workshop: 19 tok/s, because "
        "2 × 11 ms of network per token.",
        candidates=candidates or (SPLIT, OTHER, FORBIDDEN),
        excluded=(PlanExclusion(node_name="cellar", standby=False, reason="its owner paused lending"),),
    )
    return msgspec.structs.replace(plain, **changes)


REFUSED = answer(
    candidates=(),
    sentence="llama-3.3-70b does not run on these machines as asked.",
    model="llama-3.3-70b",
    ref="llama-3.3-70b",
    source="catalog",
    refusal=PlanRefusal(
        missing=("all 3 machines together may use 31.0 GiB, 14.2 GiB less than it needs",),
        would_fit=("one more machine with 16.9 GiB free", "a context of 2048 tokens fits split attic|desk"),
    ),
    notes=("planned from the catalogue's figures: the file itself is read when it is loaded",),
)
ALONE = candidate(
    stage("workshop", 0, 30, hop_ms=0.0, link="local", compute_ms=16.0),
    rate=61.0,
    launch="whole",
    launch_note="It is loaded here as a whole.",
    reasons=("the whole model fits on workshop (412 MiB of 8.0 GiB): nothing crosses the network",),
)
WHOLE = answer(
    ALONE,
    candidate(
        stage("workshop", 0, 14),
        stage("attic", 14, 30),
        reasons=("not needed: the model fits on one machine",),
        launch_note="One machine holds the model: it is split only where none does.",
    ),
    model="SmolLM2-135M-Instruct",
    ref="default",
    layers=30,
    sentence="SmolLM2-135M-Instruct on workshop alone: 61 tok/s; split workshop|attic: 19 tok/s, because 2 × "
    "11 ms of network per token.",
)


def replies(**changes: Any) -> dict[str, object]:
    """What a scripted node replies: by the model that is asked for."""
    answers = {"big": answer(), "default": WHOLE, "llama-3.3-70b": REFUSED, **changes}

    def plan(model: str, **supposed: Any) -> object:
        found = answers[model]
        if isinstance(found, PlanAnswer) and supposed.get("hop_ms") is not None:
            return msgspec.structs.replace(found, hop_ms=supposed["hop_ms"])
        return found

    return {"plan/models": MODELS, "plan": plan}
