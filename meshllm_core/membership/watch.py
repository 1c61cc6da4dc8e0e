"""What is known of a member that this node itself keeps an eye on."""

from dataclasses import dataclass, field

from meshllm_core.membership.gossip_config import GossipConfig
from meshllm_core.membership.gossip_events import NEVER, PeerState

OPEN_PINGS = 4
"""Pings of one peer whose answer still counts for its round-trip time."""
SAMPLES = 8
"""Round trips of which the least counts: the others waited for a busy machine, not for the network."""
YOUNG = 4
"""Round trips of a new link that are measured in quick succession."""
FOREVER = float("inf")


@dataclass(slots=True)
class Watch:
    """There is a link to the member, or there should be one."""

    since: float
    """Silence is counted from here at the earliest."""
    next_ping: float
    exchanged: float
    """When summaries were compared last."""
    vouched: float = NEVER
    """When another member heard it."""
    unanswered: int = 0
    pinged: float = NEVER
    verdict: float = FOREVER
    """When a suspicion is decided."""
    answers: int = 0
    """Of others, to that suspicion …"""
    silent: int = 0
    """… and those of them who have a link to it and hear nothing either."""
    open: dict[int, float] = field(default_factory=dict)
    """Nonce to the time of sending."""
    samples: list[float] = field(default_factory=list)
    """The latest round trips."""

    def afresh(self, now: float) -> None:
        """What was silent before counts no more."""
        self.since = self.next_ping = now
        self.unanswered = 0
        self.verdict = FOREVER

    @property
    def young(self) -> bool:
        """Whether the first round trips, made while both were busy with the join, may be all there is."""
        return len(self.samples) < YOUNG

    def sent(self, nonce: int, now: float) -> None:
        """A ping went out."""
        if len(self.open) >= OPEN_PINGS:
            del self.open[next(iter(self.open))]
        self.open[nonce] = self.pinged = now

    def measured(self, state: PeerState, nonce: int, now: float) -> None:
        """Its answer came."""
        sent = self.open.pop(nonce, None)
        if sent is not None:
            self.samples = [*self.samples[1 - SAMPLES :], max(1e-6, now - sent)]
            state.round_trip = min(self.samples)

    def suspect_at(self, state: PeerState, config: GossipConfig) -> float:
        """When it is silent for too long; never while too few pings went without an answer."""
        if self.unanswered < config.misses:
            return FOREVER
        return max(state.last_heard, self.vouched, self.since) + config.silence

    def may_be_due(self, when: float, config: GossipConfig) -> bool:
        """False where `due` is certainly later: that is asked for each peer at each message."""
        return self.next_ping <= when or self.verdict <= when or self.unanswered >= config.misses

    def due(self, state: PeerState, config: GossipConfig) -> float:
        """When there is something to do about it."""
        if state.status == "left":
            return FOREVER
        due = min(self.next_ping, self.verdict)
        return min(due, self.suspect_at(state, config)) if state.status == "alive" else due
