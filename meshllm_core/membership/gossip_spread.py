"""How records travel: news by digest, bodies on request, and a comparison where two nodes still differ."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from meshllm_core.errors import WireError
from meshllm_core.ids import NodeId
from meshllm_core.membership.desk import Desk
from meshllm_core.membership.lane import PIGGYBACK, Lane
from meshllm_core.membership.records import Record
from meshllm_core.membership.store import RecordStore, digest_key
from meshllm_core.wire import gossip as wire
from meshllm_core.wire.gossip import Buckets, Digests, GossipMessage, Item, Offer, Records, Want

Urgency = Literal["urgent", "soon", "later"]
"""After `batch_urgent` seconds; after `batch`; with the next ping."""

REFUSED_KEPT = 1024
RECONCILE_SECONDS = 2.0
"""So long a comparison may take before another one may begin."""
BUSY = 64
"""With so many records asked for and not here yet, nothing new is compared."""
EXPIRE_SECONDS = 0.5


@dataclass(slots=True)
class _Request:
    version: int
    peer: NodeId
    until: float
    other: NodeId | None = None
    """Who offered it, too."""


@dataclass(slots=True)
class _Choice:
    version: int
    until: float
    peers: list[NodeId]


class Spread:
    """Keeps the stores of linked nodes equal."""

    def __init__(
        self,
        desk: Desk,
        store: RecordStore,
        take: Callable[[NodeId, Item, bytes, int], None],
        large: Callable[[], bool],
    ) -> None:
        """`take(peer, item, key, version)` judges a record that came. `large`: news is always on its way."""
        self.lanes: dict[NodeId, Lane] = {}
        self._desk = desk
        self._store = store
        self._take = take
        self._large = large
        self._requests: dict[bytes, _Request] = {}
        self._choices: dict[bytes, _Choice] = {}
        """Refreshed announcements that somebody of these can send; only of keys that are held."""
        self._refused: dict[bytes, tuple[int, float]] = {}
        self._busy: set[NodeId] = set()
        """Peers for whom something is to be put together at the next drain."""
        self._flush_at = float("inf")
        self._reconciling: NodeId | None = None
        self._reconcile_until = 0.0
        self._expire_at = 0.0

    # Links ----------------------------------------------------------------------------------------

    def linked(self, peer: NodeId) -> None:
        """A link came up, perhaps in place of another one: what was on its way may be lost."""
        self.unlinked(peer)
        self.lanes[peer] = Lane.new(self._desk.config, self._desk.now)

    def unlinked(self, peer: NodeId) -> None:
        """The link is gone."""
        self.lanes.pop(peer, None)
        self._busy.discard(peer)
        if self._reconciling == peer:
            self._reconciling = None
        for key, request in list(self._requests.items()):
            if request.peer == peer:
                self._ask_elsewhere(key, request)

    # News -----------------------------------------------------------------------------------------

    def offer(self, record: Record, urgency: Urgency, without: NodeId | None = None) -> None:
        """Tells all linked peers but one of a record that was stored."""
        key, now = digest_key(record), self._desk.now
        for peer, lane in self.lanes.items():
            if peer != without:
                lane.offer(key, urgency != "later")
        if urgency != "later":
            config = self._desk.config
            self._flush_at = min(
                self._flush_at, now + (config.batch_urgent if urgency == "urgent" else config.batch)
            )

    def push(self, record: Record, peers: Iterable[NodeId]) -> None:
        """Sends a small record unasked."""
        digest = wire.pack_digest(record.key, record.version)
        message = Records((Item(int(record.kind), digest, record.raw),))
        for peer in peers:
            self.lanes[peer].offers.pop(digest_key(record), None)
            self._desk.send(peer, message)

    def greeting(self, peer: NodeId) -> tuple[bytes, int, bytes]:
        """What a ping or pong carries: summary, number of records, offers."""
        offers = self.lanes[peer].take_offers(self._store, PIGGYBACK, urgent=False)
        return self._store.summary(), len(self._store), offers

    def refuse(self, key: bytes, version: int) -> None:
        """A record does not hold now: it is not asked for again for a while."""
        if len(self._refused) >= REFUSED_KEPT:
            del self._refused[next(iter(self._refused))]
        self._refused[key] = (version, self._desk.now + self._desk.config.refusal)

    # What comes -----------------------------------------------------------------------------------

    def offered(self, peer: NodeId, run: bytes, *, urgent: bool = True) -> bool:
        """Digests of a peer; asks for what is lacking. Returns whether there was any.

        What is not urgent waits for other offers of the same, to ask one of those who made them:
        else the quickest member would have to answer all the others.
        """
        lane, store = self.lanes[peer], self._store
        before = len(lane.wants) + len(lane.offers)
        for key, version in wire.digests(run):
            held = store.version(key)
            if held > version:
                lane.offer(key, True)
                self._flush_at = min(self._flush_at, self._desk.now + self._desk.config.batch)
                continue
            lane.offers.pop(key, None)
            if held < version:
                if urgent or held < 0:
                    self._choices.pop(key, None)
                    self._want(peer, lane, key, version)
                else:
                    self._collect(peer, key, version)
        return len(lane.wants) + len(lane.offers) > before

    def wanted(self, peer: NodeId, run: bytes) -> None:
        """The peer asks for records."""
        lane = self.lanes[peer]
        for key in wire.keys(run):
            lane.offers.pop(key, None)
            if self._store.get(key) is not None:
                lane.asked[key] = None
        self._busy.add(peer)

    def received(self, peer: NodeId, items: Iterable[Item]) -> None:
        """Records came. What was not asked for is limited. Raises WireError for records that lie."""
        lane = self.lanes[peer]
        for item in items:
            ((key, version),) = wire.digests(item.digest)
            if self._store.version(key) >= version:
                self._requests.pop(key, None)
            elif key in self._requests or lane.unsolicited.take(1, self._desk.now):
                self._requests.pop(key, None)
                self._take(peer, item, key, version)

    def strike(self, peer: NodeId, reason: str) -> None:
        """The peer sent something forged. Raises WireError when it does so again and again."""
        if not self.lanes[peer].strikes.take(1, self._desk.now):
            raise WireError(f"It sends records that do not hold ({reason}), one after the other.")

    def compared(self, peer: NodeId, summary: bytes, records: int) -> None:
        """The peer's summary came: where it differs for a while, whoever lacks more asks for the rest."""
        lane, desk, config = self.lanes[peer], self._desk, self._desk.config
        ours = self._store.summary()
        lane.figures_since = None if summary == ours else lane.figures_since or desk.now
        if summary[:8] == ours[:8]:
            lane.differs_since, lane.compared = None, True
        elif lane.differs_since is None:
            lane.differs_since = desk.now
        if lane.figures_since is None:
            lane.pause = config.reconcile_first
            return
        mine = len(self._store)
        asks = mine < records or (mine == records and desk.me < peer)
        wait = (
            (config.differ if asks else 2 * config.differ) if lane.compared else 0.0 if asks else config.batch
        )
        late = lane.differs_since is not None and desk.now - lane.differs_since >= wait
        wait = config.differ_large if self._large() else config.differ
        late |= desk.now - lane.figures_since >= (wait if asks else 2 * wait)
        if not late or desk.now < lane.reconcile_after:
            return
        if len(self._requests) > BUSY or (self._reconciling and desk.now < self._reconcile_until):
            return
        lane.compared, lane.figures_since = True, desk.now
        self._reconciling, self._reconcile_until = peer, desk.now + RECONCILE_SECONDS
        lane.reconcile_after = desk.now + lane.pause
        lane.pause = min(config.reconcile_last, 2 * lane.pause)
        desk.send(peer, Buckets(self._store.bucket_hashes()))

    def compare(self, peer: NodeId, message: Buckets) -> None:
        """Answers with all digests of the buckets that differ, as far as the peer's allowance goes."""
        lane, now = self.lanes[peer], self._desk.now
        buckets, parts = bytearray(), bytearray()
        for bucket, digests in self._store.bucketed(self._store.differing(message.hashes)).items():
            run = b"".join(digests[: wire.DIGESTS])
            if len(parts) + len(run) > wire.DIGESTS * wire.DIGEST_BYTES:
                if not lane.allowance.take(len(parts), now):
                    return
                self._desk.send(peer, Digests(bytes(buckets), bytes(parts), last=False))
                buckets, parts = bytearray(), bytearray()
            buckets.append(bucket)
            parts += run
        if lane.allowance.take(len(parts) + 1, now):
            self._desk.send(peer, Digests(bytes(buckets), bytes(parts), last=True))

    def differing(self, peer: NodeId, message: Digests) -> None:
        """The peer's side of a comparison: asks for what is lacking here and offers what is lacking there."""
        if self._reconciling != peer:
            return
        lane = self.lanes[peer]
        fruitful = self.offered(peer, message.digests)
        theirs = {key for key, _ in wire.digests(message.digests)}
        for key in self._store.keys_in(message.buckets):
            if key not in theirs:
                lane.offer(key, True)
                fruitful = True
        self._flush_at = self._desk.now
        if fruitful:
            lane.pause = self._desk.config.reconcile_first
        if message.last:
            self._reconciling = None

    # Time -----------------------------------------------------------------------------------------

    def compose(self) -> None:
        """Puts together what is to be sent now."""
        now = self._desk.now
        if now >= self._flush_at:
            self._flush_at = float("inf")
            for peer, lane in self.lanes.items():
                while run := lane.take_offers(self._store, wire.DIGESTS, urgent=True):
                    self._desk.send(peer, Offer(run))
        for peer in list(self._busy):
            lane = self.lanes[peer]
            for run in wire.runs(lane.wants):
                self._desk.send(peer, Want(run))
            lane.wants.clear()
            for message in lane.serve(self._store, now):
                self._desk.send(peer, message)
            if not lane.asked:
                self._busy.discard(peer)

    def tick(self) -> None:
        """Asks elsewhere for what did not come."""
        now = self._desk.now
        if now < self._expire_at:
            return
        self._expire_at = now + EXPIRE_SECONDS
        for key, request in [(k, r) for k, r in self._requests.items() if r.until <= now]:
            self._ask_elsewhere(key, request)
        for key, choice in [(k, c) for k, c in self._choices.items() if c.until <= now]:
            del self._choices[key]
            able = [peer for peer in choice.peers if peer in self.lanes]
            if able and self._store.version(key) < choice.version:
                peer = min(able, key=lambda peer: self.lanes[peer].requests)
                self._want(peer, self.lanes[peer], key, choice.version)

    def deadline(self) -> float:
        """When there is something to do or to send."""
        due = self._flush_at
        if self._requests or self._choices:
            due = min(due, max(self._expire_at, self._desk.now + EXPIRE_SECONDS))
        for peer in self._busy:
            lane = self.lanes[peer]
            due = min(due, self._desk.now if lane.wants else lane.allowance.ready(self._desk.now))
        return due

    # Inside ---------------------------------------------------------------------------------------

    def _want(self, peer: NodeId, lane: Lane, key: bytes, version: int) -> None:
        request, now = self._requests.get(key), self._desk.now
        if request is not None and request.version >= version and request.until > now:
            if request.peer != peer:
                request.other = peer
            return
        refused = self._refused.get(key)
        if refused is not None:
            if refused[0] >= version and refused[1] > now:
                return
            del self._refused[key]
        if len(self._requests) >= self._desk.config.records:
            return
        self._requests[key] = _Request(version, peer, now + self._desk.config.request)
        lane.wants[key] = None
        lane.requests += 1
        self._busy.add(peer)

    def _collect(self, peer: NodeId, key: bytes, version: int) -> None:
        choice = self._choices.get(key)
        if choice is None or choice.version < version:
            until = self._desk.now + self._desk.config.collect
            self._choices[key] = _Choice(version, until if choice is None else choice.until, [peer])
        elif choice.version == version and peer not in choice.peers:
            choice.peers.append(peer)

    def _ask_elsewhere(self, key: bytes, request: _Request) -> None:
        del self._requests[key]
        lane = self.lanes.get(request.other) if request.other is not None else None
        if lane is not None and request.other is not None:
            self._want(request.other, lane, key, request.version)


def answer_bytes(message: GossipMessage) -> int:
    """About how much a message makes this node send at once, for the peer's allowance."""
    if isinstance(message, wire.Ping | wire.Probe):
        return 100
    return 1100 if isinstance(message, Buckets) else 0
