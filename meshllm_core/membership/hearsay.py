"""How long the word of others counts: while somebody is heard at all, and not for ever."""

from collections.abc import Callable, Collection, Mapping

from meshllm_core.ids import NodeId
from meshllm_core.membership.desk import Desk
from meshllm_core.membership.gossip_events import PeerState
from meshllm_core.state.mesh_events import PeerStatus

SWEEPS = 30
"""Sweeps between two looks for members of whom there is no news."""

Change = tuple[NodeId, PeerStatus]


class Hearsay:
    """For members that this node does not watch itself."""

    def __init__(
        self, desk: Desk, peers: Mapping[NodeId, PeerState], ended: Callable[[NodeId, PeerState], bool]
    ) -> None:
        """`ended`: whether a DEATH or DEPARTURE of the member's incarnation is stored."""
        self._desk = desk
        self._peers = peers
        self._ended = ended
        self._cut_off: set[NodeId] = set()
        """Down by this node's own evidence alone, which is none when it hears nobody."""
        self._contact: float | None = None
        self._news: dict[NodeId, float] = {}
        self._sweeps = 0

    def announced(self, node: NodeId) -> None:
        """There is news of a member."""
        self._news[node] = self._desk.now

    def doubted(self, node: NodeId) -> None:
        """This node itself found it down; whether others agree will be seen."""
        self._cut_off.add(node)

    def settled(self, node: NodeId) -> None:
        """Its status follows from something else."""
        self._cut_off.discard(node)

    def forget(self, node: NodeId) -> None:
        """It is listed no more."""
        self._cut_off.discard(node)
        self._news.pop(node, None)

    def sweep(self, contact: bool, unwatched: Collection[NodeId]) -> list[Change]:
        """What has to change. `contact`: some linked member is alive."""
        if not contact:
            self._contact = None
            lost = [node for node in unwatched if self._peers[node].status in ("alive", "suspect")]
            self._cut_off.update(lost)
            return [(node, "down") for node in lost]
        now, config = self._desk.now, self._desk.config
        self._contact = now if self._contact is None else self._contact
        changes: list[Change] = []
        if self._cut_off and now - self._contact >= config.isolation:
            # Those that are watched are dialled and asked about; of the others somebody else would say so.
            doubtful = self._cut_off.intersection(unwatched)
            changes += [(n, "alive") for n in doubtful if not self._ended(n, self._peers[n])]
        self._sweeps += 1
        if self._sweeps % SWEEPS == 0:
            for node in unwatched:
                state = self._peers[node]
                if state.status == "alive" and not state.linked and self._is_old(node):
                    changes.append((node, "down"))
        return changes

    def _is_old(self, node: NodeId) -> bool:
        return self._desk.now - self._news.get(node, self._desk.now) > self._desk.config.hearsay
