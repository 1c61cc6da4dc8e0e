"""Whether a plan that runs gives way to a new one: never a faster one for a slower one while it lives."""

from dataclasses import dataclass

from meshllm_core.planner.choose import EQUAL
from meshllm_core.planner.result import Candidate
from meshllm_core.planner.words import milliseconds


@dataclass(frozen=True)
class Replan:
    """What to do, and why."""

    adopt: bool
    reason: str


def replan(
    living: Candidate, offered: Candidate, *, lost: tuple[str, ...] = (), measured_ms: float | None = None
) -> Replan:
    """Whether `offered` takes the place of `living`, some of whose machines may be `lost`.

    `measured_ms` per token of the living plan counts more than its estimate. A plan that works is kept unless
    the new one is faster by more than a prediction's exactness: moving loses every cache and costs a load.
    """
    if lost:
        return Replan(True, f"{', '.join(lost)} is gone: the layers there have to run elsewhere")
    if _places(living) == _places(offered):
        return Replan(False, "the new plan is the one that runs")
    running, then = measured_ms or living.estimate.total_ms, offered.estimate.total_ms
    if running is None or then is None:
        network, less = living.estimate.network_ms, offered.estimate.network_ms
        if network is None or less is None or living.estimate.compute_ms is not None:
            return Replan(False, "what runs is kept: which of the two is faster is not known")
        running, then = measured_ms or network, less
    words = f"{milliseconds(then)} per token instead of {milliseconds(running)}"
    if then * EQUAL < running:
        return Replan(True, f"it is faster: {words}")
    if then > running:
        return Replan(False, f"what runs is kept: the new plan is slower, {words}")
    return Replan(False, f"what runs is kept: the new plan is hardly faster, {words}")


def _places(candidate: Candidate) -> tuple[tuple[str, int, int], ...]:
    return tuple((stage.node, stage.first, stage.end) for stage in candidate.stages)
