"""What is on its way between this node and one linked peer."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from meshllm_core.membership.allowance import Allowance
from meshllm_core.membership.gossip_config import GossipConfig
from meshllm_core.membership.store import RecordStore
from meshllm_core.wire import gossip as wire

ITEM_OVERHEAD = 24
PIGGYBACK = 256
"""Digests that a ping or pong takes along."""


@dataclass(slots=True)
class Lane:
    """All sets are bounded by the number of records that are held."""

    allowance: Allowance
    """Bytes that the peer may make this node send."""
    unsolicited: Allowance
    strikes: Allowance
    since: float
    offers: dict[bytes, None] = field(default_factory=dict)
    """Keys of news that the peer may not have."""
    wants: dict[bytes, None] = field(default_factory=dict)
    """Keys that are to be asked for."""
    asked: dict[bytes, None] = field(default_factory=dict)
    """Keys that the peer asked for and has not been sent."""
    compared: bool = False
    """Whether both held the same at least once since the link exists, or were brought to it."""
    differs_since: float | None = None
    reconcile_after: float = 0.0
    pause: float = 0.0

    @staticmethod
    def new(config: GossipConfig, now: float) -> "Lane":
        """For a link that came up."""
        return Lane(
            Allowance(config.rate, config.burst, now),
            Allowance(config.unsolicited / 8, config.unsolicited, now),
            Allowance(1.0, config.strikes, now),
            now,
            pause=config.reconcile_first,
        )

    def take_offers(self, store: RecordStore, limit: int) -> bytes:
        """Digests of up to `limit` pending offers, as one run."""
        found: list[bytes] = []
        while self.offers and len(found) < limit:
            key = next(iter(self.offers))
            del self.offers[key]
            if (record := store.get(key)) is not None:
                found.append(wire.pack_digest(key, record.version))
        return b"".join(found)

    def serve(self, store: RecordStore, now: float) -> Iterator[wire.Records]:
        """Records that the peer asked for, memberships first, as far as its allowance goes."""
        found = (
            sorted((record.kind, key, record) for key in self.asked if (record := store.get(key)) is not None)
            if len(self.asked) > 1
            else [(record.kind, key, record) for key in self.asked if (record := store.get(key)) is not None]
        )
        items: list[wire.Item] = []
        size = 0
        for kind, key, record in found:
            if size + len(record.raw) > wire.RECORDS_BYTES or len(items) == wire.RECORDS_PER_MESSAGE:
                yield wire.Records(tuple(items))
                items, size = [], 0
            if not self.allowance.take(len(record.raw) + ITEM_OVERHEAD, now):
                break
            del self.asked[key]
            items.append(wire.Item(int(kind), wire.pack_digest(key, record.version), record.raw))
            size += len(record.raw) + ITEM_OVERHEAD
        else:
            self.asked.clear()
        if items:
            yield wire.Records(tuple(items))
