"""Judging the records that come: proof, order, room."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from meshllm_core.errors import ProofInvalid, WireError
from meshllm_core.ids import NodeId
from meshllm_core.membership.desk import Desk
from meshllm_core.membership.gossip_events import RecordRefused
from meshllm_core.membership.gossip_records import UNKNOWN_MEMBER
from meshllm_core.membership.gossip_spread import Spread
from meshllm_core.membership.records import Record, RecordKind, record_key
from meshllm_core.membership.store import SEQUENCES, RecordStore, digest_key
from meshllm_core.wire import gossip as wire

Check = Callable[[RecordKind, bytes, float], Record]

FORGED = {"signature", "format", "size", "chain"}
"""Reasons that no honest member gives rise to: it checks what it passes on."""
MISLABELLED = "mislabelled"
AHEAD = "ahead"
"""A death or departure of an incarnation that has not been announced here."""
PARKED_SECONDS = 5.0

TOMBSTONES = (RecordKind.DEATH, RecordKind.DEPARTURE)


def incarnation_of(record: Record) -> int:
    """That an announcement, a death or a departure is about."""
    return record.version if record.kind in TOMBSTONES else record.version // SEQUENCES


def tombstone_of(store: RecordStore, node: NodeId) -> int:
    """The highest incarnation that a stored DEATH or DEPARTURE ends; -1 where there is none."""
    return max(store.version(record_key(kind, node)[: wire.DIGEST_KEY_BYTES]) for kind in TOMBSTONES)


@dataclass(frozen=True, slots=True)
class _Parked:
    peer: NodeId
    item: wire.Item
    key: bytes
    version: int
    until: float
    reason: str


class Intake:
    """Between a record that came and the store."""

    def __init__(
        self,
        desk: Desk,
        store: RecordStore,
        spread: Spread,
        check: Check,
        known: Callable[[NodeId], int],
        stored: Callable[[NodeId, Record], None],
    ) -> None:
        """`known`: a node's announced incarnation. `stored(peer, record)` takes what passed every test."""
        self._desk = desk
        self._store = store
        self._spread = spread
        self._check = check
        self._known = known
        self._stored = stored
        self._parked: dict[bytes, _Parked] = {}
        self._proof_came = False
        self._ready = False

    def take(self, peer: NodeId, item: wire.Item, key: bytes, version: int) -> None:
        """Judges a record. Raises WireError when it is not what its digest said, or forged once too often."""
        entry = _Parked(peer, item, key, version, self._desk.now + PARKED_SECONDS, "")
        reason = self._judge(entry)
        if reason == MISLABELLED:
            raise WireError("A record is not the one that its digest says.")
        if reason in FORGED:
            self._spread.strike(peer, reason)

    def drained(self) -> None:
        """The events were drained: whoever checks knows what was stored."""
        self._ready, self._proof_came = self._ready or self._proof_came, False

    def retry(self) -> None:
        """Judges what waited for a proof that has come, and gives up what waited for too long."""
        now = self._desk.now
        if self._ready:
            self._ready = False
            for entry in list(self._parked.values()):
                del self._parked[entry.key]
                if entry.version > self._store.version(entry.key):
                    self._judge(entry)
        for entry in [entry for entry in self._parked.values() if entry.until <= now]:
            del self._parked[entry.key]
            self._refuse(entry, entry.reason)

    def deadline(self) -> float:
        """When `retry` has something to do."""
        if self._ready and self._parked:
            return self._desk.now
        return next(iter(self._parked.values())).until if self._parked else float("inf")

    def _judge(self, entry: _Parked) -> str:
        """Why it was refused; empty: it was not."""
        if self._desk.undrained >= self._desk.config.undrained:
            return ""
        kind = RecordKind(entry.item.kind)
        try:
            record = self._check(kind, entry.item.raw, self._desk.wall)
        except ProofInvalid as error:
            if error.reason == UNKNOWN_MEMBER:
                return self._park(entry, error.reason)
            return self._refuse(entry, error.reason)
        if record.kind is not kind or (digest_key(record), record.version) != (entry.key, entry.version):
            return self._refuse(entry, MISLABELLED)
        if kind in TOMBSTONES:
            known = self._known(NodeId(record.subject))
            if record.version < known:
                self._spread.refuse(entry.key, entry.version)
                return ""
            if record.version > known:
                return self._park(entry, AHEAD)
        if reason := self._store.refuses(record):
            return self._refuse(entry, reason)
        self._proof_came |= kind in (RecordKind.MEMBERSHIP, RecordKind.ANNOUNCEMENT)
        self._stored(entry.peer, record)
        return ""

    def _park(self, entry: _Parked, reason: str) -> str:
        if len(self._parked) >= self._desk.config.parked:
            return self._refuse(entry, reason)
        self._parked[entry.key] = replace(entry, reason=reason)
        return ""

    def _refuse(self, entry: _Parked, reason: str) -> str:
        self._spread.refuse(entry.key, entry.version)
        self._desk.tell(RecordRefused(RecordKind(entry.item.kind), reason, entry.peer))
        return reason
