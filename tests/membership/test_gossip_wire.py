"""Gossip messages: what is not one is refused, whatever the bytes."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.errors import ProofInvalid, WireError
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.signed import seal
from meshllm_core.ids import MeshId, NodeId
from meshllm_core.membership.gossip_records import (
    UNKNOWN_MEMBER,
    check_gossip_record,
    death_record,
    departure_record,
)
from meshllm_core.membership.records import Record, RecordKind
from meshllm_core.wire import gossip as wire
from meshllm_core.wire import limits

KEY, OTHER = SigningKey(b"\1" * 32), SigningKey(b"\2" * 32)
MESH = MeshId(b"\7" * 32)

MESSAGES: list[wire.GossipMessage] = [
    wire.Ping(1, bytes(16), 3, wire.pack_digest(b"12345678", 9)),
    wire.Pong(1, bytes(16), 3),
    wire.Offer(wire.pack_digest(b"12345678", 1 << 62)),
    wire.Want(b"12345678"),
    wire.Records((wire.Item(5, wire.pack_digest(b"12345678", 1), b"raw"),)),
    wire.Buckets(bytes(1024)),
    wire.Digests(b"\0\1", b"", True),
    wire.Probe(1, bytes(32)),
    wire.Vouch(1, bytes(32), wire.HEARD, 40),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_there_and_back(message: wire.GossipMessage) -> None:
    assert wire.decode(wire.encode(message)) == message


@given(st.binary(max_size=200))
def test_garbage(raw: bytes) -> None:
    try:
        message = wire.decode(raw)
    except WireError:
        return
    assert wire.decode(wire.encode(message)) == message


@given(st.sampled_from(MESSAGES), st.integers(0, 2000), st.integers(0, 255))
def test_a_changed_byte(message: wire.GossipMessage, place: int, byte: int) -> None:
    raw = bytearray(wire.encode(message))
    raw[place % len(raw)] = byte
    try:
        wire.decode(bytes(raw))
    except WireError as error:
        assert "cannot be read" in error.message


@pytest.mark.parametrize(
    "body",
    [
        [3, bytes(16 * (wire.DIGESTS + 1))],
        [4, bytes(8 * (wire.DIGESTS + 1))],
        [5, [[5, bytes(16), bytes(limits.RECORD + 1)]]],
        [5, [[5, bytes(16), b""]] * (wire.RECORDS_PER_MESSAGE + 1)],
        [5, [[8, bytes(16), b""]]],
        [6, bytes(1025)],
        [8, 1, bytes(31)],
        [9, 1, bytes(32), 3, 0],
        [1, 1 << 32, bytes(16), 0],
    ],
)
def test_what_is_too_large_is_refused(body: object) -> None:
    with pytest.raises(WireError):
        wire.decode(msgspec.msgpack.encode(body))


def test_a_message_above_the_frame_limit_is_refused_unseen() -> None:
    with pytest.raises(WireError, match="limit"):
        wire.decode(bytes(limits.CONTROL_FRAME + 1))


def test_runs_that_were_cut() -> None:
    for read in (wire.digests, wire.keys):
        with pytest.raises(WireError):
            list(read(bytes(15)))


def test_the_largest_messages_fit_into_a_frame() -> None:
    longest = max(
        len(wire.encode(wire.Digests(bytes(256), bytes(wire.DIGESTS * 16), True))),
        wire.RECORDS_BYTES + limits.RECORD + wire.RECORDS_PER_MESSAGE * 32,
    )
    assert longest < limits.CONTROL_FRAME


@pytest.mark.parametrize(
    ("make", "members", "mesh", "reason"),
    [
        (lambda: death_record(KEY, MESH, OTHER.public, 1, 0.0), [KEY, OTHER], MESH, ""),
        (lambda: death_record(KEY, MESH, OTHER.public, 1, 0.0), [OTHER], MESH, UNKNOWN_MEMBER),
        (lambda: death_record(KEY, MESH, OTHER.public, 1, 0.0), [KEY], MESH, UNKNOWN_MEMBER),
        (lambda: death_record(KEY, MESH, OTHER.public, 1, 0.0), [KEY, OTHER], bytes(32), "other_mesh"),
        (lambda: departure_record(KEY, MESH, 1), [KEY], MESH, ""),
        (lambda: departure_record(KEY, MESH, 1), [], MESH, UNKNOWN_MEMBER),
    ],
)
def test_what_a_record_needs(
    make: Callable[[], Record], members: list[SigningKey], mesh: bytes, reason: str
) -> None:
    record = make()
    known = {key.public for key in members}

    def check(raw: bytes) -> Record:
        return check_gossip_record(record.kind, raw, known.__contains__, mesh=MeshId(mesh))

    if not reason:
        assert check(record.raw) == record
        with pytest.raises(ProofInvalid) as tampered:
            check(record.raw[:-1] + bytes([record.raw[-1] ^ 1]))
        assert tampered.value.reason == "signature"
        return
    with pytest.raises(ProofInvalid) as refused:
        check(record.raw)
    assert refused.value.reason == reason


def test_a_signature_for_one_purpose_counts_for_no_other() -> None:
    raw = seal(KEY, wire.DEPARTURE_PURPOSE, wire.Death(MESH, OTHER.public, 1, 0.0))
    with pytest.raises(ProofInvalid) as refused:
        check_gossip_record(RecordKind.DEATH, raw, lambda _: True, mesh=MESH)
    assert refused.value.reason == "signature"
    with pytest.raises(ProofInvalid):
        check_gossip_record(RecordKind.INVITE, raw, lambda node: node == NodeId(b""), mesh=MESH)
