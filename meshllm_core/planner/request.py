"""What the planner is asked."""

from dataclasses import dataclass, field

from meshllm_core.models.fit import AUTO_CONTEXT, MIN_CONTEXT, EngineSettings
from meshllm_core.planner.memory import Windows, every_range
from meshllm_core.planner.model import SplitModel
from meshllm_core.planner.network import Network
from meshllm_core.planner.wire import Wires, lossless

TARGET_MS = 1000 / 30
"""Time per output token that is aimed at: 30 tokens a second."""
LANES = 4
"""Requests computed at the same time that an automatic choice aims for."""


@dataclass(frozen=True)
class PlanRequest:
    """A model, the machines, and what is wanted."""

    model: SplitModel
    network: Network
    context: int = 0
    """Tokens of one lane; 0 chooses."""
    lanes: int = 0
    """0 chooses."""
    target_ms: float = TARGET_MS
    windows: Windows = every_range
    """Which stages give the model's own answers."""
    wires: Wires = lossless
    """Which codec may be used between stages."""
    settings: EngineSettings = field(default_factory=EngineSettings)
    idle_sequences: int = 0
    """Sequences that the KV cache keeps beside one for each lane."""
    driver_computes: bool = False
    """Whether a split needs a stage on the driver, as a node that is asked for one computes its last."""
    indivisible: str = ""
    """Why the model cannot be cut at all; empty if it can."""

    @property
    def contexts(self) -> tuple[int, ...]:
        """Contexts to try, the longest first: the one asked for, or halves of what is aimed at."""
        if self.context:
            return (self.context,)
        longest = max(1, min(self.model.facts.context_trained, AUTO_CONTEXT))
        steps = [longest]
        while steps[-1] // 2 >= MIN_CONTEXT:
            steps.append(steps[-1] // 2)
        return tuple(steps)

    @property
    def lane_counts(self) -> tuple[int, ...]:
        """Lanes to try, the most first."""
        return (self.lanes,) if self.lanes else tuple(range(LANES, 0, -1))
