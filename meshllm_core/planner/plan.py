"""The planner: a model, the machines and their links in; a plan with its reasons, or a refusal, out. Pure."""

from dataclasses import replace

from meshllm_core.models.units import show_bytes
from meshllm_core.planner.build import Builder
from meshllm_core.planner.choose import Splits, alone, single_order, splits
from meshllm_core.planner.cost import costs_of
from meshllm_core.planner.memory import MemoryModel
from meshllm_core.planner.network import PlanNode
from meshllm_core.planner.refusal import refuse, refuse_driver, refuse_wire
from meshllm_core.planner.request import PlanRequest
from meshllm_core.planner.result import Candidate, Exclusion, Plan, Refusal
from meshllm_core.planner.words import lacking, sentence, with_reasons

CONSIDERED = 32
"""Machines among which chains are searched; more are left on standby, the roomiest and nearest are kept."""


def plan(request: PlanRequest) -> Plan | Refusal:
    """The best way to run the model, or what is missing and what would fit."""
    usable, excluded = considered(request)
    builder = Builder(
        request,
        costs_of(request.model, request.network, usable),
        MemoryModel(request.model, request.settings, request.windows, request.idle_sequences),
    )
    indivisible = _indivisible(request)
    singles = [single for index in range(len(usable)) if (single := alone(builder, index)) is not None]
    origin = request.network.origin
    singles.sort(key=lambda single: single_order(single, origin))
    cut = splits(builder) if len(usable) > 1 and not indivisible and _driver_may(builder) else None
    if cut is not None and not singles and all(split.refused for split in cut.best):
        return refuse_wire(request, cut.best[0], excluded)
    if not singles and cut is None:
        without = plan(replace(request, driver_computes=False)) if request.driver_computes else None
        if isinstance(without, Plan):
            return refuse_driver(request, without.chosen, excluded)
        return refuse(builder, excluded, indivisible if len(usable) > 1 else "")
    return _weighed(builder, singles, cut, excluded)


def _driver_may(builder: Builder) -> bool:
    """Whether the driver holds what a split has to leave it, if it has to leave it anything."""
    request, origin = builder.request, builder.request.network.origin
    if not request.driver_computes:
        return True
    last = builder.memory.demand(request.contexts[-1], request.lane_counts[-1])[1:, -1]
    least = min(last[last > 0], default=0)
    return any(node.name == origin and 0 < least <= node.room for node in builder.costs.nodes)


def considered(request: PlanRequest) -> tuple[tuple[PlanNode, ...], tuple[Exclusion, ...]]:
    """The machines among which is chosen, and those left out with the reason."""
    network, origin = request.network, request.network.origin
    excluded = [Exclusion(node.name, False, node.excluded) for node in network.nodes if node.excluded]
    able = [node for node in network.nodes if not node.excluded]
    empty = [node for node in able if not node.room]
    excluded += [
        Exclusion(node.name, False, f"it has no memory to spare: {show_bytes(node.memory)} are free")
        for node in empty
    ]
    able = [node for node in able if node.room]
    if len(able) > CONSIDERED:

        def rank(node: PlanNode) -> tuple[bool, float]:
            link = network.link(origin, node.name)
            near = 1 + (link.rtt_ms if link else 1000.0)
            return node.name != origin, -node.room / near

        # Half for their memory, half for memory by nearness: either may be what a chain needs.
        roomy = sorted(able, key=lambda node: (node.name != origin, -node.room))[: CONSIDERED // 2]
        close = [node for node in sorted(able, key=rank) if node not in roomy][: CONSIDERED - len(roomy)]
        kept = {node.name for node in (*roomy, *close)}
        excluded += [
            Exclusion(node.name, True, f"standby: {CONSIDERED} others are roomier or nearer")
            for node in able
            if node.name not in kept
        ]
        able = [node for node in able if node.name in kept]
    return tuple(able), tuple(excluded)


def _indivisible(request: PlanRequest) -> str:
    """Why the model cannot be cut at all; empty if it can."""
    model = request.model
    if request.indivisible:
        return request.indivisible
    if model.facts.embeddings:
        return "it makes embeddings: such models run on one machine only"
    if model.layers < 2:
        return "it has a single layer: there is nothing to cut"
    cuts = any(request.windows(0, cut) is not None for cut in range(1, model.layers))
    return "" if cuts else "no cut of this model gives its own answers: it runs on one machine only"


def _weighed(
    builder: Builder, singles: list[Candidate], cut: Splits | None, excluded: tuple[Exclusion, ...]
) -> Plan:
    request, assumed = builder.request, builder.costs.assumed

    def say(candidate: Candidate, *reasons: str) -> Candidate:
        return with_reasons(candidate, *reasons, target_ms=request.target_ms, assumed=assumed)

    ranked = [say(single, _why_alone(single, number)) for number, single in enumerate(singles)]
    if cut is not None:
        few = _why_split(cut, bool(singles))
        ranked += [
            say(split, few if number == 0 else "as many stages on other machines; the estimate is no better")
            for number, split in enumerate(sorted(cut.best, key=lambda split: bool(split.refused)))
        ]
        if cut.more is not None:
            ranked.append(say(cut.more, "one stage more than is needed: each token pays for every hop"))
    chosen = ranked[0]
    chosen = replace(chosen, reasons=(*chosen.reasons, *_on_context(builder, chosen)))
    split = next((candidate for candidate in ranked if len(candidate.stages) > 1), None)
    return Plan(
        model=request.model.name,
        chosen=chosen,
        others=tuple(ranked[1:]),
        excluded=(*excluded, *_unused(builder, chosen)),
        target_ms=request.target_ms,
        sentence=sentence(request.model.name, chosen, singles[0] if singles else None, split),
    )


def _why_alone(single: Candidate, number: int) -> str:
    stage = single.stages[0]
    used = f"{show_bytes(stage.memory.total)} of {show_bytes(stage.room)}"
    if number == 0:
        return f"the whole model fits on {stage.node} ({used}): nothing crosses the network"
    return f"it fits on {stage.node} too ({used}), which is no better"


def _why_split(cut: Splits, fits_alone: bool) -> str:
    count = len(cut.best[0].stages)
    if fits_alone:
        return "not needed: the model fits on one machine"
    if cut.fewest_proven:
        return f"{count} stages are the fewest that hold the model: each more costs a hop per token"
    return f"{count} stages are the fewest that were found to hold the model"


def _on_context(builder: Builder, chosen: Candidate) -> tuple[str, ...]:
    request, trained = builder.request, builder.request.model.facts.context_trained
    if request.context > trained:
        return (
            f"the context of {request.context} tokens is longer than the {trained} the model was trained on",
        )
    if chosen.context < request.contexts[0]:
        wanted = request.contexts[0]
        return (f"the context is {chosen.context} tokens instead of {wanted}: that is what fits",)
    return ()


def _unused(builder: Builder, chosen: Candidate) -> tuple[Exclusion, ...]:
    """Machines that could take part and do not."""
    found = []
    least = 0
    if len(chosen.stages) > 1:
        demand = builder.memory.demand(chosen.context, chosen.lanes)
        least = int(demand[demand > 0].min())
    for node in builder.costs.nodes:
        if node.name in chosen.nodes:
            continue
        if least > node.room:
            found.append(lacking(node.name, least, node.room))
        else:
            why = "one machine holds the model" if len(chosen.stages) == 1 else "fewer stages are faster"
            found.append(Exclusion(node.name, True, f"standby, not needed: {why}"))
    return tuple(found)
