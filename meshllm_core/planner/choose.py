"""One machine where that is possible; else the fewest stages, and then the best chain of so many."""

from bisect import bisect_left
from dataclasses import dataclass

from meshllm_core.planner.build import Builder
from meshllm_core.planner.result import Candidate
from meshllm_core.planner.search import Outcome, Search

EQUAL = 1.10
"""Estimates within this factor of each other count as equal: a prediction is not exacter than that."""
SHOWN = 4
"""Different sets of machines that are handed out for the number of stages chosen."""


@dataclass(frozen=True)
class Splits:
    """The best ways to cut a model, and how sure it is that fewer stages cannot hold it."""

    best: tuple[Candidate, ...]
    """With the fewest stages; the choice first."""
    more: Candidate | None
    """The best with one stage more, for comparison."""
    fewest_proven: bool


def alone(builder: Builder, index: int) -> Candidate | None:
    """The whole model on one machine, with the longest context that fits; None if none does.

    Lanes stay and the context shrinks, as it does when a model is loaded there.
    """
    request, node = builder.request, builder.costs.nodes[index]
    layers = request.model.layers
    for lanes in request.lane_counts:
        for context in request.contexts:
            if builder.memory.stage(0, layers, context, lanes).total <= node.room:
                found = builder.candidate([index], [0, layers], context, lanes)
                return builder.grown(found, request.contexts[0])
    return None


def single_order(candidate: Candidate, driver: str) -> tuple[float, int, int, bool, int]:
    """Sorts candidates of one machine: the fastest, then context, lanes, the driver itself, spare memory."""
    total = candidate.estimate.total_ms
    local = candidate.nodes[0] != driver
    return (total or 0.0, -candidate.context, -candidate.lanes, local, -candidate.spare)


def splits(builder: Builder) -> Splits | None:
    """The best chains of at least two stages; None if there are none."""
    request = builder.request
    if builder.costs.network.latency_known:
        return _by_latency(builder)
    # Without any latency: the longest context, then the fewest machines, then the most lanes.
    for context in request.contexts:
        found = _fewest(builder.search(context, request.lane_counts[-1]))
        if found is not None:
            return _most_lanes(builder, context, found[0], found[2])
    return None


def _fewest(search: Search) -> tuple[int, Outcome, bool] | None:
    """The fewest stages that hold the model, their chains, and whether fewer are ruled out."""
    proven = True
    for stages in range(search.fewest(), search.most() + 1):
        outcome = search.best(stages, SHOWN)
        if outcome.chains:
            return stages, outcome, proven
        proven = proven and outcome.proven
    return None


def _most_lanes(builder: Builder, context: int, stages: int, proven: bool) -> Splits:
    counts = builder.request.lane_counts
    fits = (bool(builder.search(context, count).best(stages).chains) for count in counts)
    lanes = next((count for count, fitting in zip(counts, fits, strict=True) if fitting), counts[-1])
    return _handed_out(builder, context, lanes, stages, proven)


def _by_latency(builder: Builder) -> Splits | None:
    """The least demand shows how few stages can do and how fast; then as much context as costs no speed."""
    request = builder.request
    lanes = request.lane_counts[-1]
    found = _fewest(builder.search(request.contexts[-1], lanes))
    if found is None:
        return None
    stages, outcome, proven = found
    limit = int(outcome.chains[0].cost * EQUAL)
    target = int(request.target_ms * 1e6)
    if builder.costs.compute_known and outcome.chains[0].cost <= target:
        limit = min(limit, target)

    def affordable(length: int, count: int) -> bool:
        """Whether one of the chains found holds so much, with other cuts, at hardly any cost."""
        search = builder.search(length, count)
        return min(search.costs([chain.nodes for chain in outcome.chains])) <= limit

    # More takes more memory, so what is affordable comes last in both lists, as `least` is.
    contexts, counts = request.contexts, request.lane_counts
    most = builder.search(contexts[0], counts[0]).best(stages)
    if most.chains and most.chains[0].cost <= limit:
        return _handed_out(builder, contexts[0], counts[0], stages, proven)
    context = contexts[bisect_left(contexts[:-1], True, key=lambda length: affordable(length, lanes))]
    lanes = counts[bisect_left(counts[:-1], True, key=lambda count: affordable(context, count))]
    return _handed_out(builder, context, lanes, stages, proven)


def _handed_out(builder: Builder, context: int, lanes: int, stages: int, proven: bool) -> Splits:
    longest = builder.request.contexts[0]
    search = builder.search(context, lanes)
    outcome = search.best(stages, SHOWN)
    best = [
        builder.grown(
            builder.candidate(chain.nodes, chain.cuts, context, lanes, proven=outcome.proven), longest
        )
        for chain in outcome.chains
    ]
    further = search.best(stages + 1)
    more = None
    if further.chains:
        chain = further.chains[0]
        more = builder.candidate(chain.nodes, chain.cuts, context, lanes, proven=further.proven)
    return Splits(tuple(best), more, proven)
