"""Many gossip machines under virtual time, with links between them that delay, lose and part."""

import heapq
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from random import Random

from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.signed import seal, unseal
from meshllm_core.ids import MeshId, NodeId
from meshllm_core.membership import gossip as go
from meshllm_core.membership.gossip_records import (
    UNKNOWN_MEMBER,
    check_gossip_record,
    death_record,
    departure_record,
)
from meshllm_core.membership.records import Record, RecordKind
from meshllm_core.wire import gossip as wire
from tests.membership.machines import EPOCH, Badge, Link, Member, badge_record

OVERHEAD = 60
"""Bytes of IP, UDP, QUIC and frame headers on each packet."""
PACKET = 1200
IDLE_SECONDS = 10.0
"""After so long without a way through, QUIC gives a link up."""
DIAL_SECONDS = 3.0
POLL_SECONDS = 0.5
LOSSY = (wire.Ping, wire.Pong, wire.Probe, wire.Vouch)


class World:
    """`run` lets virtual time pass."""

    def __init__(
        self,
        seed: int,
        *,
        delay: float = 0.01,
        jitter: float = 0.02,
        loss: float = 0.0,
        lossy_pings: bool = False,
        config: go.GossipConfig | None = None,
    ) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.delay, self.jitter, self.loss, self.lossy_pings = delay, jitter, loss, lossy_pings
        self.config = config
        self.root = SigningKey(self.random.randbytes(32))
        self.mesh = MeshId(self.root.public)
        self.members: dict[NodeId, Member] = {}
        self.parted: Callable[[NodeId, NodeId], bool] = lambda one, other: False
        self.dialling_fails: Callable[[NodeId, NodeId], bool] = lambda one, other: False
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._verified: dict[bytes, Record] = {}
        self._badges: dict[NodeId, Record] = {}

    # Members --------------------------------------------------------------------------------------

    def add(self, key: SigningKey | None = None) -> Member:
        """A member that knows itself and its own membership, with no link."""
        key = key or SigningKey(self.random.randbytes(32))
        instance = self.random.randbytes(8)
        gossip = go.Gossip(
            key.public,
            instance=instance,
            incarnation=1,
            random=self.random.random,
            check=lambda kind, raw, wall: self.check(member, kind, raw),
            config=self.config,
        )
        member = Member(self.mesh, key, gossip, instance)
        member.members.add(key.public)
        self.members[key.public] = member
        badge = Badge(key.public)
        self._badges[key.public] = self._verified.setdefault(
            raw := seal(self.root, "badge", badge), badge_record(self.root.public, badge, raw)
        )
        gossip.publish(self._badges[key.public], self.now)
        member.announce(self.now)
        return member

    def found(self, size: int, *, refresh: bool = True) -> None:
        """A mesh of `size` members that have known each other for long."""
        for _ in range(size):
            self.add()
        everything = [
            record
            for member in self.members.values()
            for kind in (RecordKind.MEMBERSHIP, RecordKind.ANNOUNCEMENT)
            for record in member.gossip.records(kind)
        ]
        for record in everything:
            self._verified[record.raw] = record
        for member in self.members.values():
            member.members.update(self.members)
            for record in everything:
                member.gossip.publish(record, self.now)
            member.gossip.events()
        for member in self.members.values():
            for node in member.gossip.wanted_links():
                if node not in member.links:
                    self.link(member, self.members[node])
        for member in self.members.values():
            self.start(member, refresh=refresh)

    def start(self, member: Member, *, refresh: bool = True) -> None:
        """Begins to drive a member."""
        self.at(self.now + POLL_SECONDS * self.random.random(), lambda: self._poll(member))
        self.drive(member)
        if refresh:
            period = max(5.0, 0.6 * len(self.members))
            self.at(self.now + period * self.random.random(), lambda: self._refresh(member))

    def kill(self, member: Member) -> None:
        """As by kill -9: nobody is told."""
        member.running = False
        for link in list(member.links.values()):
            self.at(self.now + IDLE_SECONDS, partial(self.cut, link))

    def leave(self, member: Member) -> None:
        """Says goodbye and ends."""
        member.gossip.leave(departure_record(member.key, self.mesh, member.gossip.incarnation), self.now)
        self.drive(member)
        member.running = False
        for link in list(member.links.values()):
            self.at(self.now + 1.0, partial(self.cut, link))

    def freeze(self, member: Member, seconds: float) -> None:
        """As by SIGSTOP and SIGCONT; links that were silent for too long are dead after it."""
        member.frozen = True
        links = list(member.links.values())

        def thaw() -> None:
            member.frozen = False
            for lost in member.lost:
                member.gossip.unlinked(lost, self.now, said_goodbye=False)
            member.lost.clear()
            for link in links if seconds > IDLE_SECONDS else ():
                self.cut(link)
            held, member.held = member.held, []
            for peer, raw in held:
                self.deliver(peer, member, raw)
            self.drive(member)
            self._poll(member)

        self.at(self.now + seconds, thaw)

    # Links ----------------------------------------------------------------------------------------

    def link(self, one: Member, other: Member) -> None:
        """A link comes up at both ends."""
        if one.node in other.links or not (one.running and other.running):
            return
        link = Link((one, other))
        one.links[other.node] = other.links[one.node] = link
        for member, peer in ((one, other), (other, one)):
            member.members.add(peer.node)
            member.gossip.publish(self._badges[peer.node], self.now)
            member.gossip.linked(peer.node, self.now)
            self.drive(member)

    def cut(self, link: Link) -> None:
        """A link ends; both ends see it, unless they run no more."""
        if not link.up:
            return
        link.up = False
        for member, peer in (link.ends, link.ends[::-1]):
            if member.links.get(peer.node) is link:
                del member.links[peer.node]
                if member.running and not member.frozen:
                    member.gossip.unlinked(peer.node, self.now, said_goodbye=False)
                    self.drive(member)
                elif member.frozen:
                    member.lost.append(peer.node)

    def part(self, side: Iterable[NodeId]) -> None:
        """From now on nothing passes between `side` and the others."""
        chosen = set(side)
        self.parted = lambda one, other: (one in chosen) != (other in chosen)
        parted = self.parted

        def idle() -> None:
            for member in self.members.values():
                for peer, link in list(member.links.items()):
                    if self.parted is parted and parted(member.node, peer):
                        self.cut(link)

        self.at(self.now + IDLE_SECONDS, idle)

    def heal(self) -> None:
        """The partition ends; what was sent over links that still exist arrives."""
        self.parted = lambda one, other: False
        for link in {id(link): link for m in self.members.values() for link in m.links.values()}.values():
            held, link.held = link.held, []
            for sender, receiver, raw in held:
                self._carry(link, sender, receiver, raw)

    # Time -----------------------------------------------------------------------------------------

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Does something later."""
        heapq.heappush(self._heap, (when, next(self._order), action))

    def run(self, seconds: float, until: Callable[[], bool] | None = None, every: float = 0.1) -> float:
        """Lets time pass, at most so much; returns how much passed until `until` held."""
        begun, check = self.now, self.now
        while self._heap and self._heap[0][0] <= begun + seconds:
            if until is not None and self._heap[0][0] >= check:
                check = self._heap[0][0] + every
                if until():
                    return self.now - begun
            self.now, _, action = heapq.heappop(self._heap)
            action()
        self.now = begun + seconds
        return seconds

    def drive(self, member: Member) -> None:
        """Drains a machine until it is quiet, and sets its alarm."""
        if not member.running or member.frozen:
            return
        gossip = member.gossip
        while events := gossip.events():
            for event in events:
                self._happened(member, event)
        due = gossip.deadline()
        if due <= self.now:
            gossip.tick(self.now, EPOCH + self.now)
            while events := gossip.events():
                for event in events:
                    self._happened(member, event)
            due = -1.0
        for peer, message in gossip.outgoing():
            link = member.links.get(peer)
            if link is not None:
                self.send(member, self.members[peer], link, message)
        due = max(gossip.deadline() if due < 0 else due, self.now + 0.001)
        if due < member.alarm:
            member.alarm = due
            self.at(due, lambda: self._alarm(member, due))

    # Inside ---------------------------------------------------------------------------------------

    def _alarm(self, member: Member, due: float) -> None:
        if member.alarm != due or not member.running:
            return
        member.alarm = float("inf")
        if not member.frozen:
            member.gossip.tick(self.now, EPOCH + self.now)
            self.drive(member)

    def _happened(self, member: Member, event: go.GossipEvent) -> None:
        now = self.now
        match event:
            case go.RecordStored(record=record):
                if record.kind is RecordKind.MEMBERSHIP:
                    member.members.add(NodeId(record.subject))
                return
            case go.Refuted():
                member.sequence = 0
                member.announce(self.now)
            case go.DeathFound(node=node, incarnation=incarnation):
                record = death_record(member.key, self.mesh, node, incarnation, EPOCH + now)
                self._verified[record.raw] = record
                member.gossip.publish(record, now)
            case go.PeerDown(node=node) | go.PeerLeft(node=node):
                if (link := member.links.get(node)) is not None:
                    self.cut(link)
        member.events.append(event)

    def send(self, sender: Member, receiver: Member, link: Link, message: wire.GossipMessage) -> None:
        raw = wire.encode(message)
        size = len(raw) + OVERHEAD * (1 + len(raw) // PACKET)
        sender.traffic.bytes_out += size
        sender.traffic.frames_out += 1
        if self.lossy_pings and isinstance(message, LOSSY) and self.random.random() < self.loss:
            return
        receiver.traffic.bytes_in += size
        self._carry(link, sender, receiver, raw)

    def _carry(self, link: Link, sender: Member, receiver: Member, raw: bytes) -> None:
        if self.parted(sender.node, receiver.node):
            link.held.append((sender, receiver, raw))
            return
        late, again = self.delay + self.jitter * self.random.random(), 0.2
        while self.loss and self.random.random() < self.loss:
            late, again = late + again, again * 2
        arrival = max(self.now + late, link.last.get(sender.node, 0.0))
        link.last[sender.node] = arrival

        def arrive() -> None:
            if link.up:
                self.deliver(sender.node, receiver, raw)

        self.at(arrival, arrive)

    def deliver(self, peer: NodeId, member: Member, raw: bytes) -> None:
        if member.frozen:
            member.held.append((peer, raw))
        elif member.running:
            member.gossip.receive(peer, wire.decode(raw), self.now, EPOCH + self.now)
            self.drive(member)

    def _poll(self, member: Member) -> None:
        if not member.running or member.frozen:
            return
        self.at(self.now + POLL_SECONDS, lambda: self._poll(member))
        reach = 3 * (self.delay + self.jitter)
        for node in member.gossip.wanted_links():
            if node in member.links or node in member.dialling or len(member.dialling) >= 8:
                continue
            if member.backoff.get(node, (0.0, 0.0))[1] <= self.now:
                member.dialling.add(node)
                self.at(self.now + reach, partial(self._dialled, member, node, DIAL_SECONDS - reach))

    def _dialled(self, member: Member, node: NodeId, patience: float) -> None:
        other = self.members.get(node)
        if (
            other is not None
            and member.running
            and other.running
            and not other.frozen
            and not self._fails(member.node, node)
        ):
            member.dialling.discard(node)
            member.backoff.pop(node, None)
            self.link(member, other)
            return

        def failed() -> None:
            member.dialling.discard(node)
            wait = min(8.0, 2 * member.backoff.get(node, (0.25, 0.0))[0])
            member.backoff[node] = (wait, self.now + wait * (0.75 + 0.5 * self.random.random()))

        self.at(self.now + patience, failed)

    def _fails(self, one: NodeId, other: NodeId) -> bool:
        return self.parted(one, other) or self.dialling_fails(one, other)

    def _refresh(self, member: Member) -> None:
        period = max(5.0, 0.6 * len(self.members))
        if member.running:
            self.at(self.now + period, lambda: self._refresh(member))
            if not member.frozen:
                member.announce(self.now)
                self.drive(member)

    def check(self, member: Member, kind: RecordKind, raw: bytes) -> Record:
        """Each signature is verified once in the whole process; whether its maker is a member, by each."""
        record = self._verified.get(raw)
        if record is None:
            if kind is RecordKind.MEMBERSHIP:
                signer, badge = unseal(raw, "badge", Badge, limit=1024)
                if signer != self.root.public:
                    raise ProofInvalid("A badge of somebody else.", reason="signature")
                record = badge_record(signer, badge, raw)
            else:
                record = check_gossip_record(kind, raw, lambda _: True, mesh=self.mesh)
            self._verified[raw] = record
        if kind is not RecordKind.MEMBERSHIP and not {record.signer, record.subject} <= member.members:
            raise ProofInvalid("Not known as a member.", reason=UNKNOWN_MEMBER)
        return record
