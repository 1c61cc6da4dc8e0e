"""Split models and hosted stages in words, the same for `status`, `load` and the plain dashboard."""

from meshllm_core.api.schema import SplitStatus, StageStatus, Status
from meshllm_core.cli import text
from meshllm_core.cli.output import clean, table
from meshllm_core.state.snapshot import ModelView, SplitView

_NAMED = 3
"""Machines that are named where a split's progress is told in one line."""


def split_parts(status: Status) -> list[str]:
    """What is to be said of splits and of stages for others, in paragraphs; nothing where there are none."""
    parts = [part for split in status.runtime.splits for part in _split(split, status.runtime.stages)]
    hosted = [stage for stage in status.runtime.stages if stage.kind == "hosted"]
    return [*parts, _hosted(hosted)] if hosted else parts


def _split(split: SplitStatus, stages: tuple[StageStatus, ...]) -> list[str]:
    own = [stage for stage in stages if stage.kind == "split" and stage.run_id == split.run_id]
    said = [clean(split.sentence), _stages(own), _price(split)]
    failed = [f"stage {s.stage_index} on {s.node_name} failed: {s.error}" for s in own if s.error]
    facts = [
        f"hidden states travel as {split.wire_dtype}: {split.wire_verdict}".rstrip(": "),
        *(reason for reason in split.reasons if not split.wire_verdict or split.wire_verdict not in reason),
    ]
    said.append("\n".join(f"  {clean(fact)}" for fact in facts))
    return [*said, *map(clean, failed)]


def _stages(stages: list[StageStatus]) -> str:
    rows = [
        (
            str(stage.stage_index),
            stage.node_name or "–",
            f"{stage.layer_start}–{stage.layer_end - 1}",
            stage_state(stage.state, stage.bytes_done or 0, stage.bytes_total or 0),
            text.size(stage.bytes or 0),
            text.size(stage.memory_measured_bytes or stage.memory_needed_bytes or 0),
            text.milliseconds(stage.rtt_ms or 0),
            text.milliseconds(stage.predicted_ms or 0),
            text.milliseconds(stage.measured_ms or 0),
        )
        for stage in stages
    ]
    heads = ("stage", "machine", "layers", "state", "weights", "memory", "rtt", "predicted", "measured")
    return table(heads, rows, right=(0, 4, 5, 6, 7, 8))


def _price(split: SplitStatus) -> str:
    network = split.estimated_decode_network_ms_per_token
    of_it = f", {text.milliseconds(network)} of it network" if network else ""
    said = []
    if split.predicted_ms_per_token:
        said.append(f"{text.milliseconds(split.predicted_ms_per_token)} per token predicted{of_it}")
    elif network:
        said.append(f"{text.milliseconds(network)} of network per token; no machine's speed is measured")
    if split.measured_compute_ms_per_token:
        said.append(f"{text.milliseconds(split.measured_compute_ms_per_token)} of computing measured")
    if split.decode_tpot_target_met is not None:
        verb = "meets" if split.decode_tpot_target_met else "misses"
        said.append(f"{verb} the target of {text.milliseconds(split.decode_tpot_target_ms or 0)}")
    return "; ".join(said) or "Nothing is measured yet, so what a token takes is not known."


def _hosted(stages: list[StageStatus]) -> str:
    rows = [
        (
            stage.model_id,
            f"{stage.layer_start}–{stage.layer_end - 1}",
            f"{stage.stage_index + 1} of {stage.stage_count}",
            stage.coordinator or "–",
            stage_state(stage.state, stage.bytes_done or 0, stage.bytes_total or 0),
            text.size(stage.memory_measured_bytes or stage.bytes or 0),
            f"{stage.units_computed or 0:,}",
            stage.detail or "",
        )
        for stage in stages
    ]
    heads = ("computed for others", "layers", "stage", "for", "state", "memory", "steps", "")
    return table(heads, rows, right=(5, 6))


def stage_state(state: str, done: int, total: int) -> str:
    """A stage's state in words; bytes done of `total` while it fetches."""
    if state == "fetching" and total > 0:
        return f"fetching {min(100, 100 * done // total)} % of {text.size(total)}"
    return state


def split_progress(split: SplitView, *, brief: bool = False) -> str:
    """How far a split is, in one line: what is ready, and, unless brief, what the others do."""
    waiting = [row for row in split.stages if row.state != "ready"]
    said = [
        f"{row.node_name} {stage_state(row.state, row.bytes_done, row.bytes_total)}"
        for row in waiting[:_NAMED]
    ]
    if len(waiting) > _NAMED:
        said.append(f"{len(waiting) - _NAMED} more")
    ready = f"{len(split.stages) - len(waiting)} of {len(split.stages)} stages ready"
    return f"{ready}; {', '.join(said)}" if said and not brief else ready


def where(view: ModelView) -> str:
    """Where a model is computed: its device, or how many machines."""
    if view.split is None:
        return view.device
    machines = len({row.node for row in view.split.stages})
    return f"{machines} machine{'s' if machines != 1 else ''}"
