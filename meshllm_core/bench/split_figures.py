"""What came out of the split benchmark: each figure with its bound, as a table and as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from meshllm_core.bench.stats import Summary


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    name: str
    words: str
    unit: str
    value: float
    bound: float | None = None
    at_least: bool = False
    """Whether the bound is the least value; else it is the highest."""
    spread: float = 0.0
    """(highest - lowest) / median of the runs."""
    note: str = ""

    @property
    def good(self) -> bool | None:
        """Whether the bound is kept; None without one."""
        if self.bound is None:
            return None
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def as_json(self) -> dict[str, Any]:
        """The same as a JSON object."""
        return {
            "name": self.name,
            "words": self.words,
            "unit": self.unit,
            "value": round(self.value, 3),
            "bound": None if self.bound is None else round(self.bound, 3),
            "at_least": self.at_least,
            "good": self.good,
            "spread": round(self.spread, 4),
            "note": self.note,
        }


@dataclass(frozen=True)
class AtDelay:
    """Decoding with one client over a link, all sides measured in turn."""

    delay_ms: float
    """As the link was set."""
    link_ms: float
    """One way, measured by datagrams."""
    whole: Summary
    """Tokens per second on one machine."""
    split: Summary
    rpc: Summary | None
    way: str
    """What carried the rows: tls or quic."""


HOP_BOUND_MS = {"tls": 1.5, "quic": 3.0}
RATIO_BOUND = 1.10
CONCURRENCY_BOUND = 3.0
PREFILL_BOUND = 1.5
MEMORY_BOUND = 1.15


def decode_figures(at: AtDelay) -> list[Figure]:
    """Time per token beside computing and the link; the hop's own part; RPC beside it."""
    compute, split = 1000 / at.whole.median, 1000 / at.split.median
    where = f"{at.delay_ms:g} ms, {at.way}"
    key = f"{at.way}_{at.delay_ms:g}ms"
    made = [
        Figure(f"link_{key}", f"link one way, set to {where}", "ms", at.link_ms),
        Figure(f"whole_{key}", f"unsplit meanwhile ({where})", "ms/token", compute, spread=at.whole.spread),
        Figure(
            f"split_{key}",
            f"two stages, {where}",
            "ms/token",
            split,
            RATIO_BOUND * (compute + 2 * at.link_ms),
            spread=at.split.spread,
            note=f"{RATIO_BOUND:g} × (unsplit + 2 × link)",
        ),
        Figure(
            f"hop_{key}",
            f"a hop beyond link and compute, {where}",
            "ms",
            (split - compute) / 2 - at.link_ms,
            HOP_BOUND_MS[at.way],
        ),
    ]
    if at.rpc is not None:
        rpc = 1000 / at.rpc.median
        made.append(
            Figure(
                f"rpc_{key}",
                f"llama.cpp RPC, {at.delay_ms:g} ms",
                "ms/token",
                rpc,
                split,
                at_least=True,
                spread=at.rpc.spread,
                note="slower than the split",
            )
        )
    return made


def concurrency_figure(one: Summary, many: Summary, clients: int, delay_ms: float | None) -> Figure:
    """Tokens per second of all clients in terms of one client's; without a delay: of the unsplit node."""
    split = delay_ms is not None
    return Figure(
        "concurrency" if split else "concurrency_whole",
        f"{clients} clients {f'at {delay_ms:g} ms' if split else 'unsplit'} in terms of one",
        "×",
        many.median / one.median,
        CONCURRENCY_BOUND if split else None,
        at_least=True,
        spread=max(one.spread, many.spread),
        note=f"{many.median:.1f} beside {one.median:.1f} tok/s",
    )


def prefill_figures(
    flight: Summary, lock_step: Summary, whole: Summary, tokens: int, delay_ms: float
) -> list[Figure]:
    """Seconds to the first token of a long prompt."""
    words = f"prompt of {tokens} tokens at {delay_ms:g} ms"
    return [
        Figure(
            "prefill_whole", f"prompt of {tokens} tokens, unsplit", "s", whole.median, spread=whole.spread
        ),
        Figure("prefill_lock_step", f"{words}, lock-step", "s", lock_step.median, spread=lock_step.spread),
        Figure("prefill", f"{words}, chunks in flight", "s", flight.median, spread=flight.spread),
        Figure(
            "prefill_speedup",
            "chunks in flight beside lock-step",
            "×",
            lock_step.median / flight.median,
            PREFILL_BOUND,
            at_least=True,
        ),
    ]


@dataclass(frozen=True)
class StageMemory:
    """Bytes of one stage's engine."""

    layers: int
    of_layers: int
    weights: int
    needed: int
    """Weights, KV cache and compute buffers, as planned."""
    resident: int
    bare: int
    """Of an engine without a model: interpreter and libraries."""
    foreign: tuple[str, ...]
    """Names of model files other than its own that the node maps."""


def memory_figures(found: StageMemory) -> list[Figure]:
    """Beside its own bytes, its cache and its buffers."""
    mib = 2**20
    words = f"stage of {found.layers} of {found.of_layers} layers"
    bound = found.needed + (MEMORY_BOUND - 1) * found.weights
    return [
        Figure("stage_weights", f"{words}: its own weights", "MiB", found.weights / mib),
        Figure("stage_needed", f"{words}: with KV cache and buffers, planned", "MiB", found.needed / mib),
        Figure(
            "stage_resident",
            f"{words}: resident",
            "MiB",
            (found.resident - found.bare) / mib,
            bound / mib,
            note=f"{MEMORY_BOUND:g} × weights + cache + buffers; "
            f"without {found.bare / mib:.0f} MiB of a bare engine",
        ),
        Figure(
            "foreign_files",
            "model files mapped there that are not its stage",
            "files",
            len(found.foreign),
            0,
            note=", ".join(found.foreign)[:80],
        ),
    ]


def figures_table(figures: Sequence[Figure]) -> str:
    """Aligned text."""
    rows = [("figure", "value", "unit", "±", "wanted", "", "")]
    for figure in figures:
        wanted = "" if figure.bound is None else f"{'≥' if figure.at_least else '≤'} {number(figure.bound)}"
        verdict = {None: "", True: "ok", False: "SHORT"}[figure.good]
        spread = f"{figure.spread:.0%}" if figure.spread else ""
        rows.append((figure.words, number(figure.value), figure.unit, spread, wanted, verdict, figure.note))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    right = (1, 3, 4)
    return "\n".join(
        "  ".join(
            cell.rjust(widths[i]) if i in right else cell.ljust(widths[i]) for i, cell in enumerate(row)
        ).rstrip()
        for row in rows
    )


def number(value: float) -> str:
    """With as many digits as mean something."""
    if value == int(value) and abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.1f}"
