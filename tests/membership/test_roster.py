"""Who is a member, who may end it, and that the order of news does not matter."""

import itertools
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.errors import InvalidRequest, JoinRefused, NotPermitted, ProofInvalid
from meshllm_core.ids import NodeId
from meshllm_core.membership.certificates import DAY, FOUNDER_LIFE, MEMBER_LIFE, Membership
from meshllm_core.membership.gossip_records import UNKNOWN_MEMBER, death_record, departure_record
from meshllm_core.membership.records import Record, RecordKind
from meshllm_core.membership.register import Change
from meshllm_core.membership.roster import Roster
from meshllm_core.wire import limits
from tests.membership.founding import HOUR, NOW, Founded, key, secret


def names(nodes: Sequence[NodeId], *known: str) -> set[str]:
    """The names of nodes, for a test that reads well."""
    by_id = {key(name).public: name for name in ("founder", *known)}
    return {by_id[node] for node in nodes if node in by_id}


@pytest.fixture
def family() -> Founded:
    """founder ─ a ─ b ─ c, and founder ─ d; all may invite."""
    mesh = Founded()
    mesh.add("a", may_invite=True)
    mesh.add("b", by=key("a"), may_invite=True)
    mesh.add("c", by=key("b"), may_invite=True)
    mesh.add("d", may_invite=True)
    return mesh


def records(mesh: Founded) -> list[Record]:
    return list(mesh.roster.records())


def test_any_member_can_check_any_other_while_the_founder_is_away(family: Founded) -> None:
    other = family.roster_of(key("d").public, records(family))
    found = other.membership(key("c").public, NOW)
    assert found is not None
    assert (found.admitted_by, found.role, len(found.chain)) == (key("b").public, "host", 4)
    assert other.verify_chain(found.chain, key("c").public, NOW) == found
    assert len(other.members(NOW)) == 5
    assert found.expires_at <= NOW + MEMBER_LIFE


def test_nobody_gets_more_than_the_one_that_let_it_in(family: Founded) -> None:
    family.add("client", role="client", may_invite=True)
    with pytest.raises(NotPermitted, match="clients only"):
        family.add("host", by=key("client"))
    family.add("guest", by=key("client"), role="client")
    with pytest.raises(NotPermitted, match="may not invite"):
        family.add("more", by=key("guest"), role="client")
    with pytest.raises(NotPermitted, match="is no member"):
        family.add("more", by=key("stranger"))


def test_the_end_of_a_long_chain_cannot_invite(family: Founded) -> None:
    with pytest.raises(NotPermitted, match="too far"):
        family.add("e", by=key("c"), may_invite=True)
    family.add("e", by=key("c"))
    found = family.roster.membership(key("e").public)
    assert found is not None and len(found.chain) == limits.CHAIN_LENGTH and not found.may_invite


def test_revoking_a_member_takes_all_that_it_let_in(family: Founded) -> None:
    assert names(family.roster.would_revoke(key("a").public), "a", "b", "c", "d") == {"a", "b", "c"}
    chain = family.add("c", by=key("b"), may_invite=True).chain
    revocation = family.roster.revoke(family.founder, key("a").public, wall=NOW + 60)
    assert names([m.node for m in family.roster.members()], "a", "b", "c", "d") == {"founder", "d"}
    with pytest.raises(ProofInvalid, match="no longer a member") as caught:
        family.roster.verify_chain(chain, key("c").public, NOW + 60)
    assert caught.value.reason == "revoked"
    with pytest.raises(ProofInvalid) as caught:
        family.roster.check(RecordKind.MEMBERSHIP, _raw(chain), NOW + 60)
    assert caught.value.reason == "revoked"
    assert revocation[0].version > 0


@pytest.mark.parametrize(
    ("by", "target", "may"),
    [
        ("root", "founder", True),
        ("founder", "c", True),
        ("a", "b", True),
        ("a", "c", True),
        ("a", "a", False),
        ("a", "d", False),
        ("b", "a", False),
        ("a", "founder", False),
        ("stranger", "c", False),
    ],
)
def test_who_may_revoke_whom(family: Founded, by: str, target: str, may: bool) -> None:
    if may:
        family.roster.revoke(key(by), key(target).public, wall=NOW)
        assert family.roster.membership(key(target).public) is None
        return
    with pytest.raises(NotPermitted, match="may not revoke"):
        family.roster.revoke(key(by), key(target).public, wall=NOW)
    assert family.roster.membership(key(target).public) is not None


def test_a_revocation_without_the_right_to_it_is_refused_by_everyone(family: Founded) -> None:
    from meshllm_core.membership.revocation import sign_revocation

    chain_of = {m.node: m.chain for m in family.roster.members()}
    stamp = int(NOW * 1000)
    for signer, target, chain in (
        ("d", "c", chain_of[key("c").public]),
        ("c", "c", chain_of[key("c").public]),
        ("a", "d", chain_of[key("c").public]),
        ("a", "d", ()),
    ):
        raw = sign_revocation(key(signer), family.mesh, "member", key(target).public, chain, stamp)
        with pytest.raises(ProofInvalid) as caught:
            family.roster.check(RecordKind.REVOCATION, raw, NOW)
        assert caught.value.reason in ("not_permitted", "chain")
    late = sign_revocation(family.root, family.mesh, "member", key("c").public, (), stamp + 10 * 86_400_000)
    with pytest.raises(ProofInvalid, match="240 hours") as caught:
        family.roster.check(RecordKind.REVOCATION, late, NOW)
    assert caught.value.reason == "clock"


def test_a_revoked_member_cannot_reach_whom_another_let_in_again(family: Founded) -> None:
    """What `a` signs after all counts only for what hangs on `a`."""
    family.roster.revoke(family.founder, key("a").public, wall=NOW)
    family.add("c", by=key("d"), wall=NOW + 1)
    forged = Founded()
    forged.roster = forged.roster_of(key("a").public)
    for name, by in (("a", None), ("b", "a"), ("c", "b")):
        forged.add(name, by=key(by) if by else None, may_invite=True)
    late = forged.roster.revoke(key("a"), key("c").public, wall=NOW + DAY)
    family.roster.learn(family.roster.check(RecordKind.REVOCATION, late[0].raw, NOW + DAY), NOW + DAY)
    assert family.roster.membership(key("c").public) is not None


def test_a_revoked_machine_can_be_invited_again(family: Founded) -> None:
    family.roster.revoke(family.founder, key("d").public, wall=NOW + 2 * HOUR)
    # The clock of the member that admits is behind that of the one that revoked.
    admission = family.add("d", wall=NOW + HOUR, by=family.root)
    found = family.roster.verify_chain(admission.chain, key("d").public, NOW + HOUR)
    assert found.issued_at > NOW + 2 * HOUR
    other = family.roster_of(key("x").public, records(family))
    assert other.membership(key("d").public) is not None


def test_whom_two_members_let_in_stays_while_one_of_them_does(family: Founded) -> None:
    family.add("c", by=key("d"))
    assert names(family.roster.would_revoke(key("a").public), "a", "b", "c") == {"a", "b"}
    family.roster.revoke(family.founder, key("a").public, wall=NOW)
    found = family.roster.membership(key("c").public)
    assert found is not None and found.admitted_by == key("d").public


def test_one_inviter_cannot_displace_what_another_gave(family: Founded) -> None:
    """A member that may invite can write certificates about anybody, the founder too."""
    family.add("b", by=key("d"), role="client", wall=NOW + HOUR)
    found = family.roster.membership(key("b").public)
    assert found is not None and (found.admitted_by, found.role) == (key("a").public, "host")
    with pytest.raises(JoinRefused, match="already a member"):
        family.add("founder", by=key("d"))
    for index in range(8):
        family.add(f"inviter {index}", may_invite=True)
        family.add("c", by=key(f"inviter {index}"), role="client")
    found = family.roster.membership(key("c").public)
    assert found is not None and found.admitted_by == key("b").public


def test_news_in_any_order_ends_in_the_same_mesh(family: Founded) -> None:
    family.roster.revoke(key("a"), key("b").public, wall=NOW + 1)
    family.add("b", by=key("d"), wall=NOW + 2)
    family.roster.revoke(family.root, key("d").public, wall=NOW + 3)
    news = records(family)
    # What was lost with the revoked members is still on its way from others.
    lost = Founded()
    for name, by in (("a", None), ("b", "a"), ("c", "b"), ("d", None)):
        lost.add(name, by=key(by) if by else None, may_invite=True)
    news += list(lost.roster.records())
    shuffled = random.Random(3)
    results = set()
    for _ in range(20):
        shuffled.shuffle(news)
        roster = Roster(family.mesh, key("x").public)
        for record in [*news, *news]:
            try:
                roster.learn(roster.check(record.kind, record.raw, NOW + HOUR), NOW + HOUR)
            except ProofInvalid as error:
                assert error.reason in ("revoked", UNKNOWN_MEMBER), error
        results.add(frozenset(names([m.node for m in roster.members()], "a", "b", "c", "d")))
    assert results == {frozenset({"founder", "a"})}


def test_a_member_and_what_it_signed_may_come_in_one_batch(family: Founded) -> None:
    """All of a batch is checked before any of it is folded in."""
    family.roster.create_invite(
        key("d"), secret=secret("x"), uses=0, expires_at=0, role="host", may_invite=False, wall=NOW
    )
    roster = Roster(family.mesh, key("x").public)
    batch = sorted(records(family), key=lambda record: record.kind)
    checked = [roster.check(record.kind, record.raw, NOW) for record in batch]
    changes = [roster.learn(record, NOW) for record in checked]
    assert sum(len(change.admitted) for change in changes) == 5
    assert all(roster.learn(record, NOW) == Change() for record in checked), "nothing is new twice"


def test_strangers_sign_nothing(family: Founded) -> None:
    stranger = Roster(family.mesh, key("x").public)
    for record in records(family):
        if record.kind in (RecordKind.INVITE, RecordKind.INVITE_USE):
            with pytest.raises(ProofInvalid) as caught:
                stranger.check(record.kind, record.raw, NOW)
            assert caught.value.reason == UNKNOWN_MEMBER


def test_gossip_is_checked_against_the_members(family: Founded) -> None:
    gone = departure_record(key("d"), family.mesh, 1)
    assert family.roster.check(gone.kind, gone.raw, NOW).subject == key("d").public
    dead = death_record(key("a"), family.mesh, key("d").public, 1, NOW)
    assert family.roster.check(dead.kind, dead.raw, NOW).signer == key("a").public
    family.roster.revoke(family.founder, key("d").public, wall=NOW)
    with pytest.raises(ProofInvalid) as caught:
        family.roster.check(gone.kind, gone.raw, NOW)
    assert caught.value.reason == UNKNOWN_MEMBER


def test_memberships_end_and_are_renewed(family: Founded) -> None:
    roster, late = family.roster, NOW + MEMBER_LIFE - 29 * DAY
    assert roster.renewal_due(NOW + MEMBER_LIFE - 31 * DAY) == []
    assert names(roster.renewal_due(late), "a", "b", "c", "d") == {"a", "b", "c", "d"}
    assert roster.renewal_due(late, key("a").public) == [], "its own end is near as well"
    with pytest.raises(NotPermitted, match="cannot renew"):
        roster.renew(key("d"), key("a").public, wall=late, entropy=family.draw)
    roster.renew(family.founder, key("a").public, wall=late, entropy=family.draw)
    assert names(roster.renewal_due(late, key("a").public), "b", "c") == {"b", "c"}
    roster.renew(key("a"), key("b").public, wall=late, entropy=family.draw)
    found = roster.membership(key("b").public, late)
    assert found is not None and found.expires_at > late + MEMBER_LIFE - HOUR and found.may_invite
    change = roster.prune(late + 60 * DAY)
    assert names(change.ended, "a", "b", "c", "d") == {"c", "d"}
    assert len(change.dropped) >= 2
    assert not roster.is_member(key("c").public, late + 60 * DAY)


def test_only_the_root_renews_the_founder() -> None:
    mesh, late = Founded(), NOW + FOUNDER_LIFE - DAY
    assert mesh.roster.renewal_due(late) == []
    assert mesh.roster.renewal_due(late, mesh.root.public) == [mesh.founder.public]
    mesh.roster.renew(mesh.root, mesh.founder.public, wall=late, entropy=mesh.draw)
    found = mesh.roster.membership(mesh.founder.public)
    assert found is not None and found.expires_at == late + FOUNDER_LIFE


def test_what_is_on_disk_is_taken_back(family: Founded) -> None:
    family.roster.revoke(family.founder, key("a").public, wall=NOW)
    stored = [(record.kind, record.raw) for record in records(family)]
    again = Roster(family.mesh, family.founder.public)
    assert again.restore(reversed(stored), NOW) == []
    assert {m.node for m in again.members()} == {m.node for m in family.roster.members()}
    assert again.invites(NOW) == family.roster.invites(NOW)
    later = Roster(family.mesh, family.founder.public)
    assert {error.reason for error in later.restore(stored, NOW + 2 * MEMBER_LIFE)} == {"expired"}
    with pytest.raises(ProofInvalid) as caught:
        later.verify_chain(family.add("b", by=key("d")).chain[:1], key("b").public, NOW)
    assert caught.value.reason == "chain"


def test_a_target_is_named_by_the_beginning_of_its_id(family: Founded) -> None:
    invite = family.roster.invites(NOW)[0]
    assert family.roster.resolve(key("a").public.hex()[:10].upper()) == key("a").public
    assert family.roster.resolve(f" {invite.id.hex()[:10]} ") == invite.id
    for text in ("", "zz", key("a").public.hex()[:4], "0" * 64):
        with pytest.raises(InvalidRequest, match="begin"):
            family.roster.resolve(text)
    with pytest.raises(InvalidRequest, match="One id begins"):
        family.roster.resolve(key("a").public.hex()[:5])
    with pytest.raises(InvalidRequest, match="neither a member nor an invite"):
        family.roster.revoke(family.root, b"\0" * 32, wall=NOW)


def test_members_are_counted_to_a_limit(family: Founded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MEMBERS", 5)
    stored = list(family.roster.records())
    with pytest.raises(JoinRefused, match="as many as it can have"):
        family.add("one more")
    monkeypatch.setattr(limits, "MEMBERS", 3)
    roster = Roster(family.mesh, key("x").public)
    refused = roster.restore([(record.kind, record.raw) for record in stored], NOW)
    assert len(roster.members()) == 3
    assert "full" in {error.reason for error in refused}


def test_revocations_are_counted_to_a_limit_that_the_root_is_above(
    family: Founded, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = family.roster_of(key("x").public, records(family))
    by_a = family.roster.revoke(key("a"), key("b").public, wall=NOW)
    monkeypatch.setattr(limits, "MEMBERS", 0)
    with pytest.raises(ProofInvalid) as caught:
        other.check(RecordKind.REVOCATION, by_a[0].raw, NOW)
    assert caught.value.reason == "full"
    by_root = family.roster.revoke(family.root, key("a").public, wall=NOW)
    other.learn(other.check(RecordKind.REVOCATION, by_root[0].raw, NOW), NOW)
    assert other.membership(key("b").public) is None


@given(st.data())
def test_a_changed_record_never_checks_out(data: st.DataObject) -> None:
    mesh = _SAMPLE
    record = data.draw(st.sampled_from(_SAMPLES))
    changed = bytearray(record.raw)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(changed) - 1))
        changed[position : position + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    roster = mesh.roster_of(key("x").public, [r for r in _SAMPLES if r.kind == RecordKind.MEMBERSHIP])
    assert roster.check(record.kind, record.raw, NOW).raw == record.raw
    if bytes(changed) == record.raw:
        return
    for kind in (record.kind, *itertools.islice(RecordKind, 4)):
        with pytest.raises(ProofInvalid):
            roster.check(kind, bytes(changed), NOW)


def _samples(mesh: Founded) -> list[Record]:
    mesh.add("a", may_invite=True)
    mesh.add("b", by=key("a"))
    kept = list(mesh.roster.records())
    return [*kept, *mesh.roster.revoke(key("a"), key("b").public, wall=NOW + 1)]


_SAMPLE = Founded()
_SAMPLES = _samples(_SAMPLE)


def _raw(chain: Sequence[bytes]) -> bytes:
    from meshllm_core.membership.certificates import encode_chain

    return encode_chain(chain)


def test_a_membership_says_who_it_is_by(family: Founded) -> None:
    found = family.roster.membership(key("b").public)
    assert isinstance(found, Membership)
    assert found.admitted_by == key("a").public
