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
    offers: dict[bytes, bool] = field(default_factory=dict)
    """Keys of news that the peer may not have, and whether it is to be told at once."""
    wants: dict[bytes, None] = field(default_factory=dict)
    """Keys that are to be asked for."""
    asked: dict[bytes, None] = field(default_factory=dict)
    """Keys that the peer asked for and has not been sent."""
    compared: bool = False
    """Whether both held the same at least once since the link exists, or were brought to it."""
    requests: int = 0
    """Records that this node asked the peer for; so all neighbours get their share of the work."""
    differs_since: float | None = None
    """In more than figures …"""
    figures_since: float | None = None
    """… or in those, too."""
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

    def offer(self, key: bytes, urgent: bool) -> None:
        """The peer may lack that record."""
        self.offers[key] = urgent or self.offers.get(key, False)

    def take_offers(self, store: RecordStore, limit: int, *, urgent: bool) -> bytes:
        """Digests of up to `limit` pending offers, of the urgent ones or of all, as one run."""
        chosen = [key for key, hurry in self.offers.items() if hurry or not urgent][:limit]
        for key in chosen:
            del self.offers[key]
        found = ((key, record) for key in chosen if (record := store.get(key)) is not None)
        return b"".join(wire.pack_digest(key, record.version) for key, record in found)

    def serve(self, store: RecordStore, now: float) -> Iterator[wire.Records]:
        """Records that the peer asked for, memberships first, as far as its allowance goes."""
        held = [(key, record) for key in self.asked if (record := store.get(key)) is not None]
        held.sort(key=lambda entry: entry[1].kind)
        items: list[wire.Item] = []
        size = 0
        for key, record in held:
            full = size + len(record.raw) > wire.RECORDS_BYTES or len(items) == wire.RECORDS_PER_MESSAGE
            if items and full:
                yield wire.Records(tuple(items))
                items, size = [], 0
            if not self.allowance.take(len(record.raw) + ITEM_OVERHEAD, now):
                break
            del self.asked[key]
            items.append(wire.Item(int(record.kind), wire.pack_digest(key, record.version), record.raw))
            size += len(record.raw) + ITEM_OVERHEAD
        else:
            self.asked.clear()
        if items:
            yield wire.Records(tuple(items))
