"""The planner's sentences: what a choice costs and why, in words a person can check."""

from dataclasses import replace

from meshllm_core.models.units import show_bytes
from meshllm_core.planner.result import Candidate, Estimate, Exclusion


def milliseconds(value: float) -> str:
    """Two digits that matter."""
    return f"{value:.0f} ms" if value >= 9.95 else f"{value:.1f} ms" if value >= 0.095 else f"{value:.2g} ms"


def rate(estimate: Estimate) -> str:
    """Tokens a second, or what is known instead."""
    speed = estimate.tokens_per_second
    if speed is not None:
        return f"{speed:.0f} tok/s" if speed >= 9.95 else f"{speed:.1f} tok/s"
    if estimate.network_ms:
        return f"at most {1000 / estimate.network_ms:.0f} tok/s (no machine's speed is measured)"
    return "speed not known: nothing is measured"


def network(estimate: Estimate) -> str:
    """`2 × 11 ms`, or `11 + 24 ms` where hops differ."""
    shown = [milliseconds(hop) for hop in estimate.hops_ms]
    if len(set(shown)) == 1:
        return f"{len(shown)} × {shown[0]}"
    return " + ".join(hop.removesuffix(" ms") for hop in shown) + " ms"


def price(candidate: Candidate) -> str:
    """A candidate with its speed: `attic alone: 41 tok/s`, `split a|b: 19 tok/s, because …`."""
    estimate = candidate.estimate
    if len(candidate.stages) == 1:
        return f"{candidate.title}: {rate(estimate)}"
    said = f"split {candidate.title}: {rate(estimate)}"
    if estimate.hops_ms:
        return f"{said}, because {network(estimate)} of network per token"
    return f"{said}; no latency between the machines is known"


def sentence(model: str, chosen: Candidate, alone: Candidate | None, split: Candidate | None) -> str:
    """The choice beside its alternative."""
    if len(chosen.stages) == 1:
        said = f"{model} on {price(chosen)}"
        return f"{said}; {price(split)}." if split is not None else f"{said}."
    if alone is None:
        return f"{model} fits on no machine alone; {price(chosen)}."
    return f"{model} on {price(alone)}; {price(chosen)}."


def with_reasons(
    candidate: Candidate, *reasons: str, target_ms: float, assumed: tuple[str, ...]
) -> Candidate:
    """The candidate with its reasons: those given, and what its own figures say."""
    said = [reason for reason in reasons if reason]
    estimate = candidate.estimate
    if len(candidate.stages) > 1:
        said.append(_terms(candidate))
        if estimate.slowest_hop_ms is not None:
            said.append(
                f"{len(candidate.stages)} stages × the slowest hop, {milliseconds(max(estimate.hops_ms))}, "
                f"are {milliseconds(estimate.slowest_hop_ms)} per token"
            )
    if candidate.target_met is not None:
        verb = "meets" if candidate.target_met else "misses"
        said.append(f"{verb} the target of {milliseconds(target_ms)} per token")
    for how, what in (
        ("relayed", "was not measured: it is taken over other machines"),
        ("assumed", "was not measured: it is taken for the slowest that is known"),
        ("unknown", "was not measured"),
    ):
        unsure = [f"{one} to {other}" for one, other, known in estimate.guessed if known == how]
        if unsure:
            said.append(f"the way from {', '.join(unsure)} {what}")
    guessed = [stage.node for stage in candidate.stages if stage.node in assumed]
    if guessed and estimate.compute_ms is not None:
        said.append(f"the speed of {', '.join(guessed)} is not measured: taken for the slowest that is")
    calibrated = [stage.node for stage in candidate.stages if stage.speed == "calibrated"]
    if calibrated:
        said.append(
            f"the speed of {', '.join(calibrated)} is calibrated on a small model; no answer has shown it yet"
        )
    if candidate.wire is not None:
        said.append(f"hidden states travel as {candidate.wire.note}")
    if candidate.refused:
        said.append(f"not allowed: {candidate.refused}")
    if not candidate.proven:
        said.append("not all arrangements were compared: a better one with as many stages may exist")
    return replace(candidate, reasons=tuple(said))


def _terms(candidate: Candidate) -> str:
    estimate = candidate.estimate
    terms = []
    if estimate.compute_ms is not None:
        terms.append(f"{milliseconds(estimate.compute_ms)} compute")
    if estimate.network_ms is not None:
        terms.append(f"{milliseconds(estimate.network_ms)} network")
    terms.append(f"{milliseconds(estimate.overhead_ms)} hand-over")
    if estimate.transfer_ms >= 0.05:
        terms.append(f"{milliseconds(estimate.transfer_ms)} transfer")
    return f"per token {' + '.join(terms)}"


def lacking(name: str, needed: int, room: int) -> Exclusion:
    """A machine on which the whole model does not fit, nor any stage."""
    return Exclusion(
        name,
        False,
        f"no stage fits: the smallest needs {show_bytes(needed)}, {show_bytes(room)} may be used",
    )
