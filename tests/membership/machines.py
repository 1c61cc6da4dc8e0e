"""A machine, the shell that drives it in short, and a link between two."""

from dataclasses import dataclass, field

import msgspec

from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import MeshId, NodeId
from meshllm_core.membership import gossip as go
from meshllm_core.membership.gossip_records import announcement_record
from meshllm_core.membership.records import Record, RecordKind, record_key
from meshllm_core.wire.announcement import Address, Announcement, ModelOffer, RoundTrip

EPOCH = 1_800_000_000.0


class Badge(msgspec.Struct, frozen=True, array_like=True):
    """Stands for a certificate chain, and is as long as one of two certificates."""

    node: bytes
    padding: bytes = b"\0" * 260


@dataclass
class Traffic:
    """Of one node."""

    frames_out: int = 0
    bytes_out: int = 0
    bytes_in: int = 0


@dataclass
class Member:
    """A machine and the shell that drives it, in short."""

    mesh: MeshId
    key: SigningKey
    gossip: go.Gossip
    instance: bytes
    sequence: int = 0
    running: bool = True
    frozen: bool = False
    members: set[NodeId] = field(default_factory=set)
    links: dict[NodeId, "Link"] = field(default_factory=dict)
    dialling: set[NodeId] = field(default_factory=set)
    backoff: dict[NodeId, tuple[float, float]] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    events: list[go.GossipEvent] = field(default_factory=list)
    alarm: float = float("inf")
    held: list[tuple[NodeId, bytes]] = field(default_factory=list)
    """What came while it was frozen."""
    lost: list[NodeId] = field(default_factory=list)
    """Peers whose links ended while it was frozen."""

    @property
    def node(self) -> NodeId:
        return self.key.public

    def announcement(self, now: float) -> Announcement:
        """A machine with two models, as long as a usual one."""
        self.sequence += 1
        offer = ModelOffer(
            "qwen3-8b-instruct-q4_k_m", b"\1" * 8, "ready", "qwen3", 8_190_735_360, 32_768, 4, True, False,
            41.0, 900.0, 1, 0,
        )  # fmt: skip
        trips = sorted(self.gossip.peers.items(), key=lambda item: -item[1].round_trip)[:20]
        return Announcement(
            mesh=self.mesh,
            incarnation=self.gossip.incarnation,
            sequence=self.sequence,
            instance=self.instance,
            at=EPOCH + now,
            name="anna-desktop",
            version="0.1.0",
            protocol=1,
            role="host",
            addresses=(Address("192.168.178.21", 9447),),
            memory_total=32 << 30,
            memory_free=20 << 30,
            devices=(),
            models=(offer, msgspec.structs.replace(offer, name="gemma-3-4b-it-q4_k_m")),
            round_trips=tuple(RoundTrip(n[:8], int(s.round_trip * 1e6)) for n, s in trips if s.round_trip),
        )

    def announce(self, now: float) -> None:
        """Publishes a new announcement."""
        self.gossip.publish(announcement_record(self.key, self.announcement(now)), now)


@dataclass(eq=False)
class Link:
    """Ordered and reliable both ways, as QUIC makes it; what is lost comes later."""

    ends: tuple[Member, Member]
    up: bool = True
    last: dict[NodeId, float] = field(default_factory=dict)
    held: list[tuple[Member, Member, bytes]] = field(default_factory=list)
    """What waits for the end of a partition."""


def badge_record(signer: NodeId, badge: Badge, raw: bytes) -> Record:
    key = record_key(RecordKind.MEMBERSHIP, badge.node)
    return Record(RecordKind.MEMBERSHIP, key, 1, badge.node, signer, raw, badge)
