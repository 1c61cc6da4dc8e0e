"""What the parts of the gossip machine share: the time, what goes out, what is told."""

from collections.abc import Callable

from meshllm_core.ids import NodeId
from meshllm_core.membership.gossip_config import GossipConfig
from meshllm_core.membership.gossip_events import GossipEvent, RecordRefused
from meshllm_core.wire.gossip import GossipMessage

REFUSALS_KEPT = 256


class Desk:
    """One per machine."""

    def __init__(self, me: NodeId, config: GossipConfig, random: Callable[[], float]) -> None:
        """`random` gives 0 up to 1."""
        self.me = me
        self.config = config
        self.random = random
        self.now = 0.0
        self.wall = 0.0
        self._out: list[tuple[NodeId, GossipMessage]] = []
        self._events: list[GossipEvent] = []
        self._refusals = 0

    def send(self, peer: NodeId, message: GossipMessage) -> None:
        """For `outgoing`. What a peer can cause here is limited by its allowance."""
        self._out.append((peer, message))

    def tell(self, event: GossipEvent) -> None:
        """For `events`. Of refusals only so many are kept until the next drain: they are for counting."""
        if isinstance(event, RecordRefused):
            self._refusals += 1
            if self._refusals > REFUSALS_KEPT:
                return
        self._events.append(event)

    @property
    def undrained(self) -> int:
        """Events that wait."""
        return len(self._events)

    def drop(self, peer: NodeId) -> None:
        """The link to `peer` is gone."""
        self._out = [entry for entry in self._out if entry[0] != peer]

    def drain_out(self) -> list[tuple[NodeId, GossipMessage]]:
        """What was sent since the last drain."""
        out, self._out = self._out, []
        return out

    def drain_events(self) -> list[GossipEvent]:
        """What was told since the last drain."""
        events, self._events, self._refusals = self._events, [], 0
        return events
