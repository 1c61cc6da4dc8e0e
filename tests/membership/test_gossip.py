"""Records: they reach everybody once, what does not hold reaches nobody, and nothing grows without end."""

from collections.abc import Callable

import pytest

from meshllm_core.errors import WireError
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.signed import seal
from meshllm_core.ids import NodeId
from meshllm_core.membership import gossip as go
from meshllm_core.membership.gossip_records import announcement_record, departure_record
from meshllm_core.membership.records import Record, RecordKind
from meshllm_core.wire import gossip as wire
from tests.membership.machines import EPOCH, Badge, Member, badge_record
from tests.membership.world import World

STRANGER = SigningKey(b"\7" * 32)


def _world(size: int = 3, config: go.GossipConfig | None = None) -> tuple[World, list[Member]]:
    world = World(3, config=config)
    world.found(size)
    world.run(8)
    for member in world.members.values():
        member.events.clear()
    return world, list(world.members.values())


def _give(world: World, member: Member, peer: Member, *records: Record) -> None:
    items = tuple(wire.Item(int(r.kind), wire.pack_digest(r.key, r.version), r.raw) for r in records)
    member.gossip.receive(peer.node, wire.Records(items), world.now, EPOCH + world.now)
    world.drive(member)


def _badge(world: World, key: SigningKey) -> Record:
    badge = Badge(key.public)
    return badge_record(NodeId(world.root.public), badge, seal(world.root, "badge", badge))


def _announcement(world: World, key: SigningKey, incarnation: int = 1) -> Record:
    gossip = go.Gossip(
        key.public,
        instance=b"instance",
        incarnation=incarnation,
        random=lambda: 0.5,
        check=lambda *_: _never(),
    )
    member = Member(world.mesh, key, gossip, b"instance")
    return announcement_record(key, member.announcement(world.now))


def _never() -> Record:
    raise AssertionError("nothing comes in")


def _refusals(member: Member) -> list[tuple[RecordKind, str]]:
    return [(e.kind, e.reason) for e in member.events if isinstance(e, go.RecordRefused)]


def _equal(world: World) -> bool:
    return len({member.gossip.summary for member in world.members.values() if member.running}) == 1


def test_news_reaches_everybody_and_each_body_arrives_once() -> None:
    world, members = _world(60)
    received: dict[NodeId, int] = dict.fromkeys(world.members, 0)
    original = world.deliver

    def counting(peer: NodeId, member: Member, raw: bytes) -> None:
        message = wire.decode(raw)
        if isinstance(message, wire.Records):
            received[member.node] += sum(len(i.raw) == len(badge.raw) for i in message.items)
        original(peer, member, raw)

    world.deliver = counting  # type: ignore[method-assign]
    badge = _badge(world, STRANGER)
    _give(world, members[0], next(iter(members[0].links.values())).ends[1], badge)
    world.run(3)
    assert all(
        any(record.subject == STRANGER.public for record in member.gossip.records(RecordKind.MEMBERSHIP))
        for member in members
    )
    assert set(received.values()) <= {0, 1}
    assert sum(received.values()) == len(members) - 1


def test_a_new_announcement_replaces_an_older_one_and_never_the_other_way() -> None:
    world, members = _world()
    old, teller, hearer = members
    (before,) = (r for r in old.gossip.records(RecordKind.ANNOUNCEMENT) if r.subject == old.node)
    old.announce(world.now)
    world.drive(old)
    world.run(3)
    version = hearer.gossip.peers[old.node].announcement
    assert version is not None
    assert version.sequence == old.sequence
    _give(world, hearer, teller, before)
    assert hearer.gossip.peers[old.node].announcement == version
    hearer.gossip.publish(before, world.now)
    assert hearer.gossip.peers[old.node].announcement == version


def test_what_was_lost_on_the_way_is_found_by_comparing() -> None:
    world, members = _world(6)
    send, dropping = world.send, True

    def dropped(sender: Member, receiver: Member, link: object, message: wire.GossipMessage) -> None:
        if not (dropping and isinstance(message, wire.Offer | wire.Records | wire.Want)):
            send(sender, receiver, link, message)  # type: ignore[arg-type]

    world.send = dropped  # type: ignore[method-assign]
    members[0].gossip.publish(_badge(world, STRANGER), world.now)
    members[0].announce(world.now)
    world.drive(members[0])
    world.run(1)
    assert not _equal(world)
    dropping = False
    world.run(20)
    assert _equal(world)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda w: _badge_of(w, STRANGER), "signature"),
        (lambda w: _tampered(_announcement(w, STRANGER)), "signature"),
        (lambda w: _cut(_announcement(w, STRANGER)), "format"),
    ],
)
def test_forged_records_change_nothing(make: Callable[[World], Record], reason: str) -> None:
    world, members = _world()
    before = members[0].gossip.summary
    record = make(world)
    _give(world, members[0], members[1], record)
    assert _refusals(members[0]) == [(record.kind, reason)]
    assert members[0].gossip.summary == before
    with pytest.raises(WireError, match="do not hold"):
        for _ in range(40):
            _give(world, members[0], members[1], record)
    assert members[0].gossip.summary == before


def _badge_of(world: World, key: SigningKey) -> Record:
    badge = Badge(key.public)
    return badge_record(key.public, badge, seal(key, "badge", badge))


def _tampered(record: Record) -> Record:
    raw = record.raw[:-1] + bytes([record.raw[-1] ^ 1])
    return Record(record.kind, record.key, record.version, record.subject, record.signer, raw, record.body)


def _cut(record: Record) -> Record:
    raw = record.raw[:-9]
    return Record(record.kind, record.key, record.version, record.subject, record.signer, raw, record.body)


def test_a_record_under_another_digest_is_nonsense() -> None:
    world, members = _world()
    badge = _badge(world, STRANGER)
    item = wire.Item(1, wire.pack_digest(b"another!", badge.version), badge.raw)
    with pytest.raises(WireError, match="digest"):
        members[0].gossip.receive(members[1].node, wire.Records((item,)), world.now, EPOCH)
    cut = wire.Offer(b"\0" * 15)
    with pytest.raises(WireError):
        members[0].gossip.receive(members[1].node, cut, world.now, EPOCH)


def test_an_announcement_before_its_membership_waits_for_it() -> None:
    world, members = _world()
    said, badge = _announcement(world, STRANGER), _badge(world, STRANGER)
    _give(world, members[0], members[1], said)
    assert STRANGER.public not in members[0].gossip.peers
    assert not _refusals(members[0])
    _give(world, members[0], members[1], badge)
    world.run(2)
    assert all(member.gossip.peers[STRANGER.public].announcement == said.body for member in members)


def test_an_announcement_whose_membership_never_comes_is_refused_in_the_end() -> None:
    world, members = _world()
    _give(world, members[0], members[1], _announcement(world, STRANGER))
    world.run(8)
    assert _refusals(members[0]) == [(RecordKind.ANNOUNCEMENT, "unknown_member")]


def test_a_late_copy_brings_no_node_back_and_a_higher_incarnation_does() -> None:
    world, members = _world(4)
    gone, rest = members[0], members[1:]
    (late,) = (r for r in rest[0].gossip.records(RecordKind.ANNOUNCEMENT) if r.subject == gone.node)
    world.leave(gone)
    world.run(900)
    newer = gone.announcement(world.now)
    _give(world, rest[0], rest[1], late)
    _give(world, rest[0], rest[1], announcement_record(gone.key, newer))
    world.run(5)
    assert {member.gossip.peers[gone.node].status for member in rest} == {"left"}
    risen = _announcement(world, gone.key, incarnation=2)
    _give(world, rest[0], rest[1], risen)
    world.run(1)
    assert {member.gossip.peers[gone.node].status for member in rest} == {"alive"}
    assert not any(member.gossip.records(RecordKind.DEPARTURE) for member in rest)
    assert _equal(world)


def test_a_departure_of_a_former_life_is_contradicted() -> None:
    world, members = _world()
    former = departure_record(members[0].key, world.mesh, members[0].gossip.incarnation)
    _give(world, members[1], members[2], former)
    world.run(3)
    assert {m.gossip.peers[members[0].node].status for m in members[1:]} == {"alive"}
    assert members[0].gossip.incarnation == 2


def test_a_full_store_refuses_announcements_of_unknown_nodes_first() -> None:
    world, members = _world(3, go.GossipConfig(records=8))
    keys = [SigningKey(bytes([number]) * 32) for number in range(10, 14)]
    _give(world, members[0], members[1], _badge(world, keys[0]))
    world.run(1)
    _give(world, members[0], members[1], _announcement(world, keys[0]))
    assert (RecordKind.ANNOUNCEMENT, "full") in _refusals(members[0])
    _give(world, members[0], members[1], _badge(world, keys[1]))
    world.run(1)
    _give(world, members[0], members[1], _badge(world, keys[2]))
    assert (RecordKind.MEMBERSHIP, "full") in _refusals(members[0])
    members[1].announce(world.now)
    world.drive(members[1])
    world.run(3)
    held = members[0].gossip.peers[members[1].node].announcement
    assert held is not None
    assert held.sequence == members[1].sequence


def test_a_peer_makes_us_send_only_so_much() -> None:
    config = go.GossipConfig(rate=1000.0, burst=10_000.0)
    world, members = _world(3, config)
    gossip, greedy = members[0].gossip, members[1]
    keys = b"".join(record.key[:8] for kind in RecordKind for record in gossip.records(kind))
    sent = 0
    for round_ in range(1000):
        now = world.now + round_ * 0.01
        gossip.receive(greedy.node, wire.Want(keys), now, EPOCH + now)
        gossip.receive(greedy.node, wire.Ping(1, bytes(16), 0), now, EPOCH + now)
        gossip.receive(greedy.node, wire.Buckets(bytes(1024)), now, EPOCH + now)
        gossip.receive(greedy.node, wire.Probe(1, members[2].node), now, EPOCH + now)
        gossip.tick(now, EPOCH + now)
        gossip.events()
        sent += sum(len(wire.encode(m)) for peer, m in gossip.outgoing() if peer == greedy.node)
    assert 5_000 < sent < 10_000 + 10 * 1000 + 5000


def test_what_nobody_asked_for_is_taken_only_so_often() -> None:
    world, members = _world()
    before = len(list(members[0].gossip.records(RecordKind.MEMBERSHIP)))
    for number in range(200):
        _give(world, members[0], members[1], _badge(world, SigningKey(number.to_bytes(32, "big"))))
    stored = len(list(members[0].gossip.records(RecordKind.MEMBERSHIP))) - before
    assert 60 <= stored <= 70
    items = [b"%08d" % number for number in range(4096)]
    for _ in range(10):
        offer = wire.Offer(b"".join(wire.pack_digest(key, 1) for key in items))
        members[0].gossip.receive(members[1].node, offer, world.now, EPOCH + world.now)
    asked = [m for _, m in members[0].gossip.outgoing() if isinstance(m, wire.Want)]
    assert sum(len(m.keys) for m in asked) == 4096 * 8


def test_expelled_members_are_dropped_and_forgotten_ones_come_back_with_news() -> None:
    world, members = _world()
    watcher, other = members[0], members[1]
    watcher.gossip.expel(other.node, world.now)
    assert other.node not in watcher.gossip.peers
    assert not [r for r in watcher.gossip.records(RecordKind.ANNOUNCEMENT) if r.subject == other.node]
    watcher.gossip.forget(members[2].node, world.now)
    assert members[2].node not in watcher.gossip.peers
    assert members[2].node not in watcher.gossip.wanted_links()
    members[2].announce(world.now)
    world.drive(members[2])
    world.run(3)
    assert watcher.gossip.peers[members[2].node].status == "alive"


def test_what_comes_after_the_link_is_gone_is_ignored() -> None:
    world, members = _world()
    members[0].gossip.unlinked(members[1].node, world.now, said_goodbye=True)
    assert members[0].gossip.peers[members[1].node].status == "left"
    before = members[0].gossip.summary
    _give(world, members[0], members[1], _badge(world, STRANGER))
    assert members[0].gossip.summary == before


@pytest.mark.parametrize("size", [10, 100])
def test_a_newcomer_knows_everybody_and_everybody_knows_it(size: int) -> None:
    world, members = _world(size)
    newcomer = world.add()
    world.link(newcomer, members[0])
    world.start(newcomer)

    def known() -> bool:
        return len(newcomer.gossip.peers) == size and all(newcomer.node in m.gossip.peers for m in members)

    assert world.run(20, known) <= 2
    world.run(10)
    wanted = set(newcomer.gossip.wanted_links())
    assert wanted <= set(newcomer.links)


def test_traffic_of_a_quiet_mesh() -> None:
    for size in (10, 33, 100):
        world, members = _world(size)
        for member in members:
            member.traffic.bytes_in = member.traffic.bytes_out = 0
        world.run(30)
        assert max(m.traffic.bytes_out for m in members) / 30 < 5000
        assert max(m.traffic.bytes_in for m in members) / 30 < 5000
        assert not any(member.events for member in members)
