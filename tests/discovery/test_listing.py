"""A public listing: what is built verifies, what was touched does not, nothing in it commands a terminal."""

import json
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.discovery import listing as listings
from meshllm_core.discovery.listing import AHEAD, CONTENT, LIFETIME, Listing, build, identifier, verify
from meshllm_core.errors import DiscoveryError, ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.wire import limits

KEY = SigningKey(b"k" * 32)
NOW = 1_800_000_000
MESH = b"m" * 32


def sample(**changes: object) -> Listing:
    base = Listing(
        mesh=MESH.hex(),
        node=KEY.public.hex(),
        addresses=("192.168.1.20:4400", "[2001:db8::1]:4400"),
        name="Attic",
        region="eu",
        members=3,
        clients=1,
        max_clients=8,
        models=("qwen3-8b", "smollm2"),
        vram_free=8 << 30,
        vram_total=24 << 30,
        version="0.1.0",
        protocol=1,
        oldest=1,
        issued_at=NOW,
        expires_at=NOW + LIFETIME,
    )
    return msgspec.structs.replace(base, **changes)


def tags_of(listing: Listing) -> list[list[str]]:
    return [
        ["d", identifier(listing.mesh)],
        ["t", "meshllm"],
        ["expiration", str(listing.expires_at)],
    ]


CONTENT_TEXT = build(KEY, sample())
TAGS = tags_of(sample())


def reason(content: str, tags: Sequence[Sequence[str]] = TAGS, wall: float = NOW) -> str:
    with pytest.raises(ProofInvalid) as caught:
        verify(content, tags, wall)
    return caught.value.reason


def resigned(listing: Listing) -> str:
    """As a hostile member would publish it: signed as it is, nothing cut."""
    return listings._signed(KEY, listing).decode()


def test_what_is_built_verifies() -> None:
    found = verify(CONTENT_TEXT, TAGS, NOW)
    assert found == sample()
    assert (found.mesh_id, found.node_id) == (MESH, KEY.public)
    assert [str(address) for address in found.dial_addresses()] == list(found.addresses)
    assert found.free_slots == 7


def test_it_can_be_read_by_a_person_and_holds_no_secret() -> None:
    document = json.loads(CONTENT_TEXT)
    assert set(document) == {*Listing.__struct_fields__, "signature"}
    assert document["schema"] == 1
    assert document["admission"] == "open"


@given(st.integers(0, len(CONTENT_TEXT) - 1), st.characters())
def test_no_single_change_verifies(place: int, character: str) -> None:
    changed = CONTENT_TEXT[:place] + character + CONTENT_TEXT[place + 1 :]
    if changed != CONTENT_TEXT:
        assert reason(changed) in {"format", "signature"}


@given(st.integers(0, len(CONTENT_TEXT)), st.text(min_size=1, max_size=5))
def test_nothing_can_be_put_in(place: int, text: str) -> None:
    assert reason(CONTENT_TEXT[:place] + text + CONTENT_TEXT[place:]) in {"format", "signature"}


@given(st.integers(0, len(CONTENT_TEXT) - 1), st.integers(1, 40))
def test_nothing_can_be_cut_out(place: int, size: int) -> None:
    assert reason(CONTENT_TEXT[:place] + CONTENT_TEXT[place + size :]) in {"format", "signature"}


@given(st.text(max_size=200) | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps))
def test_anything_else_is_refused_in_words(text: str) -> None:
    assert reason(text) in {"format", "size"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("members", 4),
        ("name", "Cellar"),
        ("node", SigningKey(b"x" * 32).public.hex()),
        ("mesh", "ab" * 32),
        ("expires_at", NOW + 100),
        ("models", ["other"]),
        ("addresses", ["10.0.0.1:1"]),
    ],
)
def test_every_field_is_signed(field: str, value: object) -> None:
    document = json.loads(CONTENT_TEXT) | {field: value}
    tags = [["d", identifier(document["mesh"])], ["expiration", str(document["expires_at"])]]
    assert reason(json.dumps(document, separators=(",", ":")), tags) == "signature"


def test_a_line_end_behind_the_signature_is_a_change() -> None:
    document = json.loads(CONTENT_TEXT)
    for field in ("signature", "node", "mesh"):
        changed = document | {field: document[field] + "\n"}
        assert reason(json.dumps(changed, separators=(",", ":"))) == "format"
        assert reason(json.dumps(document | {field: document[field].upper()}, separators=(",", ":")))


@pytest.mark.parametrize(
    "tags",
    [
        [],
        [["d", identifier("ab" * 32)], ["expiration", str(NOW + LIFETIME)]],
        [["d", identifier(MESH)], ["expiration", str(NOW + 5000)]],
        [["d", identifier(MESH)]],
        [["d", identifier(MESH)], ["d", "other"], ["expiration", str(NOW + LIFETIME)]],
        [["d"], ["expiration", str(NOW + LIFETIME)], []],
    ],
)
def test_tags_that_say_something_else(tags: list[list[str]]) -> None:
    assert reason(CONTENT_TEXT, tags) == "tag"


def test_floods_of_tags() -> None:
    assert reason(CONTENT_TEXT, [*TAGS, *([["x"]] * 100)]) == "size"
    assert reason(CONTENT_TEXT, [*TAGS, ["x", "y" * 10_000]]) == "size"


def test_times() -> None:
    for wall in (NOW - AHEAD, NOW + LIFETIME - 1):
        assert verify(CONTENT_TEXT, TAGS, wall) == sample()
    assert reason(CONTENT_TEXT, TAGS, NOW - AHEAD - 1) == "future"
    assert reason(CONTENT_TEXT, TAGS, NOW + LIFETIME) == "expired"
    for expires in (NOW + LIFETIME + 1, NOW, NOW - 5):
        lasting = sample(expires_at=expires)
        assert reason(resigned(lasting), tags_of(lasting)) == "lifetime"


def test_the_words_name_the_clock() -> None:
    with pytest.raises(ProofInvalid, match="3600 s ago by this machine's clock"):
        verify(CONTENT_TEXT, TAGS, NOW + LIFETIME + 3600)


def test_two_hundred_thousand_models_are_refused_unread() -> None:
    assert reason(resigned(sample(models=tuple(f"model-{n}" for n in range(200_000))))) == "size"


@pytest.mark.parametrize(
    "changes",
    [
        {"models": tuple(f"m{n}" for n in range(limits.MODELS + 1))},
        {"models": ("x" * (limits.MODEL_NAME + 1),)},
        {"models": ("",)},
        {"name": "x" * (limits.NAME + 1)},
        {"addresses": ()},
        {"addresses": tuple(f"10.0.0.{n}:1" for n in range(limits.ADDRESSES + 1))},
        {"members": -1},
        {"clients": 1 << 40},
        {"schema": 2},
        {"admission": "token"},
        {"mesh": "zz" * 32},
        {"vram_free": 1.5},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_fields_out_of_bounds(changes: dict[str, object]) -> None:
    assert reason(resigned(sample(**changes))) == "format"


@pytest.mark.parametrize(
    "address",
    ["example.org:80", "10.0.0.1", "10.0.0.1:0", "10.0.0.1:99999", "224.0.0.1:5353", "0.0.0.0:80", "[::]:80",
     "255.255.255.255:9", "10.0.0.1:08", "[fe80::1%eth0]:80", "2001:db8::1:80", "[10.0.0.1]:80", "", ":80",
     "[2001:DB8::1]:80", "10.0.0.1:٤٤"],
)  # fmt: skip
def test_addresses_that_are_none(address: str) -> None:
    assert listings.parse_address(address) is None
    hostile = sample(addresses=(address,))
    assert reason(resigned(hostile), tags_of(hostile)) == "address"


@pytest.mark.parametrize(
    "address", ["192.168.0.1:4400", "10.1.2.3:1", "127.0.0.1:9", "100.64.0.9:7", "[fd00::1]:4400"]
)
def test_private_addresses_are_taken(address: str) -> None:
    assert str(listings.parse_address(address)) == address


def test_hostile_text_comes_out_clean() -> None:
    hostile = sample(
        name="\x1b[31mred\x1b]0;title\x07",
        region="a\u202eb\n\tc",
        version="1\x9b2J",
        models=("good", "bad\x1b[2J", "\u202egnp.exe", "[red]markup[/]"),
    )
    found = verify(resigned(hostile), tags_of(hostile), NOW)
    for text in (found.name, found.region, found.version, *found.models):
        assert text.isprintable()
        assert "\u202e" not in text
    assert found.models == ("good", "[red]markup[/]")


def test_building_cuts_what_is_too_long() -> None:
    names = tuple(f"{'x' * 250}-{n:05}" for n in range(200_000 // 100))
    content = build(KEY, sample(name="n" * 500, region="\x1b[1m" * 50, models=names))
    assert len(content.encode()) <= CONTENT
    found = verify(content, TAGS, NOW)
    assert found.models == names[: len(found.models)]
    assert len(found.models) > 40
    assert len(found.name) == limits.NAME


@given(
    st.text(max_size=100),
    st.text(max_size=60),
    st.lists(st.text(max_size=300), max_size=100),
    st.text(max_size=50),
)
def test_whatever_is_built_verifies(name: str, region: str, models: list[str], version: str) -> None:
    listing = sample(name=name, region=region, models=tuple(models), version=version)
    found = verify(build(KEY, listing), TAGS, NOW)
    assert set(found.models) <= set(models)


def test_without_an_address_nothing_is_built() -> None:
    with pytest.raises(DiscoveryError, match="no address"):
        build(KEY, sample(addresses=("nonsense",)))


def test_the_node_is_that_of_the_key() -> None:
    other = SigningKey(b"o" * 32)
    assert verify(build(other, sample()), TAGS, NOW).node_id == other.public
