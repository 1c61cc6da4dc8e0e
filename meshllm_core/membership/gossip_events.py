"""What gossip tells to the one who drives it, and what it knows of each peer."""

from collections.abc import Callable
from dataclasses import dataclass

from meshllm_core.ids import NodeId
from meshllm_core.membership.records import Record, RecordKind
from meshllm_core.state.mesh_events import PeerStatus
from meshllm_core.wire.announcement import Announcement

NEVER = float("-inf")


@dataclass(slots=True)
class PeerState:
    """Another member as this node sees it. Times by the clock that is passed as `now`; read only."""

    status: PeerStatus
    since: float
    """When `status` began."""
    incarnation: int = 0
    last_heard: float = NEVER
    """When the last frame came from the node itself."""
    round_trip: float = 0.0
    """Seconds, smoothed, of this node's own pings; 0 when not known."""
    linked: bool = False
    announcement: Announcement | None = None
    heard_through: NodeId | None = None
    """Who said last that it is alive, where it was not heard directly."""


@dataclass(frozen=True, slots=True)
class PeerAlive:
    """A member is new, answers again, or is back."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class PeerSuspect:
    """A member does not answer, or another one says so; others are asked."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class PeerDown:
    """A member is gone."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class PeerLeft:
    """A member said that it leaves."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class DeathFound:
    """This node found that incarnation dead and is not cut off itself: sign a DEATH record and publish it."""

    node: NodeId
    incarnation: int


@dataclass(frozen=True, slots=True)
class RecordStored:
    """A record came from another node and holds."""

    record: Record


@dataclass(frozen=True, slots=True)
class RecordRefused:
    """A record came and does not hold, or there is no room."""

    kind: RecordKind
    reason: str
    """One word, for counters."""
    peer: NodeId
    """Who sent it."""


@dataclass(frozen=True, slots=True)
class DuplicateIdentity:
    """Another running process signs with this node's key."""

    instance: bytes
    """Of the other process."""


@dataclass(frozen=True, slots=True)
class ClockJumped:
    """This node did not run for a while: its links may be dead, so they have to be tried and made anew."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Refuted:
    """This node took a higher incarnation: announce it at once."""

    incarnation: int


GossipEvent = (
    PeerAlive
    | PeerSuspect
    | PeerDown
    | PeerLeft
    | DeathFound
    | RecordStored
    | RecordRefused
    | DuplicateIdentity
    | ClockJumped
    | Refuted
)

STATUS_EVENTS: dict[PeerStatus, Callable[[NodeId], GossipEvent]] = {
    "alive": PeerAlive,
    "suspect": PeerSuspect,
    "down": PeerDown,
    "left": PeerLeft,
}
"""What tells that a peer's status changed to that."""
