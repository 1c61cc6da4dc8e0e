"""The mDNS record: what is said in it, and what is believed of one that somebody else made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.discovery import mdns_record
from meshllm_core.discovery.mdns_record import KEPT, Found, Neighbours, mesh_tag, parse
from meshllm_core.errors import WireError
from meshllm_core.ids import MeshId, NodeId
from meshllm_core.wire import limits

NODE = NodeId(bytes(range(32)))
MESH = MeshId(bytes(range(32, 64)))


def record(of: MeshId | None = MESH, **changed: str | None) -> dict[bytes, bytes | None]:
    """A record as it arrives, with some values changed; None leaves one out."""
    texts = {**mdns_record.properties(NODE, of, "0.1.0"), **changed}
    return {key.encode(): value.encode() for key, value in texts.items() if value is not None}


def test_a_record_is_understood() -> None:
    assert parse(record(), ["10.0.0.2", "fe80::1", "10.0.0.2"], 4400) == Found(
        NODE, mesh_tag(MESH), ("10.0.0.2", "fe80::1"), 4400, "0.1.0"
    )
    assert parse(record(of=None), ["10.0.0.2"], 4400).mesh_tag == b""


def test_it_tells_neither_mesh_nor_name_nor_more_than_it_must() -> None:
    texts = mdns_record.properties(NODE, MESH, "0.1.0")
    assert set(texts) == {"schema", "id", "v", "mesh"}
    assert MESH.hex()[:16] not in texts["mesh"]
    assert len(mesh_tag(MESH)) == 8
    assert mesh_tag(MESH) != mesh_tag(MeshId(bytes(32)))
    assert all(len(value) <= mdns_record.VALUE_LIMIT for value in texts.values())
    assert mdns_record.instance_name(NODE) == "0001020304._meshllm._udp.local."


@pytest.mark.parametrize(
    ("texts", "addresses", "port"),
    [
        ({}, ["10.0.0.2"], 1),
        (record(schema="2"), ["10.0.0.2"], 1),
        (record(schema=None), ["10.0.0.2"], 1),
        (record(id=None), ["10.0.0.2"], 1),
        (record(id="00"), ["10.0.0.2"], 1),
        (record(id="zz" * 32), ["10.0.0.2"], 1),
        (record(id="AA" * 32), ["10.0.0.2"], 1),
        (record(mesh="00"), ["10.0.0.2"], 1),
        (record(v="\x1b[31m"), ["10.0.0.2"], 1),
        (record(v="1" * 33), ["10.0.0.2"], 1),
        (record(extra="x" * 221), ["10.0.0.2"], 1),
        (record(), [], 1),
        (record(), ["0.0.0.0", "224.0.0.1", "nonsense"], 1),
        (record(), ["10.0.0.2"], 0),
        (record(), ["10.0.0.2"], None),
    ],
)
def test_a_malformed_record_is_refused(
    texts: dict[bytes, bytes | None], addresses: list[str], port: int | None
) -> None:
    with pytest.raises(WireError):
        parse(texts, addresses, port)


@given(
    st.dictionaries(
        st.one_of(st.sampled_from([b"schema", b"id", b"mesh", b"v"]), st.binary(max_size=10)),
        st.one_of(st.none(), st.just(b"1"), st.just(NODE.hex().encode()), st.binary(max_size=300)),
    ),
    st.lists(st.one_of(st.ip_addresses().map(str), st.text(max_size=20)), max_size=60),
    st.one_of(st.none(), st.integers(-1, 70_000)),
)
def test_any_record_is_understood_or_refused(
    texts: dict[bytes, bytes | None], addresses: list[str], port: int | None
) -> None:
    try:
        found = parse(texts, addresses, port)
    except WireError:
        return
    assert len(found.node) == 32
    assert 1 <= len(found.addresses) <= limits.ADDRESSES
    assert found.version.isprintable()


def _found(number: int, port: int = 1) -> Found:
    return Found(NodeId(number.to_bytes(32, "big")), b"", ("10.0.0.2",), port, "")


def test_only_news_of_others_counts() -> None:
    near = Neighbours(NODE)
    assert near.heard("own", Found(NODE, b"", ("10.0.0.2",), 1, "")) == (False, None)
    assert near.heard("a", _found(1)) == (True, None)
    assert near.heard("A", _found(1)) == (False, None)
    assert near.heard("a", _found(1, port=2)) == (True, None)
    assert len(near) == 1


def test_a_node_is_lost_with_its_last_record() -> None:
    near = Neighbours(NODE)
    near.heard("a", _found(1))
    near.heard("b", _found(1))
    assert near.gone("b") is None
    assert near.gone("a") == _found(1).node
    assert near.gone("a") is None
    near.heard("c", _found(1))
    assert near.heard("c", _found(2)) == (True, _found(1).node)


def test_the_record_heard_of_longest_ago_goes_when_there_are_too_many() -> None:
    near = Neighbours(NODE)
    for number in range(KEPT):
        assert near.heard(f"{number}", _found(number + 1)) == (True, None)
    near.heard("0", _found(1))
    assert near.heard("one more", _found(KEPT + 1)) == (True, _found(2).node)
    assert len(near) == KEPT
