"""Five machines, their frames delivered, lost, repeated and delayed in any order: in the end they agree."""

from collections import deque
from itertools import permutations
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meshllm_core.errors import ProofInvalid, WireError
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import MeshId, NodeId
from meshllm_core.membership import gossip as go
from meshllm_core.membership.gossip_records import check_gossip_record, death_record
from meshllm_core.membership.records import Record, RecordKind
from meshllm_core.wire import gossip as wire
from tests.membership.machines import EPOCH, Member

MESH = MeshId(b"\5" * 32)
KEYS = [SigningKey(bytes([number + 1]) * 32) for number in range(5)]
NODES = [key.public for key in KEYS]

_verified: dict[bytes, Record] = {}


def _check(kind: RecordKind, raw: bytes, wall: float) -> Record:
    if raw not in _verified:
        _verified[raw] = check_gossip_record(kind, raw, NODES.__contains__, mesh=MESH)
    if _verified[raw].kind is not kind:
        raise ProofInvalid("Another kind.", reason="signature")
    return _verified[raw]


class Five:
    """Machines with links that do only what they are told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self.wires: dict[tuple[int, int], deque[bytes]] = {
            pair: deque() for pair in permutations(range(5), 2)
        }
        self.linked: set[tuple[int, int]] = set()
        self.newest: dict[tuple[int, NodeId], tuple[int, int]] = {}
        self.members: list[Member] = []
        for number, key in enumerate(KEYS):
            random = Random(number).random
            gossip = go.Gossip(
                key.public, instance=key.public[:8], incarnation=1, random=random, check=_check
            )
            self.members.append(Member(MESH, key, gossip, key.public[:8]))
            self.members[-1].announce(0.0)
        for one, other in self.wires:
            if one < other:
                self.join(one, other)

    def join(self, one: int, other: int) -> None:
        if (one, other) not in self.linked:
            self.linked |= {(one, other), (other, one)}
            self.members[one].gossip.linked(NODES[other], self.now)
            self.members[other].gossip.linked(NODES[one], self.now)
            self.drain(one)
            self.drain(other)

    def cut(self, one: int, other: int) -> None:
        if (one, other) in self.linked:
            self.linked -= {(one, other), (other, one)}
            for a, b in ((one, other), (other, one)):
                self.wires[a, b].clear()
                self.members[a].gossip.unlinked(NODES[b], self.now, said_goodbye=False)
                self.drain(a)

    def drain(self, number: int) -> None:
        member = self.members[number]
        while events := member.gossip.events():
            for event in events:
                if isinstance(event, go.Refuted):
                    member.sequence = 0
                    member.announce(self.now)
                elif isinstance(event, go.DeathFound):
                    record = death_record(member.key, MESH, event.node, event.incarnation, self.now)
                    member.gossip.publish(record, self.now)
                assert not isinstance(event, go.RecordRefused | go.DuplicateIdentity)
        for peer, message in member.gossip.outgoing():
            other = NODES.index(peer)
            if (number, other) in self.linked:
                self.wires[number, other].append(wire.encode(message))
        for node, state in member.gossip.peers.items():
            if state.announcement is not None:
                said = state.announcement.incarnation, state.announcement.sequence
                assert said >= self.newest.get((number, node), (0, 0)), "an announcement went backwards"
                self.newest[number, node] = said

    def deliver(self, one: int, other: int, *, lose: bool = False, again: bool = False) -> None:
        waiting = self.wires[one, other]
        if not waiting:
            return
        raw = waiting[0] if again else waiting.popleft()
        if not lose:
            self.members[other].gossip.receive(NODES[one], wire.decode(raw), self.now, EPOCH + self.now)
            self.drain(other)

    def tick(self, number: int) -> None:
        self.members[number].gossip.tick(self.now, EPOCH + self.now)
        self.drain(number)

    def settle(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 0.1
            for one, other in self.wires:
                if one < other:
                    self.join(one, other)
            for pair, waiting in self.wires.items():
                while waiting:
                    self.deliver(*pair)
            for number, member in enumerate(self.members):
                if member.gossip.deadline() <= self.now:
                    self.tick(number)


NUMBER = st.integers(0, 4)
PAIR = st.sampled_from(list(permutations(range(5), 2)))
STEP = st.one_of(
    st.tuples(st.sampled_from(["deliver", "deliver", "deliver", "lose", "again", "cut", "join"]), PAIR),
    st.tuples(st.sampled_from(["announce", "tick", "tick"]), NUMBER),
    st.tuples(st.just("wait"), st.sampled_from([0.05, 0.5, 1.5, 4.0, 8.0])),
    st.tuples(st.just("lie"), PAIR),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEP, max_size=120))
def test_any_interleaving_ends_in_agreement(steps: list[tuple[str, object]]) -> None:
    five = Five()
    for step in steps:
        match step:
            case ("deliver", (int(one), int(other))):
                five.deliver(one, other)
            case ("lose", (int(one), int(other))):
                five.deliver(one, other, lose=True)
            case ("again", (int(one), int(other))):
                five.deliver(one, other, again=True)
            case ("cut", (int(one), int(other))):
                five.cut(one, other)
            case ("join", (int(one), int(other))):
                five.join(one, other)
            case ("announce", int(number)):
                five.members[number].announce(five.now)
                five.drain(number)
            case ("tick", int(number)):
                five.tick(number)
            case ("lie", (int(one), int(other))):
                state = five.members[one].gossip.peers.get(NODES[other])
                if state is not None and state.announcement is not None:
                    lie = death_record(KEYS[one], MESH, NODES[other], state.incarnation, five.now)
                    five.members[one].gossip.publish(lie, five.now)
                    five.drain(one)
            case ("wait", float(seconds)):
                five.now += seconds
    five.settle(40)
    assert len({member.gossip.summary for member in five.members}) == 1
    for member in five.members:
        assert {node: state.status for node, state in member.gossip.peers.items()} == {
            node: "alive" for node in NODES if node != member.node
        }
        assert not member.gossip.records(RecordKind.DEATH)
        for record in member.gossip.records(RecordKind.ANNOUNCEMENT):
            owner = five.members[NODES.index(NodeId(record.subject))]
            assert record.version == (owner.gossip.incarnation << 22) | owner.sequence


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(max_size=120), max_size=20), st.randoms(use_true_random=False))
def test_hostile_frames_change_nothing_that_is_stored(frames: list[bytes], random: Random) -> None:
    five = Five()
    five.settle(3)
    before = five.members[0].gossip.summary
    real = [wire.encode(wire.Ping(1, bytes(16), 1 << 20)), wire.encode(wire.Buckets(bytes(1024)))]
    real += [wire.encode(wire.Digests(bytes(range(256)), b"\xff" * 160, last=True))]
    real += [wire.encode(wire.Records((wire.Item(5, b"\xff" * 16, frame),))) for frame in frames[:3]]
    for frame in frames + real:
        mutated = bytearray(frame or b"\0")
        mutated[random.randrange(len(mutated))] ^= 1 << random.randrange(8)
        try:
            five.members[0].gossip.receive(NODES[1], wire.decode(mutated), five.now, EPOCH + five.now)
        except WireError:
            continue
    five.members[0].gossip.events()
    assert five.members[0].gossip.summary == before
