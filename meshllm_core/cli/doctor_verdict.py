"""Whether a model could be split over the machines that a node knows: by the node's own planning."""

from pathlib import Path
from typing import Literal

import msgspec

from meshllm_core.cli.doctor_machines import MachineRow, left_out, links, machines
from meshllm_core.cli.plan_input import read_model
from meshllm_core.config import Settings
from meshllm_core.ids import NodeId
from meshllm_core.models.fit import EngineSettings
from meshllm_core.models.resolve import ResolvedModel
from meshllm_core.node.split_gate import Gate
from meshllm_core.node.split_plan import CPU, Alone, Machine, SplitPlan, Wish, staged
from meshllm_core.paths import Paths
from meshllm_core.planner.memory import MemoryModel
from meshllm_core.planner.plan import plan
from meshllm_core.planner.real_model import PlannedModel
from meshllm_core.planner.request import PlanRequest
from meshllm_core.planner.result import Plan, Refusal
from meshllm_core.planner.wire import lossless
from meshllm_core.planner.words import lacking
from meshllm_core.state.snapshot import SplitView


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the question."""

    model: str
    verdict: Literal["alone", "split", "running", "impossible"]
    """alone: one machine holds it, so it is not split. running: it is split already."""
    sentence: str
    hint: str = ""
    reasons: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    would_fit: tuple[str, ...] = ()
    machines: tuple[MachineRow, ...]
    """The other members by name, then this node."""
    context: int | None = None
    lanes: int | None = None
    predicted_ms_per_token: float | None = None
    estimated_decode_network_ms_per_token: float | None = None
    decode_tpot_target_met: bool | None = None


def running(model: str, split: SplitView, found: tuple[MachineRow, ...]) -> Verdict:
    """Of a model that this node spread already: its stages are where they are."""
    ranges = {row.node: (row.index, row.start, row.end) for row in split.stages}
    return Verdict(
        model=model,
        verdict="running",
        sentence=split.sentence,
        reasons=split.reasons,
        machines=_placed(found, ranges, len(ranges)),
        context=split.context,
        lanes=split.lanes,
        predicted_ms_per_token=split.predicted_ms_per_token or None,
        estimated_decode_network_ms_per_token=split.network_ms_per_token or None,
    )


def judge(
    path: Path,
    found: tuple[MachineRow, ...],
    *,
    asked: str,
    settings: Settings,
    paths: Paths,
    context: int,
    lanes: int,
) -> Verdict:
    """Of a model on this disk, which a person calls `asked`.

    `context` in tokens of a lane, 0 for context or lanes: as the node's settings say. Raises a ModelError.
    """
    planned = read_model(str(path), paths)
    able = machines(found)
    gate = _gate(planned, able, settings, paths)
    wish = Wish(
        planned=planned,
        context=context or settings.ctx_size,
        lanes=lanes or settings.lanes,
        settings=EngineSettings(batch=settings.batch, kv_type=settings.kv_type),
        idle=settings.prefix_slots,
        wires=gate.wire if gate is not None else lossless,
    )
    request = wish.request(able, links(found))
    checked = _with_room(request, planned, found)
    answer = plan(request)
    if isinstance(answer, Refusal):
        return _impossible(planned, checked, answer)
    split = staged(answer, request, able)
    if isinstance(split, Alone):
        return _alone(answer, checked, asked)
    return _split(answer, split, checked, asked)


def _gate(planned: PlannedModel, able: tuple[Machine, ...], settings: Settings, paths: Paths) -> Gate | None:
    """As a load would ask; None for a node that never was in a mesh."""
    me, facts = able[-1].node, planned.model.facts
    if me == NodeId(bytes(32)):
        return None
    model = ResolvedModel(facts.model_id, str(facts.model_id), facts.files, facts, "")
    return Gate(paths, model, settings.wire_dtype, CPU, me, {one.node: one.name for one in able})


def _with_room(
    request: PlanRequest, planned: PlannedModel, found: tuple[MachineRow, ...]
) -> tuple[MachineRow, ...]:
    """Those machines that could not even take the smallest stage are out."""
    if planned.indivisible:
        return found
    model = MemoryModel(planned.model, request.settings, request.windows, request.idle_sequences)
    demand = model.demand(request.contexts[-1], request.lane_counts[-1])
    least = int(demand[demand > 0].min())
    rooms = {node.name: node.room for node in request.network.nodes}
    hint = "Free memory there, or take a smaller quantization or context."
    return tuple(
        left_out(each, lacking(each.name, least, rooms[each.name]).reason, hint)
        if each.eligible and rooms[each.name] < least
        else each
        for each in found
    )


def _impossible(planned: PlannedModel, found: tuple[MachineRow, ...], answer: Refusal) -> Verdict:
    others = [each for each in found if each.eligible and not each.this_node]
    hint = "" if others or planned.indivisible else "Bring in another machine: `meshllm invite`."
    return Verdict(
        model=answer.model,
        verdict="impossible",
        sentence=f"{answer.model} does not run on these machines as asked, whole or split.",
        hint=hint,
        missing=answer.missing,
        would_fit=answer.would_fit,
        machines=found,
    )


def _alone(answer: Plan, found: tuple[MachineRow, ...], asked: str) -> Verdict:
    chosen = answer.chosen
    here = chosen.nodes[0] == found[-1].name
    there = f"Load it on {chosen.nodes[0]}: `meshllm load {asked}` there; this node sends its requests to it."
    return Verdict(
        model=answer.model,
        verdict="alone",
        sentence=f"{answer.model} fits on {chosen.nodes[0]} alone: no split is needed.",
        hint=f"Load it here: `meshllm load {asked}`." if here else there,
        reasons=(answer.sentence, *chosen.reasons),
        machines=found,
        context=chosen.context,
        lanes=chosen.lanes,
        predicted_ms_per_token=chosen.estimate.total_ms,
        decode_tpot_target_met=chosen.target_met,
    )


def _split(answer: Plan, split: SplitPlan, found: tuple[MachineRow, ...], asked: str) -> Verdict:
    ranges = {
        stage.machine.node.hex(): (index, stage.start, stage.end) for index, stage in enumerate(split.stages)
    }
    standby = {row.node: row.reason for row in answer.excluded if row.standby}
    placed = tuple(
        msgspec.structs.replace(each, reason=standby[each.name])
        if each.eligible and each.name in standby and each.layer_start is None
        else each
        for each in _placed(found, ranges, len(split.stages))
    )
    candidate = split.candidate
    return Verdict(
        model=answer.model,
        verdict="split",
        sentence=split.sentence,
        hint=f"Do it: `meshllm load {asked} --split`.",
        reasons=split.reasons,
        machines=placed,
        context=candidate.context,
        lanes=candidate.lanes,
        predicted_ms_per_token=candidate.estimate.total_ms,
        estimated_decode_network_ms_per_token=candidate.estimated_decode_network_ms_per_token,
        decode_tpot_target_met=candidate.decode_tpot_target_met,
    )


def _placed(
    found: tuple[MachineRow, ...], ranges: dict[str, tuple[int, int, int]], count: int
) -> tuple[MachineRow, ...]:
    """The machines with their stages: id -> (index, first layer, one past the last)."""
    placed = []
    for each in found:
        if each.node in ranges:
            index, start, end = ranges[each.node]
            said = f"; {each.reason}" if each.reason else ""
            each = msgspec.structs.replace(
                each, layer_start=start, layer_end=end, reason=f"stage {index + 1} of {count}{said}"
            )
        placed.append(each)
    return tuple(placed)
