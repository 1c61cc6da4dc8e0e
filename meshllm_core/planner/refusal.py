"""Why nothing fits, and what would."""

from dataclasses import replace

from meshllm_core.models.fit import MIB, RESERVE_FRACTION
from meshllm_core.models.units import show_bytes
from meshllm_core.planner.build import Builder
from meshllm_core.planner.choose import alone, splits
from meshllm_core.planner.cost import costs_of
from meshllm_core.planner.network import PlanNode
from meshllm_core.planner.request import PlanRequest
from meshllm_core.planner.result import Candidate, Exclusion, Refusal


def refuse(builder: Builder, excluded: tuple[Exclusion, ...], indivisible: str) -> Refusal:
    """The refusal of a request for which neither one machine nor a chain was found."""
    request = builder.request
    rooms = {node.name: node.room for node in builder.costs.nodes}
    model, context, lanes = request.model, request.contexts[-1], request.lane_counts[-1]
    whole = builder.memory.stage(0, model.layers, context, lanes)
    missing = []
    if not rooms:
        missing.append("no machine can take part")
    else:
        best = max(rooms, key=lambda name: rooms[name])
        short = show_bytes(whole.total - rooms[best])
        missing.append(
            f"alone it needs {show_bytes(whole.total)} ({whole.explain()}; {context} tokens × {lanes} "
            f"lanes), and the roomiest machine, {best}, is {short} short with {show_bytes(rooms[best])}"
        )
        if whole.weights <= rooms[best]:
            missing.append(f"the weights alone would fit on {best}: the KV cache and the buffers do not")
    together = sum(rooms.values())
    if indivisible:
        missing.append(indivisible)
    elif len(rooms) > 1:
        missing.append(_together(request, whole.total, whole.weights, together, len(rooms)))
    elif rooms:
        missing.append("there is no second machine to share it with")
    return Refusal(
        model=model.name,
        missing=tuple(missing),
        would_fit=tuple(_remedies(builder, whole.total, whole.weights, together, indivisible)),
        excluded=excluded,
    )


def refuse_wire(request: PlanRequest, split: Candidate, excluded: tuple[Exclusion, ...]) -> Refusal:
    """The refusal where machines would do, but not with a wire format that may be used."""
    return Refusal(
        model=request.model.name,
        missing=(split.refused,),
        would_fit=(f"split {split.title} with f32, which changes nothing",),
        excluded=excluded,
    )


def refuse_driver(request: PlanRequest, split: Candidate, excluded: tuple[Exclusion, ...]) -> Refusal:
    """The refusal where others would do without the driver, which has to take part."""
    driver = request.network.origin
    return Refusal(
        model=request.model.name,
        missing=(f"it can be split over {split.title}, but not with a stage on {driver}, which drives it",),
        would_fit=(f"load it on {split.nodes[-1]}", f"more memory on {driver}"),
        excluded=excluded,
    )


def _together(request: PlanRequest, needed: int, weights: int, together: int, count: int) -> str:
    if needed > together:
        paper = " (the weights alone would fit)" if weights <= together else ""
        return (
            f"all {count} machines together may use {show_bytes(together)}, "
            f"{show_bytes(needed - together)} less than it needs{paper}"
        )
    return (
        f"the {count} machines have enough together ({show_bytes(together)}), but no cut gives each a range "
        f"that fits with its share of the KV cache and its buffers ({request.model.layers} layers, "
        f"{min(count, request.model.layers)} stages at most)"
    )


def _remedies(builder: Builder, needed: int, weights: int, together: int, indivisible: str) -> list[str]:
    request = builder.request
    ways = []
    if smaller := _smaller(builder, indivisible):
        ways.append(smaller)
    rooms = [node.room for node in builder.costs.nodes]
    missing = needed - max(rooms, default=0) if indivisible else needed - together
    if indivisible and missing > 0:
        size = show_bytes(int(missing / (1 - RESERVE_FRACTION)))
        ways.append(f"{size} more free memory on one machine")
    if not indivisible:
        ways.append(f"one more machine with {show_bytes(_one_more(builder, missing))} free")
    available = max(rooms, default=0) if indivisible else together
    left = available - (needed - weights)
    if 0 < left < weights:
        ways.append(
            f"a smaller quantization: at most {show_bytes(left)} of weights instead of {show_bytes(weights)}"
        )
    ways += [
        f"{node.name}, if it takes part (it does not: {node.excluded})"
        for node in request.network.nodes
        if node.excluded and node.room
    ]
    return ways or ["a smaller model"]


def _one_more(builder: Builder, missing: int) -> int:
    """Bytes that must be free on a further machine: tried out, as its stage brings buffers of its own."""
    request = builder.request
    most = builder.memory.stage(0, request.model.layers, request.contexts[-1], request.lane_counts[-1]).total
    free = int(max(missing, most // request.model.layers) / (1 - RESERVE_FRACTION))
    while free * (1 - RESERVE_FRACTION) < most:
        further = PlanNode("one more machine", free)
        costs = costs_of(request.model, request.network, (*builder.costs.nodes, further))
        search = Builder(request, costs, builder.memory).search(request.contexts[-1], request.lane_counts[-1])
        if any(search.best(stages).chains for stages in range(search.fewest(), search.most() + 1)):
            break
        free += max(MIB, free // 10)
    return free


def _smaller(builder: Builder, indivisible: str) -> str:
    """A shorter context or fewer lanes, where these were asked for; empty if they change nothing."""
    request = builder.request
    freer = {
        "context": replace(request, context=0),
        "lanes": replace(request, lanes=0),
        "both": replace(request, context=0, lanes=0),
    }
    for said, changed in freer.items():
        if changed == request:
            continue
        easier = Builder(changed, builder.costs, builder.memory)
        singles = [alone(easier, index) for index in range(len(easier.costs.nodes))]
        found = [single for single in singles if single is not None]
        if not found and not indivisible and (cut := splits(easier)):
            found = list(cut.best)
        if found:
            best = max(found, key=lambda candidate: (candidate.context, candidate.lanes))
            where = f"on {best.title}" if len(best.stages) == 1 else f"split {best.title}"
            return {
                "context": f"a context of {best.context} tokens fits {where}",
                "lanes": f"{best.lanes} lanes fit {where}",
                "both": f"a context of {best.context} tokens with {best.lanes} lanes fits {where}",
            }[said]
    return ""
