"""Two servers side by side: the ratio of their medians, and whether it is good enough."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meshllm_core.bench.measure import METRICS
from meshllm_core.bench.plan import Plan
from meshllm_core.bench.session import Side


@dataclass(frozen=True)
class Limit:
    """A bound on left / right of one metric at one level of clients (None: of the process group)."""

    metric: str
    clients: int | None
    bound: float
    at_least: bool

    def holds(self, ratio: float | None) -> bool:
        """Whether a ratio keeps to it; one that could not be measured does not."""
        if ratio is None:
            return False
        return ratio >= self.bound if self.at_least else ratio <= self.bound


@dataclass(frozen=True)
class Row:
    """One figure of both sides. `clients` is None for memory."""

    metric: str
    words: str
    unit: str
    clients: int | None
    left: float | None
    right: float | None
    left_spread: float
    right_spread: float
    limit: Limit | None

    @property
    def ratio(self) -> float | None:
        """Left / right; None where either is missing."""
        return self.left / self.right if self.left is not None and self.right else None

    @property
    def good(self) -> bool | None:
        """Whether its limit holds; None without one."""
        return self.limit.holds(self.ratio) if self.limit else None

    def as_json(self) -> dict[str, Any]:
        """The same as a JSON object."""
        bound = None
        if self.limit:
            bound = {"min" if self.limit.at_least else "max": self.limit.bound, "met": self.good}
        return {
            "metric": self.metric,
            "unit": self.unit,
            "clients": self.clients,
            "left": self.left,
            "right": self.right,
            "ratio": self.ratio,
            "left_spread": self.left_spread,
            "right_spread": self.right_spread,
            "limit": bound,
        }


def limits(
    plan: Plan,
    min_decode: float | None,
    min_aggregate: float | None,
    max_ttft: float | None,
    max_memory: float | None,
) -> list[Limit]:
    """The bounds that were given. Decode and first token are judged at the fewest clients, the aggregate at
    the most; of its two definitions the one from sending to end, which no order of prompts can flatter.
    """
    fewest, most = min(plan.clients), max(plan.clients)
    wanted: list[tuple[str, int | None, float | None, bool]] = [
        ("decode_tok_s", fewest, min_decode, True),
        ("aggregate_tok_s", most, min_aggregate, True),
        ("ttft_ms", fewest, max_ttft, False),
        ("memory_mib", None, max_memory, False),
    ]
    return [
        Limit(metric, clients, bound, at_least)
        for metric, clients, bound, at_least in wanted
        if bound is not None
    ]


def compare(left: Side, right: Side, plan: Plan, limits: Sequence[Limit]) -> list[Row]:
    """A row per level and metric, then memory where both sides have it.

    A limit on something that was not measured gets an empty row, which does not hold.
    """
    bounds = {(limit.metric, limit.clients): limit for limit in limits}
    rows = [row for level in plan.clients for row in _level_rows(left, right, level, bounds)]
    rows += _memory_rows(left, right, bounds)
    present = {(row.metric, row.clients) for row in rows}
    missing = [limit for key, limit in bounds.items() if key not in present]
    return rows + [
        Row(limit.metric, limit.metric, "", limit.clients, None, None, 0.0, 0.0, limit) for limit in missing
    ]


def _level_rows(
    left: Side, right: Side, level: int, bounds: Mapping[tuple[str, int | None], Limit]
) -> list[Row]:
    ours, theirs = left.summaries(level), right.summaries(level)
    rows: list[Row] = []
    for metric in METRICS:
        a, b = ours.get(metric.name), theirs.get(metric.name)
        if a is None and b is None:
            continue
        rows.append(
            Row(
                metric.name,
                metric.words,
                metric.unit,
                level,
                a.median if a else None,
                b.median if b else None,
                a.spread if a else 0.0,
                b.spread if b else 0.0,
                bounds.get((metric.name, level)),
            )
        )
    return rows


def _memory_rows(left: Side, right: Side, bounds: Mapping[tuple[str, int | None], Limit]) -> list[Row]:
    if left.memory is None or right.memory is None:
        return []
    pairs = (
        ("memory_mib", "peak memory", left.memory.distinct, right.memory.distinct),
        ("high_water_mib", "sum of high-water marks", left.memory.high_water, right.memory.high_water),
    )
    return [
        Row(name, words, "MiB", None, a / 2**20, b / 2**20, 0.0, 0.0, bounds.get((name, None)))
        for name, words, a, b in pairs
    ]
