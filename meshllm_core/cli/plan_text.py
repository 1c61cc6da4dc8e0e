"""A plan as text for a person and as JSON for a program."""

from typing import Any

from meshllm_core.cli import text
from meshllm_core.cli.output import clean, table
from meshllm_core.errors import ModelTooLarge
from meshllm_core.planner.replan import Replan
from meshllm_core.planner.result import Candidate, Exclusion, Plan, Refusal, Stage
from meshllm_core.planner.words import rate


def render(plan: Plan, change: Replan | None, notes: tuple[str, ...]) -> str:
    """The plan: its sentence, its stages, why, what else there was."""
    chosen = plan.chosen
    parts = [clean(plan.sentence), _stages(chosen)]
    parts.append(f"context {chosen.context} tokens × {chosen.lanes} lanes; {rate(chosen.estimate)}")
    parts.append("\n".join(["why", *(f"  {clean(reason)}" for reason in chosen.reasons)]))
    if change is not None:
        word = "replace what runs" if change.adopt else "keep what runs"
        parts.append(f"{word}: {clean(change.reason)}")
    if plan.others:
        parts.append("also weighed\n" + _others(plan.others))
    if plan.excluded:
        rows = [(row.node, "standby" if row.standby else "out", row.reason) for row in plan.excluded]
        parts.append("not used\n" + table(("node", "", "why"), rows))
    if notes:
        parts.append("\n".join(clean(note) for note in notes))
    return "\n\n".join(parts)


def _stages(chosen: Candidate) -> str:
    rows = [
        (
            str(number),
            stage.node,
            f"{stage.first}–{stage.end - 1}",
            text.size(stage.memory.total),
            text.size(stage.room),
            _ms(stage.compute_ms),
            stage.speed,
            "–" if stage.link == "local" else _ms(stage.hop_ms),
        )
        for number, stage in enumerate(chosen.stages)
    ]
    heads = ("stage", "node", "layers", "needs", "may use", "compute ms", "speed", "hop ms")
    return table(heads, rows, right=(0, 3, 4, 5, 7))


def _others(others: tuple[Candidate, ...]) -> str:
    rows = [
        (
            other.title,
            text.number(other.estimate.tokens_per_second or 0),
            _ms(other.estimate.network_ms),
            str(other.context),
            str(other.lanes),
            other.refused or (other.reasons[0] if other.reasons else ""),
        )
        for other in others
    ]
    return table(("on", "tok/s", "network ms", "context", "lanes", "why not"), rows, right=(1, 2, 3, 4))


def _ms(value: float | None) -> str:
    return "not known" if value is None else f"{value:.2f}"


def document(plan: Plan, change: Replan | None, notes: tuple[str, ...]) -> dict[str, Any]:
    """The plan as JSON."""
    shown: dict[str, Any] = {
        "model": plan.model,
        "sentence": plan.sentence,
        "target_ms_per_token": plan.target_ms,
        "chosen": candidate_document(plan.chosen),
        "others": [candidate_document(other) for other in plan.others],
        "excluded": [_exclusion(row) for row in plan.excluded],
        "notes": list(notes),
    }
    if change is not None:
        shown["replan"] = {"adopt": change.adopt, "reason": change.reason}
    return shown


def candidate_document(found: Candidate) -> dict[str, Any]:
    """One candidate as JSON."""
    estimate = found.estimate
    return {
        "title": found.title,
        "stages": [_stage(number, stage) for number, stage in enumerate(found.stages)],
        "context": found.context,
        "lanes": found.lanes,
        "estimated_decode_network_ms_per_token": found.estimated_decode_network_ms_per_token,
        "slowest_hop_times_stages_ms": estimate.slowest_hop_ms,
        "hops_ms": list(estimate.hops_ms),
        "transfer_ms_per_token": estimate.transfer_ms,
        "compute_ms_per_token": estimate.compute_ms,
        "overhead_ms_per_token": estimate.overhead_ms,
        "estimated_decode_ms_per_token": estimate.total_ms,
        "tokens_per_second": estimate.tokens_per_second,
        "decode_tpot_target_met": found.decode_tpot_target_met,
        "wire_dtype": found.wire.dtype if found.wire else None,
        "wire_verdict": found.wire.verdict if found.wire else None,
        "spare_bytes": found.spare,
        "proven_best": found.proven,
        "refused": found.refused,
        "reasons": list(found.reasons),
    }


def _stage(number: int, stage: Stage) -> dict[str, Any]:
    memory = stage.memory
    return {
        "index": number,
        "node": stage.node,
        "layer_start": stage.first,
        "layer_end": stage.end,
        "bytes": {
            "weights": memory.weights,
            "kv": memory.kv,
            "compute": memory.compute,
            "boundary": memory.boundary,
            "total": memory.total,
            "room": stage.room,
        },
        "compute_ms": stage.compute_ms,
        "speed": stage.speed,
        "hop_ms": stage.hop_ms,
        "link": stage.link,
    }


def _exclusion(row: Exclusion) -> dict[str, Any]:
    return {"node": row.node, "standby": row.standby, "reason": row.reason}


def refused(refusal: Refusal) -> ModelTooLarge:
    """The refusal as the error that ends the command."""
    left_out = [f"{row.node} takes no part: {row.reason}" for row in refusal.excluded[:8]]
    if len(refusal.excluded) > 8:
        left_out.append(f"{len(refusal.excluded) - 8} more take no part")
    why = "; ".join(each.rstrip(".") for each in (*refusal.missing, *left_out))
    return ModelTooLarge(
        clean(f"{refusal.model} does not run on these machines: {why}."),
        hint=clean(f"What would do: {'; '.join(refusal.would_fit)}."),
    )
