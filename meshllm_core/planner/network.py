"""What the machines are and what lies between them; the price of a hop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from meshllm_core.models.fit import room_for

Speed = Literal["measured", "calibrated", "not measured"]

HOP_OVERHEAD_MS = 1.5
"""Per hop beyond the link and the compute: encoding, channel, hand-over to the engine."""


@dataclass(frozen=True)
class PlanNode:
    """A machine that may hold a stage."""

    name: str
    """Unique among the nodes of a plan."""
    memory: int
    """Bytes free for a model."""
    limit: int | None = None
    """Bytes its owner lends at most."""
    layer_ms: float | None = None
    """Milliseconds per layer and token, measured there."""
    head_ms: float | None = None
    """Milliseconds per token of the head over the vocabulary; None: by its bytes, at the layers' pace."""
    bytes_per_second: float | None = None
    """How fast it reads weights, where no time per layer is known."""
    calibrated: bool = False
    """Whether that comes from a calibration: a small model made to measure it, not one that answers."""
    excluded: str = ""
    """Why it cannot take part, in words; empty if it can."""

    @property
    def room(self) -> int:
        """Bytes a stage may take: the free memory or the limit, without what is kept in reserve."""
        available, reserve = room_for(self.memory, self.limit)
        return max(0, available - reserve)

    @property
    def measured(self) -> bool:
        """Whether its speed is known."""
        return self.layer_ms is not None or self.bytes_per_second is not None

    @property
    def speed(self) -> Speed:
        """How its speed is known."""
        return "not measured" if not self.measured else "calibrated" if self.calibrated else "measured"


@dataclass(frozen=True)
class Link:
    """What was measured between two machines."""

    rtt_ms: float
    bytes_per_second: float | None = None


@dataclass(frozen=True)
class Hop:
    """One way from a machine to another, in milliseconds."""

    one_way_ms: float
    bytes_per_second: float | None = None
    how: str = "measured"
    """measured, relayed (the shortest way over others), assumed (the slowest that is known), or unknown."""


@dataclass(frozen=True)
class Network:
    """The machines and the links between them."""

    nodes: tuple[PlanNode, ...]
    links: Mapping[tuple[str, str], Link] = field(default_factory=dict)
    """By names; a pair that was measured from one side counts for both directions."""
    driver: str = ""
    """The machine that takes the requests, to which each token goes back. Empty: the first."""
    hop_overhead_ms: float = HOP_OVERHEAD_MS

    @property
    def latency_known(self) -> bool:
        """Whether anything at all is known of the links."""
        return bool(self.links)

    @property
    def origin(self) -> str:
        """The machine that takes the requests."""
        return self.driver or (self.nodes[0].name if self.nodes else "")

    def link(self, one: str, other: str) -> Link | None:
        """What was measured between two machines, from either side."""
        return self.links.get((one, other)) or self.links.get((other, one))


def hops(network: Network, names: Sequence[str]) -> dict[tuple[str, str], Hop]:
    """Every ordered pair of `names`. Unknown links go the shortest known way, else count as the slowest.

    An unknown latency is never taken for none: that would make the machine of which least is known the best.
    """
    index = {name: number for number, name in enumerate(names)}
    direct = np.full((len(names), len(names)), np.inf)
    np.fill_diagonal(direct, 0.0)
    for (one, other), link in network.links.items():
        if one in index and other in index and one != other:
            place = index[one], index[other]
            direct[place] = direct[place[::-1]] = min(link.rtt_ms, float(direct[place]))
    reach = direct.copy()
    for middle in range(len(names)):
        np.minimum(reach, reach[:, middle, None] + reach[None, middle], out=reach)
    slowest = max((link.rtt_ms for link in network.links.values()), default=None)
    found: dict[tuple[str, str], Hop] = {}
    for one in names:
        for other in names:
            place = index[one], index[other]
            measured, relayed = float(direct[place]), float(reach[place])
            if one == other:
                found[one, other] = Hop(0.0)
            elif measured < np.inf:
                known = network.link(one, other)
                found[one, other] = Hop(measured / 2, known.bytes_per_second if known is not None else None)
            elif relayed < np.inf:
                found[one, other] = Hop(relayed / 2, how="relayed")
            elif slowest is not None:
                found[one, other] = Hop(slowest / 2, how="assumed")
            else:
                found[one, other] = Hop(0.0, how="unknown")
    return found
