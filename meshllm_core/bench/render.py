"""Results as text for a person: plain tables, no colour."""

from collections.abc import Sequence
from typing import Any

from meshllm_core.bench.compare import Row
from meshllm_core.bench.measure import METRICS
from meshllm_core.bench.plan import Plan
from meshllm_core.bench.session import Side


def side_table(side: Side, plan: Plan) -> str:
    """One server's medians with lowest and highest."""
    lines = [f"{side.target.endpoint.url}  {side.target.model}", _conditions(side, plan), ""]
    table = [("clients", "figure", "median", "lowest", "highest", "unit")]
    for level in plan.clients:
        found = side.summaries(level)
        table += [
            (str(level), metric.words, _number(s.median), _number(s.lowest), _number(s.highest), metric.unit)
            for metric in METRICS
            if (s := found.get(metric.name)) is not None
        ]
    lines += _columns(table, right=(0, 2, 3, 4))
    if side.memory:
        lines += [
            "",
            f"peak memory {side.memory.distinct / 2**20:.0f} MiB in {side.memory.processes} process(es)",
        ]
    return "\n".join(lines)


def compare_table(rows: Sequence[Row], left: Side, right: Side, plan: Plan) -> str:
    """Both servers' medians, spread and ratio, with the verdict where a limit was given."""
    lines = [
        f"left   {left.name}: {left.target.endpoint.url}  {left.target.model}",
        f"right  {right.name}: {right.target.endpoint.url}  {right.target.model}",
        _conditions(left, plan),
        "",
    ]
    table: list[tuple[str, ...]] = [
        ("clients", "figure", "unit", left.name, "±", right.name, "±", "ratio", "wanted", "")
    ]
    table += [_cells(row) for row in rows]
    lines += _columns(table, right=(0, 3, 4, 5, 6, 7))
    lines += ["", "± is (highest - lowest) / median over the runs."]
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        "" if row.clients is None else str(row.clients),
        row.words,
        row.unit,
        _number(row.left),
        _percent(row.left_spread),
        _number(row.right),
        _percent(row.right_spread),
        "–" if row.ratio is None else f"{row.ratio:.3f}",
        _wanted(row),
        {None: "", True: "ok", False: "SHORT"}[row.good],
    )


def facts_line(facts: dict[str, Any]) -> str:
    """The machine in one line."""
    memory = facts["memory_bytes"] / 2**30
    load = facts["load_average"][0]
    return f"{facts['cpu']}, {facts['cores_logical']} cores, {memory:.0f} GiB, {facts['system']}, load {load}"


def _conditions(side: Side, plan: Plan) -> str:
    timings = [timing for run in side.runs for timing in run.timings]
    if not timings:
        return "no run was finished"
    counts = sorted({timing.prompt_tokens for timing in timings})
    cached = sorted({timing.cached_tokens for timing in timings})
    return (
        f"{_range(counts)} prompt tokens of which {_range(cached)} cached, "
        f"up to {plan.max_tokens} generated, {plan.runs} run(s), temperature 0"
        f"{', prefix reuse' if plan.reuse else ''}{_disturbed(side)}"
    )


def _disturbed(side: Side) -> str:
    return f"; {len(side.disturbed)} disturbed run(s) done again" if side.disturbed else ""


def _range(values: Sequence[int]) -> str:
    return str(values[0]) if values[0] == values[-1] else f"{values[0]}-{values[-1]}"


def _wanted(row: Row) -> str:
    return f"{'≥' if row.limit.at_least else '≤'} {row.limit.bound:g}" if row.limit else ""


def _percent(share: float) -> str:
    return f"{share:.0%}" if share else ""


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}"


def _columns(table: Sequence[tuple[str, ...]], *, right: tuple[int, ...]) -> list[str]:
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return [
        "  ".join(
            cell.rjust(widths[i]) if i in right else cell.ljust(widths[i]) for i, cell in enumerate(row)
        ).rstrip()
        for row in table
    ]
