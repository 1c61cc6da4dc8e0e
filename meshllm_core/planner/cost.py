"""Prices: of a hop, of a layer on a machine; the seed's formula beside the sum along the path."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from meshllm_core.planner.memory import Matrix
from meshllm_core.planner.model import SplitModel
from meshllm_core.planner.network import Hop, Network, PlanNode, hops
from meshllm_core.planner.result import Estimate
from meshllm_core.planner.wire import row_bytes

_NS = 1e6
"""Nanoseconds in a millisecond: costs are compared as whole numbers."""


def decode_network_ms_per_token(stages: int, hop_ms: float) -> float:
    """The seed's estimate: tokens return directly, so N stages cost N hops, the slowest setting the pace."""
    return stages * hop_ms


@dataclass(frozen=True)
class Costs:
    """All prices of a plan, by the index of a machine among `nodes`."""

    model: SplitModel
    nodes: tuple[PlanNode, ...]
    network: Network
    hops: dict[tuple[str, str], Hop]
    compute: Matrix
    """[node, end]: nanoseconds of the layers before `end`."""
    head: Matrix
    """[node]: nanoseconds of the head over the vocabulary."""
    assumed: tuple[str, ...]
    """Machines whose speed was not measured, and was taken from the slowest that was."""

    @property
    def compute_known(self) -> bool:
        """Whether any machine's speed was measured."""
        return len(self.assumed) < len(self.nodes)

    def hop_ns(self, one: str, other: str, dtype: str = "") -> int:
        """Link, overhead, transfer of a hidden state as `dtype` (empty: a token); 0 on the same machine."""
        if one == other:
            return 0
        hop = self.hops[one, other]
        ms = hop.one_way_ms + _transfer_ms(hop, self._row(dtype)) + self.network.hop_overhead_ms
        return round(ms * _NS)

    def estimate(self, order: Sequence[int], cuts: Sequence[int], dtype: str) -> Estimate:
        """What a chain costs, term by term. A whole model streams its answers back: no hop for each token."""
        names, row = [self.nodes[index].name for index in order], self._row(dtype)
        origin = self.network.origin
        path = [origin, *names, origin] if len(names) > 1 else names
        crossed = [(one, other) for one, other in pairwise(path) if one != other]
        known = all(self.hops[pair].how != "unknown" for pair in crossed)
        ways = [self.hops[pair].one_way_ms for pair in crossed]
        compute = None
        if self.compute_known:
            spans = zip(order, pairwise(cuts), strict=True)
            layers = sum(
                int(self.compute[node, end] - self.compute[node, first]) for node, (first, end) in spans
            )
            compute = (layers + int(self.head[order[-1]])) / _NS
        return Estimate(
            network_ms=sum(ways) if known else None,
            hops_ms=tuple(ways) if known else (),
            guessed=tuple(
                (*pair, self.hops[pair].how) for pair in crossed if self.hops[pair].how != "measured"
            ),
            transfer_ms=sum(_transfer_ms(self.hops[pair], row) for pair in pairwise(names)),
            compute_ms=compute,
            overhead_ms=self.network.hop_overhead_ms * len(crossed),
            slowest_hop_ms=decode_network_ms_per_token(len(names), max(ways)) if ways and known else None,
        )

    def _row(self, dtype: str) -> int:
        return row_bytes(dtype, self.model.row_width) if dtype else 0

    def stage_ms(self, node: int, first: int, end: int) -> float | None:
        """Compute of one stage per token, the head included where it ends the model."""
        if not self.compute_known:
            return None
        head = int(self.head[node]) if end == self.model.layers else 0
        return (int(self.compute[node, end] - self.compute[node, first]) + head) / _NS


def _transfer_ms(hop: Hop, size: int) -> float:
    return size / hop.bytes_per_second * 1000 if hop.bytes_per_second else 0.0


def costs_of(model: SplitModel, network: Network, nodes: tuple[PlanNode, ...]) -> Costs:
    """Prices for `nodes`, those that may take part."""
    layers = [_layer_ns(model, node) if node.measured else None for node in nodes]
    heads = [_head_ns(model, node) if node.measured else None for node in nodes]
    known = [row for row in layers if row is not None]
    slowest = max(known, key=sum) if known else [0] * model.layers
    slowest_head = max((head for head in heads if head is not None), default=0)
    compute = np.zeros((len(nodes), model.layers + 1), dtype=np.int64)
    for index, row in enumerate(layers):
        compute[index, 1:] = np.cumsum(row if row is not None else slowest)
    names = list(dict.fromkeys([network.origin, *(node.name for node in nodes)]))
    return Costs(
        model=model,
        nodes=nodes,
        network=network,
        hops=hops(network, names),
        compute=compute,
        head=np.array([slowest_head if head is None else head for head in heads], dtype=np.int64),
        assumed=tuple(node.name for node in nodes if not node.measured),
    )


def _layer_ns(model: SplitModel, node: PlanNode) -> list[int]:
    if node.layer_ms is not None:
        return [round(node.layer_ms * _NS)] * model.layers
    pace = node.bytes_per_second or 1.0
    return [round(size / pace * 1000 * _NS) for size in model.active_bytes]


def _head_ns(model: SplitModel, node: PlanNode) -> int:
    if node.head_ms is not None:
        return round(node.head_ms * _NS)
    if node.layer_ms is None:
        return round(model.last_bytes / (node.bytes_per_second or 1.0) * 1000 * _NS)
    each = sum(model.active_bytes) / model.layers
    return round(node.layer_ms * model.last_bytes / each * _NS) if each else 0
