"""The gossip machine: who is alive, and the same signed records at every member. No I/O: bytes and time in.

Whoever drives it calls `receive` for messages, `tick` at `deadline`, and after each call drains
`events` and `outgoing`. `now` is any clock that does not go back, `wall` is seconds since the epoch.

**Liveness.** Up to 33 members everybody links to everybody, above that along a skip ring (see
`neighbours`). A linked peer is pinged when nothing came from it for 2 s, then every 1.25 s; any frame
counts as life, so a busy peer that answers slowly stays. After 3 pings without an answer and 6 s of
silence it is suspect and up to 3 others are asked whether they hear it; 1 s later it is down. If any of
those others answered, this node is not cut off itself, and the shell signs a DEATH record. Whoever
stores that suspects the member too, unless it heard it within 6 s; without a link to it the suspicion
lasts 2 s. The member contradicts with a higher incarnation. A neighbour that cannot be linked is asked
about through a third member every 2 s. A node that hears nobody knows nothing: all others are down to
it until 1 s after the first contact.

**Sleep.** When 5 s pass between two calls, or the wall clock runs away from `now`, this node did not
run: it takes a higher incarnation, pings everybody at once, and the shell dials anew.

**Tombstones.** A DEATH or DEPARTURE stays as long as the announcement that it ends (longer than any
gossip lives), so no late copy brings a node back: only a higher incarnation or a link to it does.

**Spreading.** What is stored is offered as a 16-byte digest to all linked peers, within
100 ms; who lacks it asks one of them, so a body crosses a link once. An announcement in which only
figures changed rides on pings instead, and is asked for from whichever neighbour had least to do. Own
small urgent records are pushed, and in a small mesh own announcements. Pings carry two hashes over
all that is held, one of them blind to refreshed announcements (some are always on their way in a large
mesh); where two nodes differ for a while, the one that holds less asks for a comparison of 256 buckets.

**Bounds.** A peer makes this node send at most 128 KiB a second after 2 MiB at once; what is beyond
waits (records) or is not answered (pings, probes, comparisons). RECORDS are stored; near the end,
announcements of unknown nodes are refused first. A record whose proof has not come waits in a list
with an end; after 32 forged records in a row of a peer, `receive` raises WireError.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from meshllm_core.ids import NodeId
from meshllm_core.membership.desk import Desk
from meshllm_core.membership.gossip_config import GossipConfig
from meshllm_core.membership.gossip_events import (
    ClockJumped,
    DeathFound,
    DuplicateIdentity,
    GossipEvent,
    PeerAlive,
    PeerDown,
    PeerLeft,
    PeerState,
    PeerSuspect,
    RecordRefused,
    RecordStored,
    Refuted,
)
from meshllm_core.membership.gossip_spread import Spread, Urgency, answer_bytes
from meshllm_core.membership.intake import Check, Intake, incarnation_of, tombstone_of
from meshllm_core.membership.liveness import Liveness
from meshllm_core.membership.own import Own
from meshllm_core.membership.records import Record, RecordKind, record_key
from meshllm_core.membership.store import RecordStore, digest_key
from meshllm_core.wire import gossip as wire
from meshllm_core.wire.announcement import Announcement
from meshllm_core.wire.gossip import GossipMessage

__all__ = [
    "ClockJumped",
    "DeathFound",
    "DuplicateIdentity",
    "Gossip",
    "GossipConfig",
    "GossipEvent",
    "PeerAlive",
    "PeerDown",
    "PeerLeft",
    "PeerState",
    "PeerSuspect",
    "RecordRefused",
    "RecordStored",
    "Refuted",
]

PUSHED = {RecordKind.MEMBERSHIP, RecordKind.REVOCATION, RecordKind.DEPARTURE, RecordKind.DEATH}
PUSHED_BYTES = 4096


class Gossip:
    """One member's part in the gossip of its mesh."""

    def __init__(
        self,
        me: NodeId,
        *,
        instance: bytes,
        incarnation: int,
        random: Callable[[], float],
        check: Check,
        config: GossipConfig | None = None,
    ) -> None:
        """`random` gives 0 up to 1. `instance` was drawn at the start of the process.

        `check(kind, raw, wall)` returns the record if it holds, or raises ProofInvalid; with reason
        `unknown_member` it is asked again when a membership was stored and the events were drained.
        """
        self._config = config or GossipConfig()
        self._desk = Desk(me, self._config, random)
        self._store = RecordStore(self._config.records)
        self._spread = Spread(self._desk, self._store, self._take, self._is_large)
        self._liveness = Liveness(
            self._desk, lambda node: tombstone_of(self._store, node), self._spread.greeting
        )
        self._own = Own(self._desk, instance, incarnation)
        self._intake = Intake(self._desk, self._store, self._spread, check, self._known, self._stored)
        self._leaving = False
        self._heard_at: float | None = None
        self._wall: tuple[float, float] | None = None

    # Reading --------------------------------------------------------------------------------------

    @property
    def peers(self) -> Mapping[NodeId, PeerState]:
        """The other members of whom anything was heard."""
        return MappingProxyType(self._liveness.peers)

    @property
    def incarnation(self) -> int:
        """Of this node, now."""
        return self._own.incarnation

    @property
    def summary(self) -> bytes:
        """16 bytes that are equal at two members which hold the same records."""
        return self._store.summary()

    def records(self, kind: RecordKind) -> Iterable[Record]:
        """All stored records of a kind, this node's own among them."""
        return tuple(self._store.records(kind))

    def wanted_links(self) -> list[NodeId]:
        """With whom this node should have a link, best first, those among them that it has.

        A member that is down is in it for 4 s at a time, with pauses from 1 to 15 s. Links to others
        may be closed when they are idle.
        """
        return [] if self._leaving else self._liveness.wanted()

    def deadline(self) -> float:
        """When `tick` is due next; not after now means at once."""
        if self._leaving:
            return float("inf")
        return min(
            self._liveness.deadline(), self._spread.deadline(), self._intake.deadline(), self._own.deadline()
        )

    def outgoing(self) -> list[tuple[NodeId, GossipMessage]]:
        """What to send, in order. Each call gives what came up since the last one."""
        if not self._leaving:
            self._spread.compose()
        return self._desk.drain_out()

    def events(self) -> list[GossipEvent]:
        """What happened since the last call. Apply all of them before the next `receive` or `tick`."""
        self._intake.drained()
        return self._desk.drain_events()

    # What the shell tells -------------------------------------------------------------------------

    def publish(self, record: Record, now: float) -> None:
        """Stores and spreads a record that was made here or learned in a handshake. Tells no RecordStored.

        One that is not newer than what is stored is ignored, and so is the death of a member that came
        back meanwhile. RecordRefused is told where there is no room.
        """
        self._advance(now)
        key = digest_key(record)
        if self._store.version(key) >= record.version:
            return
        if record.kind is RecordKind.DEATH and record.version != self._known(NodeId(record.subject)):
            return
        if reason := self._store.refuses(record):
            self._desk.tell(RecordRefused(record.kind, reason, self._desk.me))
            return
        if record.kind is RecordKind.ANNOUNCEMENT and record.subject == self._desk.me:
            self._own.announced(incarnation_of(record))
        self._stored(self._desk.me, record)

    def leave(self, record: Record, now: float) -> None:
        """Spreads this node's own DEPARTURE. After it only `outgoing` has anything to give."""
        self._advance(now)
        self._spread.push(record, self._spread.lanes)
        self._leaving = True

    def linked(self, peer: NodeId, now: float) -> None:
        """There is a link to a member, the first one or in place of another."""
        self._advance(now)
        self._spread.linked(peer)
        self._liveness.linked(peer)
        death = self._store.get(digest_key_of(RecordKind.DEATH, peer))
        if death is not None and death.version >= self._known(peer):
            self._spread.push(death, (peer,))

    def unlinked(self, peer: NodeId, now: float, *, said_goodbye: bool) -> None:
        """There is no link to that member any more.

        `said_goodbye`: the peer itself said that its process ends or leaves; it counts as left at once.
        """
        self._advance(now)
        self._desk.drop(peer)
        self._spread.unlinked(peer)
        self._liveness.unlinked(peer, said_goodbye)

    def heard(self, peer: NodeId, now: float) -> None:
        """Something came from a linked peer on another channel: it is alive."""
        self._advance(now)
        self._liveness.heard(peer)

    def forget(self, node: NodeId, now: float) -> None:
        """Drops a member from `peers` until there is news of it; its records stay."""
        self._advance(now)
        self._liveness.forget(node)

    def expel(self, node: NodeId, now: float) -> None:
        """It is no member any more: drops it and what it said. `check` has to refuse its records."""
        self._advance(now)
        self._liveness.forget(node)
        for kind in (RecordKind.ANNOUNCEMENT, RecordKind.DEPARTURE, RecordKind.DEATH):
            self._store.remove(digest_key_of(kind, node))

    def receive(self, peer: NodeId, message: GossipMessage, now: float, wall: float) -> None:
        """A message of a linked peer. Raises WireError for nonsense: close the link.

        From a peer that has no link (any more) it is ignored.
        """
        self._advance(now, wall)
        lane = self._spread.lanes.get(peer)
        if lane is None or self._leaving:
            return
        self._liveness.heard(peer)
        self._intake.retry()
        cost = answer_bytes(message)
        if cost and not lane.allowance.take(cost, now):
            return
        match message:
            case wire.Ping() | wire.Pong():
                self._spread.offered(peer, message.offers, urgent=False)
                self._spread.compared(peer, message.summary, message.records)
                if isinstance(message, wire.Ping):
                    self._liveness.ping(peer, message)
                else:
                    self._liveness.pong(peer, message)
            case wire.Offer():
                self._spread.offered(peer, message.digests)
            case wire.Want():
                self._spread.wanted(peer, message.keys)
            case wire.Records():
                self._spread.received(peer, message.items)
            case wire.Buckets():
                self._spread.compare(peer, message)
            case wire.Digests():
                self._spread.differing(peer, message)
            case wire.Probe():
                self._liveness.probe(peer, message)
            case wire.Vouch():
                self._liveness.vouch(peer, message)

    def tick(self, now: float, wall: float) -> None:
        """Does what is due; call it at `deadline`, and at least every second."""
        self._advance(now, wall)
        if self._leaving:
            return
        self._intake.retry()
        self._liveness.tick()
        self._spread.tick()
        self._own.tick()

    # Inside ---------------------------------------------------------------------------------------

    def _advance(self, now: float, wall: float | None = None) -> None:
        """Sets the time, and sees by it when this node was frozen, asleep or starved."""
        desk = self._desk
        slept = now - self._heard_at if self._heard_at is not None else 0.0
        self._heard_at = desk.now = now
        if wall is not None:
            # On some systems `now` stands still while the machine sleeps; then only the wall clock jumps.
            if self._wall is not None:
                slept = max(slept, wall - self._wall[0] - (now - self._wall[1]))
            self._wall = (wall, now)
            desk.wall = wall
        if slept > self._config.clock_jump:
            desk.tell(ClockJumped(slept))
            self._liveness.woke()
            self._own.woke()

    def _is_large(self) -> bool:
        return len(self._liveness.present) > self._config.full_mesh

    def _known(self, node: NodeId) -> int:
        """The incarnation of a node's announcement; -1 where there is none."""
        if node == self._desk.me:
            return self._own.incarnation
        record = self._store.get(digest_key_of(RecordKind.ANNOUNCEMENT, node))
        return -1 if record is None else incarnation_of(record)

    def _take(self, peer: NodeId, item: wire.Item, key: bytes, version: int) -> None:
        self._intake.take(peer, item, key, version)

    def _stored(self, peer: NodeId, record: Record) -> None:
        """A record passed every test: keep it, act on it, pass it on. `peer`: where it came from."""
        subject = NodeId(record.subject)
        if subject == self._desk.me and peer != self._desk.me and self._own.concerns(record):
            self._spread.refuse(digest_key(record), record.version)
            return
        urgency = self._urgency(peer, record)
        if record.kind is RecordKind.ANNOUNCEMENT:
            self._end_tombstones(record)
        self._store.put(record)
        if peer != self._desk.me:
            self._desk.tell(RecordStored(record))
        if subject != self._desk.me:
            match record.kind:
                case RecordKind.ANNOUNCEMENT:
                    assert isinstance(record.body, Announcement)
                    self._liveness.announced(subject, record.body, peer)
                case RecordKind.DEATH:
                    self._liveness.died(subject, record.version)
                case RecordKind.DEPARTURE:
                    self._liveness.departed(subject, record.version)
        if peer == self._desk.me and len(record.raw) <= PUSHED_BYTES and self._is_pushed(record):
            self._spread.push(record, self._spread.lanes)
        else:
            self._spread.offer(record, urgency, without=peer)

    def _is_pushed(self, record: Record) -> bool:
        own = record.kind is RecordKind.ANNOUNCEMENT and record.subject == self._desk.me
        return record.kind in PUSHED or (own and not self._is_large())

    def _urgency(self, peer: NodeId, record: Record) -> Urgency:
        """An announcement with new figures only waits for a ping, and so does one that all heard directly."""
        if record.kind in (RecordKind.DEATH, RecordKind.DEPARTURE):
            return "urgent"
        held = self._store.get(digest_key(record))
        if record.kind is not RecordKind.ANNOUNCEMENT or held is None:
            return "soon"
        direct = peer == record.subject and not self._is_large()
        risen = incarnation_of(record) > incarnation_of(held)
        return "later" if not risen and (direct or _matters(held) == _matters(record)) else "soon"

    def _end_tombstones(self, record: Record) -> None:
        """An announcement of a higher incarnation contradicts a DEATH and ends a DEPARTURE."""
        node, held = NodeId(record.subject), self._store.get(digest_key(record))
        for kind in (RecordKind.DEATH, RecordKind.DEPARTURE):
            key = digest_key_of(kind, node)
            tombstone = self._store.get(key)
            if tombstone is None or tombstone.version >= incarnation_of(record):
                continue
            self._store.remove(key)
            mine = kind is RecordKind.DEATH and tombstone.signer == self._desk.me
            if mine and held is not None and _instance(held) == _instance(record):
                self._liveness.contradicted(node)


def _matters(record: Record) -> object:
    """What others act on, and want to know soon."""
    body = record.body
    assert isinstance(body, Announcement)
    models = tuple((model.name, model.load, model.status) for model in body.models)
    return body.name, body.role, body.addresses, models, body.accepts_udp, body.accepts_tcp, body.owner


def _instance(record: Record) -> bytes:
    assert isinstance(record.body, Announcement)
    return record.body.instance


def digest_key_of(kind: RecordKind, node: NodeId) -> bytes:
    """What stands for that record of a node in a digest."""
    return record_key(kind, node)[: wire.DIGEST_KEY_BYTES]
