"""Who is alive: the promised seconds, in small meshes and a middle one, in good air and bad."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from meshllm_core.membership import gossip as go
from meshllm_core.membership.gossip_records import death_record
from meshllm_core.membership.records import RecordKind
from meshllm_core.wire import gossip as wire
from tests.membership.machines import EPOCH, Member
from tests.membership.world import World


def _world(size: int, seed: int = 1, *, settle: float = 10.0, **air: float) -> tuple[World, list[Member]]:
    world = World(seed, **air)  # type: ignore[arg-type]
    world.found(size)
    world.run(settle)
    for member in world.members.values():
        member.events.clear()
    return world, list(world.members.values())


def _all_see(members: list[Member], subject: Member, status: str) -> Callable[[], bool]:
    return lambda: all(m.gossip.peers[subject.node].status == status for m in members if m is not subject)


def _whole(members: list[Member]) -> bool:
    return all(_all_see(members, member, "alive")() for member in members) and not any(
        list(member.gossip.records(RecordKind.DEATH)) for member in members
    )


def _kinds(members: list[Member]) -> set[str]:
    return {type(event).__name__ for member in members for event in member.events}


@pytest.mark.parametrize(("size", "seeds"), [(2, 5), (3, 5), (5, 5), (33, 1)])
def test_a_killed_node_is_down_everywhere(size: int, seeds: int) -> None:
    for seed in range(seeds):
        world, members = _world(size, seed)
        victim = members[0]
        world.kill(victim)
        assert world.run(12, _all_see(members[1:], victim, "down")) <= 8.5
        world.run(60)
        assert _all_see(members[1:], victim, "down")()
        others = [m for m in members if m is not victim]
        assert all(_all_see(others, member, "alive")() for member in others)


def test_a_leaving_node_is_gone_at_once_and_comes_back_only_as_another_one() -> None:
    world, members = _world(5)
    leaver, rest = members[0], members[1:]
    world.leave(leaver)
    assert world.run(5, _all_see(rest, leaver, "left"), every=0.01) <= 1.0
    world.run(120)
    assert _all_see(rest, leaver, "left")()
    assert all(leaver.node not in member.gossip.wanted_links() for member in rest)


@pytest.mark.parametrize("size", [3, 12, 60])
def test_a_node_that_slept_is_back(size: int) -> None:
    world, members = _world(size)
    sleeper = members[1]
    world.freeze(sleeper, 90)
    world.run(90)
    assert _all_see([m for m in members if m is not sleeper], sleeper, "down")()
    assert world.run(20, lambda: _whole(members), every=0.5) <= 10
    jumps = [event for event in sleeper.events if isinstance(event, go.ClockJumped)]
    assert len(jumps) == 1
    assert jumps[0].seconds == pytest.approx(90, abs=2)
    assert any(isinstance(event, go.Refuted) for event in sleeper.events)


def test_sleep_that_only_the_wall_clock_saw() -> None:
    world, members = _world(2)
    gossip = members[0].gossip
    gossip.tick(world.now + 0.1, EPOCH + world.now + 0.1)
    gossip.tick(world.now + 0.2, EPOCH + world.now + 3600)
    jumps = [event for event in gossip.events() if isinstance(event, go.ClockJumped)]
    assert len(jumps) == 1
    assert jumps[0].seconds == pytest.approx(3600, abs=1)
    gossip.tick(world.now + 0.3, EPOCH)
    assert not gossip.events()


def test_a_stall_of_four_seconds_drops_nobody() -> None:
    world, members = _world(8)
    for _ in range(5):
        world.freeze(members[2], 4)
        world.run(9)
    assert not _kinds(members) & {"PeerSuspect", "PeerDown", "DeathFound"}


def test_frames_on_other_channels_count_as_life() -> None:
    world, members = _world(2)
    watcher, busy = members
    busy.frozen = True
    for _ in range(40):
        world.run(0.5)
        watcher.gossip.heard(busy.node, world.now)
    assert watcher.gossip.peers[busy.node].status == "alive"
    world.run(8.5)
    assert watcher.gossip.peers[busy.node].status == "down"


def test_round_trips_are_measured_on_both_sides() -> None:
    _, members = _world(3, delay=0.02, jitter=0.0, settle=60)
    for member in members:
        for state in member.gossip.peers.values():
            assert state.round_trip == pytest.approx(0.04, rel=0.1)


def test_who_cannot_be_linked_is_alive_by_the_word_of_others() -> None:
    world, members = _world(4)
    one, other, rest = members[0], members[1], members[2:]
    world.dialling_fails = lambda a, b: {a, b} == {one.node, other.node}
    world.cut(one.links[other.node])
    world.run(120)
    assert not _kinds(members) & {"PeerDown", "DeathFound"}
    state = one.gossip.peers[other.node]
    assert (state.status, state.linked) == ("alive", False)
    assert state.heard_through in {member.node for member in rest}
    world.kill(other)
    assert world.run(12, _all_see([one, *rest], other, "down")) <= 10


@pytest.mark.parametrize(("size", "loss"), [(60, 0.0), (60, 0.1), (100, 0.1)])
def test_a_node_that_hears_nobody_knows_nothing_and_accuses_nobody(size: int, loss: float) -> None:
    world, members = _world(size, loss=loss)
    world.lossy_pings = True
    lone, rest = members[0], members[1:]
    world.part([lone.node])
    world.run(30)
    assert {state.status for state in lone.gossip.peers.values()} == {"down"}
    assert not lone.gossip.records(RecordKind.DEATH)
    world.heal()
    assert world.run(30, lambda: _whole([lone, *rest]), every=1.0) <= 20


@pytest.mark.parametrize(("size", "side"), [(30, 15), (30, 1), (50, 25)])
def test_a_partition_heals_under_loss(size: int, side: int) -> None:
    world, members = _world(size, loss=0.1)
    ids = {member.node for member in members[:side]}
    world.part(ids)
    world.run(60)
    for member in members:
        for node, state in member.gossip.peers.items():
            assert (state.status == "alive") == ((member.node in ids) == (node in ids))
    world.heal()
    assert world.run(60, lambda: _whole(members), every=1.0) <= 30
    world.run(30)
    assert _whole(members)


@pytest.mark.parametrize("size", [20, 60])
def test_lost_pings_leave_no_false_death(size: int) -> None:
    world, members = _world(size)
    world.loss, world.lossy_pings = 0.1, True
    world.run(120)
    world.loss = 0.0
    world.run(10)
    assert _whole(members)


def test_a_lie_about_a_death_is_contradicted_and_nobody_who_hears_the_subject_believes_it() -> None:
    world, members = _world(5)
    liar, subject = members[0], members[1]
    before = subject.gossip.incarnation
    liar.gossip.publish(death_record(liar.key, world.mesh, subject.node, before, EPOCH), world.now)
    world.drive(liar)
    world.run(3)
    assert _whole(members)
    assert subject.gossip.incarnation == before + 1
    assert not _kinds(members) & {"PeerSuspect", "PeerDown"}
    ahead = death_record(liar.key, world.mesh, subject.node, 1 << 40, EPOCH)
    liar.gossip.publish(ahead, world.now)
    item = wire.Item(int(ahead.kind), wire.pack_digest(ahead.key, ahead.version), ahead.raw)
    members[2].gossip.receive(liar.node, wire.Records((item,)), world.now, EPOCH + world.now)
    world.run(20)
    assert _whole(members)
    assert subject.gossip.incarnation == before + 1


def test_a_death_of_a_member_without_a_link_is_believed_unless_it_answers() -> None:
    world, members = _world(60)
    liar = members[0]
    subject = next(m for m in members if m is not liar and m.node not in liar.links)
    far = next(m for m in members if m.node not in subject.links and m not in (subject, liar))
    record = death_record(liar.key, world.mesh, subject.node, subject.gossip.incarnation, EPOCH)
    liar.gossip.publish(record, world.now)
    world.drive(liar)
    world.run(0.5)
    assert far.gossip.peers[subject.node].status in ("suspect", "alive")
    world.run(5)
    assert _whole(members)
    assert "PeerDown" not in _kinds(members)


def test_two_processes_with_one_key_see_each_other() -> None:
    world, members = _world(3)
    original = members[0]
    world.run(15)
    twin = go.Gossip(
        original.node,
        instance=b"the twin",
        incarnation=5,
        random=world.random.random,
        check=lambda kind, raw, wall: world.check(original, kind, raw),
    )
    copy = Member(world.mesh, original.key, twin, b"the twin")
    copy.announce(world.now)
    (record,) = twin.records(RecordKind.ANNOUNCEMENT)
    members[1].gossip.publish(record, world.now)
    world.drive(members[1])
    world.run(30)
    warnings = [event for event in original.events if isinstance(event, go.DuplicateIdentity)]
    assert [event.instance for event in warnings] == [b"the twin"]
    assert original.gossip.incarnation > 5


def test_a_restart_with_a_lost_count_of_incarnations_is_no_duplicate() -> None:
    world, members = _world(3)
    old = members[0]
    world.kill(old)
    world.run(1)
    reborn = world.add(key=old.key)
    world.link(reborn, members[1])
    world.start(reborn)
    world.run(30)
    assert not any(isinstance(event, go.DuplicateIdentity) for event in reborn.events)
    assert _all_see(members[1:], reborn, "alive")()
    assert {m.gossip.peers[old.node].incarnation for m in members[1:]} == {reborn.gossip.incarnation}


def test_down_members_are_wanted_in_turns_with_pauses() -> None:
    world, members = _world(3)
    victim, watcher = members[0], members[1]
    world.kill(victim)
    world.run(12)
    wanted = []
    for _ in range(120):
        world.run(0.5)
        wanted.append(victim.node in watcher.gossip.wanted_links())
    turns = sum(now and not before for before, now in pairwise(wanted))
    assert 3 <= turns <= 15
    assert 0.2 < sum(wanted) / len(wanted) < 0.8
