"""Models and machines for the planner's tests."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from meshllm_core.models.facts import GgufFacts, LayerCache
from meshllm_core.planner.model import SplitModel
from meshllm_core.planner.network import Link, Network, PlanNode

GB = 10**9


def model(
    layers: int = 30,
    *,
    total: float = 10 * GB,
    kv_width: int = 1024,
    active: float | None = None,
    context: int = 40_960,
    table: int = 200_000_000,
) -> SplitModel:
    """A model of equal layers."""
    facts = GgufFacts(
        architecture="llama",
        name="",
        layers=layers,
        width=4096,
        vocabulary=128_000,
        context_trained=context,
        heads=(32,) * layers,
        kv_heads=(8,) * layers,
        key_length=128,
        value_length=128,
        feed_forward=14_336,
        sliding_window=0,
        caches=(LayerCache(kv_width, kv_width),) * layers,
        parameters=0,
        tensor_bytes=int(total),
        file_bytes=int(total),
        quantization="Q4_K_M",
        has_chat_template=True,
        pooling=0,
        embeddings=False,
        recurrent=False,
        files=(Path("big.gguf"),),
    )
    table = min(table, int(total) // 10)
    each = (int(total) - 2 * table) // layers
    read = each if active is None else int(active) // layers
    return SplitModel(
        name="big",
        facts=replace(facts, tensor_bytes=each * layers + 2 * table),
        layer_bytes=(each,) * layers,
        active_bytes=(read,) * layers,
        first_bytes=0,
        last_bytes=table,
        shared_bytes=0,
        stub_bytes=1000,
        row_width=4096,
        fingerprint="ab" * 32,
    )


def node(name: str, gigabytes: float, layer_ms: float | None = 1.0, *, excluded: str = "") -> PlanNode:
    """A machine with so much free memory."""
    return PlanNode(name, int(gigabytes * GB), layer_ms=layer_ms, excluded=excluded)


def network(
    nodes: Sequence[PlanNode], rtt: float | None = 20.0, *, links: dict[tuple[str, str], float] | None = None
) -> Network:
    """Machines with one latency (milliseconds round trip) between all, but for `links`."""
    found: dict[tuple[str, str], Link] = {}
    if rtt is not None:
        found = {(one.name, other.name): Link(rtt) for one, other in combinations(nodes, 2)}
    for pair, value in (links or {}).items():
        found[pair] = Link(value)
    return Network(tuple(nodes), found)


def crowd(count: int, gigabytes: float, seed: int, *, known: bool = True) -> Network:
    """Unequal machines with unequal links."""
    generator = random.Random(seed)
    nodes = [
        PlanNode(
            f"n{number}",
            int(generator.uniform(0.5, 1.5) * gigabytes * GB),
            bytes_per_second=generator.uniform(50, 900) * GB,
        )
        for number in range(count)
    ]
    pairs = combinations([each.name for each in nodes], 2)
    links = {pair: Link(generator.uniform(1, 80)) for pair in pairs} if known else {}
    return Network(tuple(nodes), links)
