"""From a model that fits nowhere and the machines of the mesh to stages.

The coordinator drives, and its stage is the last one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from meshllm_core.errors import ConfigError, ModelTooLarge, NotInMesh
from meshllm_core.ids import NodeId
from meshllm_core.models.fit import EngineSettings
from meshllm_core.planner.chunk import Chunks, StagePace, choose_chunks
from meshllm_core.planner.lock import MAX_LOCK_BYTES, honour, read_lock
from meshllm_core.planner.memory import StageMemory
from meshllm_core.planner.network import Link, Network, PlanNode
from meshllm_core.planner.plan import plan
from meshllm_core.planner.real_model import PlannedModel
from meshllm_core.planner.request import PlanRequest
from meshllm_core.planner.result import Candidate, Plan, Refusal
from meshllm_core.planner.wire import Wires
from meshllm_core.state.pace_events import UNKNOWN, Pace

CPU = "cpu"


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
    pace: Pace = UNKNOWN
    """How fast it computes, as far as that is known."""
    kind: str = CPU
    """Of the device that it would compute on."""


@dataclass(frozen=True)
class StagePlan:
    """One stage, on its machine."""

    machine: Machine
    start: int
    end: int
    memory: StageMemory
    predicted_ms: float
    rtt_ms: float = 0.0
    """To the machine that units come from; 0: not known."""


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


@dataclass(frozen=True)
class Wish:
    """What is to be split, and how."""

    planned: PlannedModel
    context: int
    """Tokens of one lane; 0 chooses."""
    lanes: int
    settings: EngineSettings
    idle: int
    """Sequences that the KV cache keeps beside one for each lane."""
    wires: Wires
    lock: Path | None = None
    """A topology that no plan replaces."""

    def request(self, machines: Sequence[Machine], links: dict[tuple[str, str], float]) -> PlanRequest:
        """For the planner. The last machine drives."""
        return PlanRequest(
            self.planned.model,
            Network(
                nodes=tuple(
                    PlanNode(
                        one.name,
                        one.free,
                        limit=one.lent,
                        bytes_per_second=one.pace.decode or None,
                        calibrated=one.pace.source == "calibrated",
                        excluded=one.excluded,
                    )
                    for one in (machines[-1], *machines[:-1])
                ),
                links={pair: Link(rtt) for pair, rtt in links.items()},
                driver=machines[-1].name,
            ),
            context=self.context,
            lanes=self.lanes,
            windows=self.planned.windows,
            wires=self.wires,
            settings=self.settings,
            idle_sequences=self.idle,
            driver_computes=True,
            indivisible=self.planned.indivisible,
        )


def plan_split(
    wish: Wish, machines: Sequence[Machine], links: dict[tuple[str, str], float]
) -> SplitPlan | Alone:
    """Stages for `machines`, of which the last is the coordinator. `links`: RTT in ms by names.

    Raises ModelTooLarge with what is missing and what would fit, NotInMesh for a machine of a lock that is
    not there, ConfigError for a lock that never holds.
    """
    request = wish.request(machines, links)
    if wish.lock is not None:
        return _locked(wish.lock, request, {machine.name: machine for machine in machines}, machines[-1])
    answer = plan(request)
    if isinstance(answer, Refusal):
        raise too_large(answer)
    return staged(answer, request, machines)


def staged(answer: Plan, request: PlanRequest, machines: Sequence[Machine]) -> SplitPlan | Alone:
    """What the planner answered to `request` on `machines`, of which the last coordinates."""
    by_name = {machine.name: machine for machine in machines}
    if len(answer.chosen.stages) == 1:
        return Alone(by_name[answer.chosen.nodes[0]], answer.sentence)
    return _split(answer.chosen, answer.sentence, request, by_name)


def _locked(
    file: Path, request: PlanRequest, machines: dict[str, Machine], coordinator: Machine
) -> SplitPlan:
    lock = read_lock(_lock_bytes(file), str(file))
    names = {machine.node.hex(): name for name, machine in machines.items()}
    named = tuple(
        msgspec.structs.replace(stage, node=names.get(stage.node.lower(), stage.node))
        for stage in lock.stages
    )
    for name in (stage.node for stage in named):
        away = machines[name].excluded if name in machines else "it is not in the mesh now"
        if away:
            raise NotInMesh(
                f"{file} has a stage on {name[:64]}: {away.rstrip('.')}.",
                hint=f"Start meshllm there, or plan without it; here are {', '.join(sorted(machines)[:8])}.",
            )
    last = named[-1].node
    if last != coordinator.name:
        raise ConfigError(
            f"{file}: its last stage is on {last[:64]}, and {coordinator.name} was asked.",
            hint=f"The machine that is asked computes the last stage: load it on {last[:64]}.",
        )
    candidate = honour(msgspec.structs.replace(lock, stages=named), request, str(file))
    said = f"{candidate.title}: {candidate.reasons[0] if candidate.reasons else 'fixed by the lock file'}"
    return _split(candidate, said, request, machines)


def _split(candidate: Candidate, said: str, request: PlanRequest, machines: dict[str, Machine]) -> SplitPlan:
    stages = tuple(
        StagePlan(machines[one.node], one.first, one.end, one.memory, one.compute_ms or 0.0)
        for one in candidate.stages
    )
    trips = {pair: link.rtt_ms for pair, link in request.network.links.items()}
    return SplitPlan(_with_trips(stages, trips), candidate, said, candidate.reasons, request.target_ms)


def _lock_bytes(file: Path) -> bytes:
    """A lock's file, of which no more is read than a lock may hold. Raises ConfigError."""
    try:
        # A pipe would wait for a writer, and a device never ends.
        if file.exists() and not file.is_file():
            raise ConfigError(f"The topology lock {file} is not a file.", hint="Check the path.")
        with file.open("rb") as stream:
            return stream.read(MAX_LOCK_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"The topology lock {file} cannot be read: {error.strerror}.", hint="Check the path."
        ) from error


def _with_trips(stages: tuple[StagePlan, ...], links: dict[tuple[str, str], float]) -> tuple[StagePlan, ...]:
    """With the round trip to the machine before each: to the last one for the first, it sends the tokens."""
    befores = (stages[-1], *stages[:-1])
    pairs = [(before.machine.name, stage.machine.name) for before, stage in zip(befores, stages, strict=True)]
    return tuple(
        replace(stage, rtt_ms=links.get((a, b), links.get((b, a), 0.0)))
        for stage, (a, b) in zip(stages, pairs, strict=True)
    )


def chunks_of(plan: SplitPlan, planned: PlannedModel, row: int, batch: int) -> Chunks:
    """How prompts are cut for the stages of a plan. `row`: bytes of a hidden state on its way."""
    model = planned.model
    paces = []
    for stage in plan.stages:
        pace, layers = stage.machine.pace, slice(stage.start, stage.end)
        paces.append(
            StagePace(
                read_ms=sum(model.layer_bytes[layers]) / pace.decode * 1000 if pace.decode else None,
                token_ms=sum(model.active_bytes[layers]) / pace.prefill * 1000 if pace.prefill else None,
                one_way_ms=stage.rtt_ms / 2,
            )
        )
    return choose_chunks(paces, row_bytes=row, batch=batch)


def too_large(refusal: Refusal) -> ModelTooLarge:
    """The planner's no as an error."""
    left_out = [f"{one.node}: {one.reason}" for one in refusal.excluded[:6]]
    if len(refusal.excluded) > 6:
        left_out.append(f"{len(refusal.excluded) - 6} more take no part")
    why = "; ".join(each.rstrip(".") for each in (*refusal.missing, *left_out))
    hint = f"What would do: {'; '.join(refusal.would_fit)}." if refusal.would_fit else ""
    return ModelTooLarge(f"{why}.", hint=hint)
