"""Chains: what holds, and every way in which one does not."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.signed import seal
from meshllm_core.ids import MeshId, NodeId
from meshllm_core.membership.certificates import (
    DAY,
    FOUNDER_LIFE,
    Certificate,
    decode_chain,
    encode_chain,
    issue,
    moment,
    read_chain,
)
from meshllm_core.membership.records import RecordKind
from meshllm_core.membership.roster import Roster
from meshllm_core.wire import limits
from tests.membership.founding import NOW, Founded, key

ROOT = key("root")
MESH = MeshId(ROOT.public)


def certificate(name: str, **changes: Any) -> Certificate:
    """Of the node of that name; good for a year from NOW."""
    usual = Certificate(
        mesh=MESH,
        subject=key(name).public,
        role="host",
        may_invite=True,
        issued_at=moment(NOW),
        expires_at=moment(NOW + 365 * DAY),
        serial=b"12345678",
    )
    return msgspec.structs.replace(usual, **changes)


def chain(*names: str, last: SigningKey = ROOT, **of_first: Any) -> tuple[bytes, ...]:
    """Newest first: each admitted by the next, the last by `last`; `of_first` changes the newest."""
    keys = [*(key(name) for name in names[1:]), last]
    return tuple(
        issue(signer, certificate(name, **(of_first if index == 0 else {})))
        for index, (name, signer) in enumerate(zip(names, keys, strict=True))
    )


def refused(links: Sequence[bytes], subject: NodeId, *, wall: float = NOW) -> ProofInvalid:
    with pytest.raises(ProofInvalid) as caught:
        Roster(MESH, key("me").public).verify_chain(links, subject, wall)
    return caught.value


def test_a_founder_has_a_chain_of_one_and_may_everything() -> None:
    mesh = Founded()
    found = mesh.roster.verify_chain(mesh.chain, mesh.founder.public, NOW)
    assert (found.role, found.may_invite, found.admitted_by) == ("host", True, mesh.root.public)
    assert (found.issued_at, found.expires_at) == (NOW, NOW + FOUNDER_LIFE)
    assert all(len(raw) <= limits.CERTIFICATE for raw in mesh.chain)


def test_the_longest_chain_holds_and_one_more_does_not() -> None:
    names = [f"n{index}" for index in range(limits.CHAIN_LENGTH + 1)]
    longest = chain(*names[: limits.CHAIN_LENGTH])
    found = Roster(MESH, key("me").public).verify_chain(longest, key("n0").public, NOW)
    assert found.admitted_by == key("n1").public
    assert decode_chain(encode_chain(longest)) == longest
    assert refused(chain(*names), key("n0").public).reason == "chain"


@pytest.mark.parametrize(
    ("links", "reason", "words"),
    [
        ((), "chain", "0 certificates"),
        (chain("a") * 10_000, "chain", "10000 certificates"),
        ((b"x" * (limits.CERTIFICATE + 1),), "size", "limit is 512"),
        ((b"nonsense",), "format", "cannot be read"),
        ((seal(ROOT, "owner", certificate("a")),), "signature", "does not hold"),
        ((issue(key("other root"), certificate("a")),), "chain", "not the next in the chain"),
        (chain("a", mesh=key("other root").public), "other_mesh", "meshllm leave"),
        (chain("a", "b")[:1], "chain", "not the next"),
        (chain("a", "b", "a"), "chain", "comes back"),
        (chain("a", "a"), "chain", "comes back"),
        (chain("root"), "chain", "comes back"),
        ((chain("a", "b")[0], *chain("b", may_invite=False)), "not_permitted", "may not invite"),
        ((chain("a", "b")[0], *chain("b", role="client")), "not_permitted", "made"),
        (chain("a", "b", expires_at=moment(NOW + 366 * DAY)), "not_permitted", "outlives"),
        (chain("a", "b", issued_at=moment(NOW) - 1), "chain", "older"),
        (chain("a", expires_at=moment(NOW)), "chain", "ends before"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_hold_is_refused_by_its_reason(links: Sequence[bytes], reason: str, words: str) -> None:
    error = refused(links, key("a").public)
    assert (error.reason, words in str(error)) == (reason, True), error


def test_a_stolen_certificate_is_of_no_use_to_another_key() -> None:
    error = refused(chain("a", "b"), key("thief").public)
    assert error.reason == "stolen"
    assert key("thief").public.hex()[:10] in str(error)


@pytest.mark.parametrize(
    ("hours", "reason"),
    [(-25, "clock"), (-23, ""), (23, ""), (365 * 24 + 23, ""), (365 * 24 + 25, "expired")],
)
def test_clocks_may_differ_by_a_day(hours: float, reason: str) -> None:
    links, roster, wall = chain("a", "b"), Roster(MESH, key("me").public), NOW + hours * 3600
    if not reason:
        assert roster.verify_chain(links, key("a").public, wall).node == key("a").public
        return
    error = refused(links, key("a").public, wall=wall)
    assert error.reason == reason
    assert "25 hours" in str(error), "the measured difference" if reason == "clock" else error


def test_a_link_that_ended_in_the_middle_ends_the_chain() -> None:
    old = certificate("b", issued_at=moment(NOW - 9 * DAY), expires_at=moment(NOW + DAY))
    child = certificate("a", expires_at=old.expires_at)
    links = (issue(key("b"), child), issue(ROOT, old))
    roster = Roster(MESH, key("me").public)
    assert roster.verify_chain(links, key("a").public, NOW).role == "host"
    assert refused(links, key("a").public, wall=NOW + 3 * DAY).reason == "expired"


def test_a_date_that_no_clock_shows_is_not_read() -> None:
    class Dated(msgspec.Struct, array_like=True):
        mesh: bytes
        subject: bytes
        role: str
        may_invite: bool
        issued_at: float
        expires_at: int
        serial: bytes

    body = Dated(MESH, key("a").public, "host", True, float("nan"), 1 << 50, b"12345678")
    assert refused((seal(ROOT, "membership", body),), key("a").public).reason == "format"


@given(st.data())
def test_a_changed_chain_never_holds(data: st.DataObject) -> None:
    raw = encode_chain(chain("a", "b"))
    assert read_chain(MESH, decode_chain(raw)).node == key("a").public
    changed = bytearray(raw)
    position = data.draw(st.integers(0, len(raw) - 1))
    match data.draw(st.sampled_from(["flip", "cut", "insert", "drop"])):
        case "flip":
            changed[position] ^= data.draw(st.integers(1, 255))
        case "cut":
            del changed[position:]
        case "insert":
            changed[position:position] = data.draw(st.binary(min_size=1, max_size=8))
        case _:
            del changed[position]
    if bytes(changed) == raw:
        return
    with pytest.raises(ProofInvalid):
        Roster(MESH, key("me").public).check(RecordKind.MEMBERSHIP, bytes(changed), NOW)


@given(st.binary(max_size=700))
def test_noise_is_refused_as_any_kind(noise: bytes) -> None:
    roster = Roster(MESH, key("me").public)
    for kind in RecordKind:
        with pytest.raises(ProofInvalid):
            roster.check(kind, noise, NOW)
    with pytest.raises(ProofInvalid):
        roster.verify_chain((noise,), key("a").public, NOW)
