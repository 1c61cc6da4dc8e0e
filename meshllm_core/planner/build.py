"""From a chain of indices to a candidate in words and figures."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from meshllm_core.models.fit import CELL_STEP
from meshllm_core.planner.cost import Costs
from meshllm_core.planner.memory import Matrix, MemoryModel
from meshllm_core.planner.request import PlanRequest
from meshllm_core.planner.result import Candidate, Stage
from meshllm_core.planner.search import NEVER, Problem, Search
from meshllm_core.planner.wire import Wire

PRICED = "f32"
"""Format in which chains are compared, before it is known which one their cuts allow."""


class Builder:
    """What all candidates of one request share."""

    def __init__(self, request: PlanRequest, costs: Costs, memory: MemoryModel) -> None:
        self.request = request
        self.costs = costs
        self.memory = memory
        names, origin = [node.name for node in costs.nodes], request.network.origin
        self._room = _vector(node.room for node in costs.nodes)
        flat = _vector(costs.hop_ns(one, other, PRICED) for one in names for other in names)
        self._forward = flat.reshape(len(names), len(names))
        self._enter = _vector(costs.hop_ns(origin, name) for name in names)
        self._leave = _vector(costs.hop_ns(name, origin) for name in names)
        if origin in names:
            # Whoever drives samples, so its own stage is the last one.
            self._forward[names.index(origin)] = NEVER
        if request.driver_computes:
            self._leave[[name != origin for name in names]] = NEVER
        self._searches: dict[tuple[int, int], Search] = {}

    def search(self, context: int, lanes: int) -> Search:
        """The search among chains that hold `lanes` lanes of `context` tokens."""
        if (context, lanes) not in self._searches:
            need = self.memory.demand(context, lanes)
            # Laid out by the layer where a stage begins, along which the search reads.
            needed = np.ascontiguousarray(need.T)
            begins = np.ascontiguousarray(self.memory.legal.T) & (needed <= self._room[:, None, None])
            problem = Problem(
                compute=self.costs.compute,
                head=self.costs.head,
                forward=self._forward,
                enter=self._enter,
                leave=self._leave,
                fits=begins.transpose(0, 2, 1),
                room=self._room,
                need=need,
            )
            self._searches[context, lanes] = Search(problem)
        return self._searches[context, lanes]

    def candidate(
        self, order: Sequence[int], cuts: Sequence[int], context: int, lanes: int, *, proven: bool = True
    ) -> Candidate:
        """A chain with every figure; `order` are indices of the nodes, `cuts` one more than these."""
        wire = self.request.wires(cuts[1:-1]) if len(order) > 1 else None
        refused = wire if isinstance(wire, str) else ""
        used = wire if isinstance(wire, Wire) else None
        estimate = self.costs.estimate(order, cuts, used.dtype if used else PRICED)
        stages: list[Stage] = []
        for node, (first, end) in zip(order, pairwise(cuts), strict=True):
            name = self.costs.nodes[node].name
            before = stages[-1].node if stages else self.request.network.origin
            hop = self.costs.hops[before, name]
            local = len(order) == 1 or before == name
            stages.append(
                Stage(
                    node=name,
                    first=first,
                    end=end,
                    memory=self.memory.stage(first, end, context, lanes),
                    room=self.costs.nodes[node].room,
                    compute_ms=self.costs.stage_ms(node, first, end),
                    speed=self.costs.nodes[node].speed,
                    hop_ms=None if hop.how == "unknown" and not local else 0.0 if local else hop.one_way_ms,
                    link="local" if local else hop.how,
                )
            )
        # Where no speed is known the network alone can miss the target, but not meet it.
        total, network = estimate.total_ms, estimate.network_ms
        met = None if total is None else total <= self.request.target_ms
        if met is None and network is not None and network > self.request.target_ms:
            met = False
        return Candidate(tuple(stages), context, lanes, estimate, met, used, proven, refused)

    def grown(self, found: Candidate, limit: int) -> Candidate:
        """The same stages with the longest context that fits them, at most `limit` tokens."""
        index = {node.name: number for number, node in enumerate(self.costs.nodes)}
        low, high = found.context // CELL_STEP, limit // CELL_STEP
        while low < high:
            middle = (low + high + 1) // 2
            fits = all(
                self.memory.stage(stage.first, stage.end, middle * CELL_STEP, found.lanes).total <= stage.room
                for stage in found.stages
            )
            low, high = (middle, high) if fits else (low, middle - 1)
        context = max(found.context, low * CELL_STEP)
        if context == found.context:
            return found
        order = [index[stage.node] for stage in found.stages]
        cuts = [0, *(stage.end for stage in found.stages)]
        return self.candidate(order, cuts, context, found.lanes, proven=found.proven)


def _vector(values: Iterable[int]) -> Matrix:
    return np.fromiter(values, dtype=np.int64)
