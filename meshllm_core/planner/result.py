"""What the planner answers: a plan with everything it weighed, or a refusal."""

from dataclasses import dataclass

from meshllm_core.planner.memory import StageMemory
from meshllm_core.planner.network import Speed
from meshllm_core.planner.wire import Wire


@dataclass(frozen=True)
class Stage:
    """A contiguous range of layers on one machine."""

    node: str
    first: int
    end: int
    """Layers [first, end)."""
    memory: StageMemory
    room: int
    """Bytes it may take there."""
    compute_ms: float | None
    """Milliseconds per token; None: nothing was measured."""
    hop_ms: float | None
    """One way from where the token comes from (the stage before, or the driver); None: not known."""
    link: str
    """How `hop_ms` is known: measured, relayed, assumed, unknown; local where there is no link."""
    speed: Speed = "not measured"
    """How the speed of its machine is known; not measured: taken for the slowest that is, if any is."""

    @property
    def layers(self) -> int:
        """How many layers it has."""
        return self.end - self.first


@dataclass(frozen=True)
class Estimate:
    """Milliseconds per decoded token; None where nothing is known."""

    network_ms: float | None
    """One-way latencies along the path and back to the driver."""
    hops_ms: tuple[float, ...]
    """Each of them in order, those between different machines only."""
    guessed: tuple[tuple[str, str, str], ...]
    """Hops that were not measured: from, to, and how they are known (relayed, assumed, unknown)."""
    transfer_ms: float
    """Sending the hidden states through links whose bandwidth is known."""
    compute_ms: float | None
    overhead_ms: float
    """What hops cost beyond link and compute."""
    slowest_hop_ms: float | None
    """The seed's estimate: the slowest hop times the number of stages."""

    @property
    def total_ms(self) -> float | None:
        """All of it; None unless both the network and the compute are known."""
        if self.network_ms is None or self.compute_ms is None:
            return None
        return self.network_ms + self.transfer_ms + self.compute_ms + self.overhead_ms

    @property
    def tokens_per_second(self) -> float | None:
        """Of one request; None if the total is not known."""
        total = self.total_ms
        return 1000 / total if total else None


@dataclass(frozen=True)
class Candidate:
    """One way to run the model."""

    stages: tuple[Stage, ...]
    context: int
    """Tokens of one lane."""
    lanes: int
    estimate: Estimate
    target_met: bool | None
    """Whether the time per token meets the target; None: not known."""
    wire: Wire | None
    """None for one stage: nothing crosses."""
    proven: bool
    """Whether no better one with as many stages exists; False where the search had to leave some out."""
    refused: str = ""
    """Why no wire format may be used between its stages: it is never chosen then. Empty if one may."""
    reasons: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The machines in order."""
        return tuple(stage.node for stage in self.stages)

    @property
    def title(self) -> str:
        """Its machines in a word: `attic alone`, `attic|desk`."""
        return f"{self.nodes[0]} alone" if len(self.stages) == 1 else "|".join(self.nodes)

    @property
    def estimated_decode_network_ms_per_token(self) -> float | None:
        """What the network costs each token."""
        return self.estimate.network_ms

    @property
    def decode_tpot_target_met(self) -> bool | None:
        """Whether the time per output token meets the target."""
        return self.target_met

    @property
    def spare(self) -> int:
        """Bytes left on the machine with the least."""
        return min(stage.room - stage.memory.total for stage in self.stages)


@dataclass(frozen=True)
class Exclusion:
    """A machine that has no part in the plan."""

    node: str
    standby: bool
    """Whether it could step in; False: it cannot take part."""
    reason: str


@dataclass(frozen=True)
class Plan:
    """A way to run the model, beside what else was weighed."""

    model: str
    chosen: Candidate
    others: tuple[Candidate, ...]
    """Best first."""
    excluded: tuple[Exclusion, ...]
    target_ms: float
    sentence: str
    """The choice with its price, for a person."""


@dataclass(frozen=True)
class Refusal:
    """No way to run the model as asked."""

    model: str
    missing: tuple[str, ...]
    would_fit: tuple[str, ...]
    excluded: tuple[Exclusion, ...]
