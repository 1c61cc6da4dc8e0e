"""Tells the event log what changed about each member, and no more often than a person would notice."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from meshllm_core.discovery.text import clean_text
from meshllm_core.ids import NodeId, short
from meshllm_core.membership.gossip_events import PeerState
from meshllm_core.membership.trust import judge
from meshllm_core.mesh.environment import Environment
from meshllm_core.mesh.rows import Facts, Told, row_of
from meshllm_core.mesh.runtime import Mesh
from meshllm_core.state.mesh_events import PeerForgotten, PeerUpdated
from meshllm_core.wire import limits

ALL_SECONDS = 1.0
"""So often every row is looked at; what was touched is told at once."""


@dataclass
class PeerTable:
    """Reads the mesh, appends events."""

    environment: Environment
    mesh: Mesh
    names: dict[NodeId, str]
    """What members were called when they were last here; kept up to date."""
    _told: Told = field(default_factory=Told)
    _touched: set[NodeId] = field(default_factory=set)
    _dismissed: set[NodeId] = field(default_factory=set)
    _all_at: float = float("-inf")

    def __post_init__(self) -> None:
        self._started = self.environment.clock.monotonic()

    def touch(self, node: NodeId) -> None:
        """Something about `node` changed."""
        self._touched.add(node)

    def tell(self) -> None:
        """Appends what is new."""
        now = self.environment.clock.monotonic()
        if now - self._all_at >= ALL_SECONDS:
            self._all_at = now
            self._touched.update(self.mesh.gossip.peers, self._told.nodes(), self._absent())
        touched, self._touched = self._touched, set()
        reported = self._reported() if touched else {}
        for node in touched:
            self._tell(node, reported)

    def dismiss(self, node: NodeId) -> None:
        """No longer listed until it is there again."""
        self._dismissed.add(node)
        self._forget(node)

    def _forget(self, node: NodeId) -> None:
        self._told.forget(node)
        self._touched.discard(node)
        self.environment.append(PeerForgotten(at=self.environment.clock.time(), node=node.hex()))

    def _absent(self) -> list[NodeId]:
        """Members that have not been heard of since this node started."""
        own = self.mesh.me.key.public
        return [member.node for member in self.mesh.roster.members() if member.node != own]

    def _tell(self, node: NodeId, reported: Mapping[bytes, float]) -> None:
        env = self.environment
        wall = env.clock.time()
        membership = self.mesh.roster.membership(node, wall)
        state = self.mesh.peer(node)
        if state is not None and state.status == "alive":
            self._dismissed.discard(node)
        if membership is None or node in self._dismissed:
            if node in self._told.nodes():
                self._forget(node)
            return
        if state is None:
            state = PeerState(status="down", since=self._started)
        link = self.mesh.links.get(node)
        row = row_of(
            Facts(
                node=node,
                state=state,
                since=round(wall - (env.clock.monotonic() - state.since)),
                membership=membership,
                link=link,
                owner=self._owner(node, state),
                skew=link.greeted.skew if link else 0.0,
                reported_rtt=reported.get(node[:8], 0.0),
                detail=self._why(node) if state.status in ("alive", "suspect") else "",
                name=self.names.get(node, ""),
                through=self.name(state.heard_through) if state.heard_through else "",
            )
        )
        news = self._told.news(node, row)
        if news is not None:
            env.append(PeerUpdated(at=wall, peer=news))

    def name(self, node: NodeId) -> str:
        """Of a member, this node too, for a person: cleaned."""
        if node == self.mesh.me.key.public:
            return self.mesh.me.name
        if node == self.mesh.me.key.public:
            return clean_text(self.mesh.me.name, limits.NAME)
        state = self.mesh.peer(node)
        if state is not None and state.announcement is not None:
            self.names[node] = state.announcement.name[: limits.NAME]
        return clean_text(self.names.get(node, ""), limits.NAME) or short(node)

    def _owner(self, node: NodeId, state: PeerState) -> str:
        env = self.environment
        said = state.announcement
        if said is None or not said.owner:
            return ""
        return judge(env.options.trust_policy, env.owners.trust(), said.owner, node, env.clock.time()).words

    def _why(self, node: NodeId) -> str:
        error = self.mesh.failures.get(node)
        return "" if error is None or node in self.mesh.links else error.message

    def _reported(self) -> dict[bytes, float]:
        """What others measured to each node, the least of it; for nodes that we have no link to."""
        trips: dict[bytes, float] = {}
        for state in self.mesh.gossip.peers.values():
            for trip in state.announcement.round_trips if state.announcement else ():
                seconds = trip.microseconds / 1e6
                trips[trip.peer] = min(trips.get(trip.peer, seconds), seconds)
        return trips
