"""From a model that fits nowhere and the machines of the mesh to stages.

The coordinator drives and therefore computes the last stage. The trips of a token form a ring, so which
stage comes first changes nothing about its price; only the ranges of layers move along the ring.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from meshllm_core.errors import ModelTooLarge
from meshllm_core.ids import NodeId
from meshllm_core.models.fit import EngineSettings
from meshllm_core.models.resolve import ResolvedModel
from meshllm_core.models.stage_rules import StageRules
from meshllm_core.models.stage_source import StageSource
from meshllm_core.planner.memory import MemoryModel, StageMemory, Window, Windows
from meshllm_core.planner.model import SplitModel, from_tensors
from meshllm_core.planner.network import Link, Network, PlanNode
from meshllm_core.planner.plan import plan
from meshllm_core.planner.request import PlanRequest
from meshllm_core.planner.result import Candidate, Plan, Refusal
from meshllm_core.planner.wire import Wires


@dataclass(frozen=True)
class Machine:
    """A member that could compute a stage; the coordinator is one of them."""

    node: NodeId
    name: str
    free: int
    """Bytes of memory that nobody uses there."""
    lent: int
    """Bytes of it that a stage may take; the owner's limit is considered."""
    excluded: str = ""


@dataclass(frozen=True)
class StagePlan:
    """One stage, on its machine."""

    machine: Machine
    start: int
    end: int
    memory: StageMemory
    predicted_ms: float


@dataclass(frozen=True)
class SplitPlan:
    """Everything that is to be done, and what was weighed."""

    stages: tuple[StagePlan, ...]
    """In the order of the layers; the last is the coordinator's."""
    candidate: Candidate
    sentence: str
    reasons: tuple[str, ...]
    target_ms: float


@dataclass(frozen=True)
class Alone:
    """The model fits on one machine: splitting it would only slow it down."""

    machine: Machine
    sentence: str


def split_model(model: ResolvedModel, source: StageSource, rules: StageRules) -> SplitModel:
    """The model in the planner's terms."""
    tensors = ((name, found.tensor.nbytes) for name, found in source.tensors.items())
    shape = rules.shape(0, rules.layers)
    return from_tensors(model.facts, tensors, fingerprint="", trunk=rules.layers, streams=shape.streams)


def plan_split(
    model: SplitModel,
    rules: StageRules,
    machines: Sequence[Machine],
    links: dict[tuple[str, str], float],
    *,
    context: int,
    lanes: int,
    settings: EngineSettings,
    idle: int,
    wires: Wires,
) -> SplitPlan | Alone:
    """Stages for `machines`, of which the last is the coordinator. `links`: RTT in ms by names; `idle`:
    sequences that the KV cache keeps beside one for each lane.

    Raises ModelTooLarge with what is missing and what would fit.
    """
    coordinator = machines[-1]
    by_name = {machine.name: machine for machine in machines}
    legal = {0, *rules.legal_cuts, rules.layers}

    def windows(first: int, end: int) -> Window | None:
        if first not in legal or end not in legal:
            return None
        shape = rules.shape(first, end)
        return shape.window_start, shape.window_end

    network = Network(
        nodes=tuple(
            PlanNode(machine.name, machine.free, limit=machine.lent, excluded=machine.excluded)
            for machine in (coordinator, *machines[:-1])
        ),
        links={pair: Link(rtt) for pair, rtt in links.items()},
        driver=coordinator.name,
    )
    request = PlanRequest(
        model,
        network,
        context=context,
        lanes=lanes,
        windows=windows,
        wires=wires,
        settings=settings,
        idle_sequences=idle,
    )
    answer = plan(request)
    if isinstance(answer, Refusal):
        raise too_large(answer)
    if len(answer.chosen.stages) == 1:
        return Alone(by_name[answer.chosen.nodes[0]], answer.sentence)
    memory = MemoryModel(model, settings, windows, idle)
    rooms = {node.name: node.room for node in network.nodes}
    for candidate in (answer.chosen, *answer.others):
        if len(candidate.stages) < 2:
            continue
        stages = _ring(candidate, by_name, coordinator, rooms, memory, windows, rules.layers)
        if stages is not None:
            return SplitPlan(
                stages, candidate, _sentence(answer, candidate), candidate.reasons, answer.target_ms
            )
    raise ModelTooLarge(
        f"{model.name} can be split, but not with a stage on {coordinator.name}, which drives it.",
        hint="Ask for it on a machine with more memory, or raise --max-vram here.",
    )


def too_large(refusal: Refusal) -> ModelTooLarge:
    """The planner's no as an error."""
    missing = " ".join(refusal.missing)
    excluded = " ".join(f"{one.node}: {one.reason}." for one in refusal.excluded[:6])
    return ModelTooLarge(f"{missing} {excluded}".strip(), hint=" ".join(refusal.would_fit))


def _sentence(answer: Plan, candidate: Candidate) -> str:
    return (
        answer.sentence if candidate is answer.chosen else candidate.reasons[0] if candidate.reasons else ""
    )


def _ring(
    candidate: Candidate,
    machines: dict[str, Machine],
    coordinator: Machine,
    rooms: dict[str, int],
    memory: MemoryModel,
    windows: Windows,
    layers: int,
) -> tuple[StagePlan, ...] | None:
    """The candidate's machines with the coordinator last, their shares of layers as near as can be."""
    wanted = {stage.node: stage.layers for stage in candidate.stages}
    if coordinator.name not in wanted:
        return None
    names = list(candidate.nodes)
    place = names.index(coordinator.name)
    order = names[place + 1 :] + names[: place + 1]
    ends = _cuts(order, wanted, rooms, memory, candidate, windows, layers)
    if ends is None:
        return None
    compute = {stage.node: (stage.compute_ms or 0.0) / stage.layers for stage in candidate.stages}
    stages, start = [], 0
    for name, end in zip(order, ends, strict=True):
        need = memory.stage(start, end, candidate.context, candidate.lanes)
        stages.append(StagePlan(machines[name], start, end, need, compute[name] * (end - start)))
        start = end
    return tuple(stages)


def _cuts(
    order: Sequence[str],
    wanted: dict[str, int],
    rooms: dict[str, int],
    memory: MemoryModel,
    candidate: Candidate,
    windows: Windows,
    layers: int,
) -> list[int] | None:
    """Where each stage ends, by dynamic programming over the layers; None when nothing fits."""
    best: dict[int, tuple[int, list[int]]] = {0: (0, [])}
    for number, name in enumerate(order):
        last = number == len(order) - 1
        reached: dict[int, tuple[int, list[int]]] = {}
        for start, (cost, ends) in best.items():
            for end in [layers] if last else range(start + 1, layers):
                if windows(start, end) is None:
                    continue
                if memory.stage(start, end, candidate.context, candidate.lanes).total > rooms[name]:
                    continue
                price = cost + abs(end - start - wanted[name])
                if end not in reached or price < reached[end][0]:
                    reached[end] = price, [*ends, end]
        best = reached
    return best[layers][1] if layers in best else None
