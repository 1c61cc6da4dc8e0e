"""A plan in the public JSON, and what of it can be launched from this node. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from meshllm_core.api import schema_plan as json
from meshllm_core.discovery.text import clean_text
from meshllm_core.node.plan_source import FoundModel
from meshllm_core.node.split_plan import Machine
from meshllm_core.planner.request import PlanRequest
from meshllm_core.planner.result import Candidate, Exclusion, Plan, Refusal, Stage
from meshllm_core.planner.words import price

SINGLES, SPLITS = 12, 12
"""Candidates of each kind that are told."""
TEXTS = 32
TEXT = 400


@dataclass(frozen=True)
class Asked:
    """A question with what it was answered from."""

    arguments: json.PlanArguments
    found: FoundModel
    request: PlanRequest


@dataclass(frozen=True)
class Launching:
    """What decides which candidates this node can run."""

    ref: str
    machines: Sequence[Machine]
    """This one last."""
    loaded: bool
    client: bool

    @property
    def here(self) -> str:
        """This machine's name in the plan."""
        return self.machines[-1].name

    def judge(self, candidate: Candidate, taken: Candidate, singles: bool) -> tuple[json.LaunchKind, str]:
        """How it is launched, and a sentence about it. `taken` is what a load would do."""
        alone = len(candidate.stages) == 1
        if self.client:
            return "none", "This node is a client: it uses the mesh's models and serves none."
        if self.loaded:
            return "none", "It is loaded here already; what it holds counts as used. Unload it first."
        if alone and candidate.nodes[0] == self.here:
            return "whole", "It is loaded here as a whole."
        if alone:
            where = candidate.nodes[0]
            return "none", f"Load it on {where}: `meshllm load` there. This node routes requests to it."
        if candidate.refused:
            return "none", candidate.refused
        if singles:
            return "none", "One machine holds the model: it is split only where none does."
        if candidate is taken:
            return "split", f"{self.here} takes the requests and computes the last layers."
        return "none", f"The node would take {taken.title}, which ranks better."


def answer_of(planned: Plan | Refusal, asked: Asked, launching: Launching) -> json.PlanAnswer:
    """What the planner said, and of each candidate whether and how this node can launch it."""
    found, request = asked.found, asked.request
    model = found.planned.model
    notes = [clean_text(note, TEXT) for note in model.notes]
    if found.resolved is None:
        notes.append("planned from the catalogue's figures: the file itself is read when it is loaded")
    plain = json.PlanAnswer(
        model=clean_text(model.name, 256),
        ref=launching.ref,
        source=found.source,
        layers=model.layers,
        bytes=found.bytes,
        driver=launching.here,
        machines=len(launching.machines),
        hop_ms=asked.arguments.hop_ms,
        target_ms=request.target_ms,
        sentence="",
        excluded=tuple(_exclusion(row) for row in planned.excluded[:TEXTS]),
        notes=tuple(notes[:TEXTS]),
    )
    if isinstance(planned, Refusal):
        refusal = json.PlanRefusal(missing=_texts(planned.missing), would_fit=_texts(planned.would_fit))
        words = f"{plain.model} does not run on these machines as asked."
        return _replaced(plain, sentence=words, refusal=refusal)
    return _told(planned, plain, launching)


def _told(planned: Plan, plain: json.PlanAnswer, launching: Launching) -> json.PlanAnswer:
    ranked = [planned.chosen, *planned.others]
    singles = [each for each in ranked if len(each.stages) == 1]
    kept = singles[:SINGLES] + [each for each in ranked if len(each.stages) > 1][:SPLITS]
    return _replaced(
        plain,
        sentence=clean_text(planned.sentence, TEXT),
        candidates=tuple(
            _candidate(each, launching.judge(each, planned.chosen, bool(singles))) for each in kept
        ),
        left_out=len(ranked) - len(kept),
    )


def _replaced(answer: json.PlanAnswer, **changes: object) -> json.PlanAnswer:
    fields = {name: getattr(answer, name) for name in answer.__struct_fields__}
    return json.PlanAnswer(**(fields | changes))


def _texts(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(clean_text(text, TEXT) for text in texts[:TEXTS])


def _exclusion(row: Exclusion) -> json.PlanExclusion:
    return json.PlanExclusion(
        node_name=clean_text(row.node, 80), standby=row.standby, reason=clean_text(row.reason, TEXT)
    )


def _candidate(candidate: Candidate, launch: tuple[json.LaunchKind, str]) -> json.PlanCandidate:
    estimate, wire = candidate.estimate, candidate.wire
    return json.PlanCandidate(
        title=clean_text(candidate.title, 1000),
        price=clean_text(price(candidate), 1200),
        stages=tuple(_stage(stage) for stage in candidate.stages),
        ctx_size=candidate.context,
        lanes=candidate.lanes,
        total_ms=estimate.total_ms,
        tokens_per_second=estimate.tokens_per_second,
        network_ms=estimate.network_ms,
        compute_ms=estimate.compute_ms,
        transfer_ms=estimate.transfer_ms,
        overhead_ms=estimate.overhead_ms,
        target_met=candidate.target_met,
        wire_dtype=wire.dtype if wire is not None else "",
        wire_verdict=clean_text(wire.note, TEXT) if wire is not None else "",
        spare_bytes=candidate.spare,
        refused=clean_text(candidate.refused, TEXT),
        reasons=_texts(candidate.reasons),
        launch=launch[0],
        launch_note=clean_text(launch[1], TEXT),
    )


def _stage(stage: Stage) -> json.PlannedStage:
    return json.PlannedStage(
        node_name=clean_text(stage.node, 80),
        start=stage.first,
        end=stage.end,
        bytes=stage.memory.weights,
        memory_needed=stage.memory.total,
        room=stage.room,
        compute_ms=stage.compute_ms,
        hop_ms=stage.hop_ms,
        link=stage.link,
    )
