"""Invites: each refusal has its reason and its next step; uses are counted once and never forgotten."""

from typing import Any

import pytest

from meshllm_core.errors import InvalidRequest, JoinRefused, NotPermitted, ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.membership.certificates import DAY
from meshllm_core.membership.invites import OPEN, OPEN_LIFE, Invite, invite_id, sign_invite
from meshllm_core.membership.records import Record, RecordKind
from meshllm_core.membership.roster import Admission, Roster
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Role
from tests.membership.founding import HOUR, NOW, Founded, key, secret


@pytest.fixture
def mesh() -> Founded:
    return Founded()


def invite(
    mesh: Founded,
    name: str = "x",
    *,
    by: SigningKey | None = None,
    uses: int = 1,
    expires_at: float = NOW + HOUR,
    role: Role = "host",
    may_invite: bool = False,
    wall: float = NOW,
) -> Record:
    return mesh.roster.create_invite(
        by or mesh.founder,
        secret=secret(name),
        uses=uses,
        expires_at=expires_at,
        role=role,
        may_invite=may_invite,
        wall=wall,
    )


def join(
    mesh: Founded,
    joiner: str,
    name: str = "x",
    *,
    role: Role = "host",
    wall: float = NOW,
    roster: Roster | None = None,
    by: SigningKey | None = None,
) -> Admission:
    signer = by or mesh.founder
    its = secret(name) if name else b""
    return (roster or mesh.roster).admit(signer, its, key(joiner).public, role, wall=wall, entropy=mesh.draw)


def refused(mesh: Founded, joiner: str, name: str = "x", **how: Any) -> JoinRefused:
    with pytest.raises(JoinRefused) as caught:
        join(mesh, joiner, name, **how)
    return caught.value


def test_an_invite_admits_as_often_as_it_says(mesh: Founded) -> None:
    invite(mesh, uses=2)
    for joiner in ("a", "b"):
        chain = join(mesh, joiner).chain
        assert mesh.roster.verify_chain(chain, key(joiner).public, NOW).role == "host"
    error = refused(mesh, "c")
    assert (error.reason, error.message) == (
        "used_up",
        "The invite was good for 2 times and has been used up.",
    )
    (view,) = mesh.roster.invites(NOW)
    assert (view.state, view.used, set(view.used_by)) == ("used_up", 2, {key("a").public, key("b").public})
    assert view.created_by == mesh.founder.public


def test_the_secret_is_nowhere_in_what_members_hold(mesh: Founded) -> None:
    record = invite(mesh)
    join(mesh, "a")
    assert record.subject == invite_id(secret("x"))
    assert not any(secret("x") in kept.raw for kept in mesh.roster.records())


def test_the_same_machine_twice_counts_once_and_gets_the_same(mesh: Founded) -> None:
    invite(mesh, uses=2)
    first = join(mesh, "a")
    assert join(mesh, "a").chain == first.chain
    assert join(mesh, "a", wall=NOW + 30).chain == first.chain
    assert mesh.roster.invites(NOW)[0].used == 1
    join(mesh, "b")


def test_a_used_invite_lets_nobody_else_in_with_it(mesh: Founded) -> None:
    """Who overheard a join cannot replay it under another key."""
    invite(mesh)
    join(mesh, "a")
    assert refused(mesh, "thief").reason == "used_up"
    assert mesh.roster.membership(key("thief").public) is None


def test_each_refusal_has_its_own_words(mesh: Founded) -> None:
    invite(mesh, "gone", expires_at=NOW + 60)
    invite(mesh, "used")
    join(mesh, "a", "used")
    mesh.roster.revoke(mesh.founder, invite(mesh, "withdrawn").subject, wall=NOW)
    invite(mesh, "for clients", role="client")
    errors = [
        refused(mesh, "x", "gone", wall=NOW + 60 + 3 * HOUR),
        refused(mesh, "x", "used"),
        refused(mesh, "x", "withdrawn"),
        refused(mesh, "x", "never made"),
        refused(mesh, "x", "for clients"),
        refused(mesh, "x", ""),
    ]
    assert [error.reason for error in errors] == [
        "expired",
        "used_up",
        "revoked",
        "unknown_invite",
        "role",
        "policy",
    ]
    assert len({error.message for error in errors}) == len(errors)
    assert all(error.hint for error in errors)
    assert "3 hours ago" in errors[0].message
    assert join(mesh, "x", "for clients", role="client").chain


def test_an_invite_for_hosts_admits_clients_too(mesh: Founded) -> None:
    invite(mesh, may_invite=True)
    chain = join(mesh, "a", role="client").chain
    found = mesh.roster.verify_chain(chain, key("a").public, NOW)
    assert (found.role, found.may_invite) == ("client", True)


def test_any_member_that_may_invite_admits_by_what_it_knows(mesh: Founded) -> None:
    mesh.add("a", may_invite=True)
    mesh.add("b")
    made = invite(mesh, uses=0)
    other = mesh.roster_of(key("a").public, [*mesh.roster.records()])
    admission = join(mesh, "c", roster=other, by=key("a"))
    for record in admission.records:
        mesh.roster.learn(mesh.roster.check(record.kind, record.raw, NOW), NOW)
    found = mesh.roster.membership(key("c").public)
    assert found is not None and found.admitted_by == key("a").public
    assert [view.used for view in mesh.roster.invites(NOW) if view.id == made.subject] == [1]
    with pytest.raises(JoinRefused, match="may not invite") as caught:
        join(mesh, "d", by=key("b"))
    assert caught.value.reason == "policy"


def test_two_members_that_admit_the_last_use_at_once_both_stand(mesh: Founded) -> None:
    mesh.add("a", may_invite=True)
    invite(mesh)
    other = mesh.roster_of(key("a").public, [*mesh.roster.records()])
    news = [*join(mesh, "b").records, *join(mesh, "c", roster=other, by=key("a")).records]
    for roster in (mesh.roster, other):
        for record in news:
            roster.learn(roster.check(record.kind, record.raw, NOW), NOW)
        assert {key("b").public, key("c").public} <= {m.node for m in roster.members()}
        assert [(view.state, view.used) for view in roster.invites(NOW)][-1][0] == "used_up"
        assert refused(mesh, "d", roster=roster, by=key("a")).reason == "used_up"


def test_revoking_a_member_closes_its_invites_and_the_one_by_which_it_came(mesh: Founded) -> None:
    invite(mesh, "family", uses=5, may_invite=True)
    for joiner in ("a", "b"):
        join(mesh, joiner, "family")
    invite(mesh, "of a", by=key("a"), uses=0)
    records = mesh.roster.revoke(mesh.founder, key("a").public, wall=NOW + 1)
    assert [record.kind for record in records] == [RecordKind.REVOCATION] * 2
    assert refused(mesh, "a", "family").reason == "revoked"
    assert refused(mesh, "thief", "family").reason == "revoked"
    assert refused(mesh, "thief", "of a").reason == "revoked"
    assert mesh.roster.membership(key("b").public) is not None
    assert {view.state for view in mesh.roster.invites(NOW)} == {"revoked"}


def test_a_revoked_machine_needs_an_invite_made_after_that(mesh: Founded) -> None:
    mesh.add("a")
    invite(mesh, "old", uses=0)
    mesh.roster.revoke(mesh.founder, key("a").public, wall=NOW + 1)
    error = refused(mesh, "a", "old", wall=NOW + 2)
    assert (error.reason, "was removed from the mesh" in error.message) == ("revoked", True)
    invite(mesh, "new", wall=NOW + 3)
    assert join(mesh, "a", "new", wall=NOW + 4).chain


def test_who_may_revoke_an_invite(mesh: Founded) -> None:
    for name, by in (("a", None), ("b", "a"), ("c", None)):
        mesh.add(name, by=key(by) if by else None, may_invite=True)
    made = invite(mesh, "of b", by=key("b"))
    with pytest.raises(NotPermitted, match="may not revoke"):
        mesh.roster.revoke(key("c"), made.subject, wall=NOW)
    other = mesh.roster_of(key("c").public, [*mesh.roster.records()])
    (revocation,) = mesh.roster.revoke(key("a"), made.subject, wall=NOW)
    other.learn(other.check(revocation.kind, revocation.raw, NOW), NOW)
    assert refused(mesh, "d", "of b", roster=other, by=key("c")).reason == "revoked"
    mesh.roster.revoke(mesh.root, invite(mesh, "by root", by=mesh.root).subject, wall=NOW)
    assert refused(mesh, "d", "by root").reason == "revoked"


def test_invites_survive_a_restart_and_are_forgotten_a_month_after_their_end(mesh: Founded) -> None:
    record = invite(mesh)
    join(mesh, "a")
    stored = [(kept.kind, kept.raw) for kept in mesh.roster.records()]
    again = Roster(mesh.mesh, mesh.founder.public)
    assert again.restore(stored, NOW + 20 * DAY) == []
    assert refused(mesh, "b", roster=again, wall=NOW + 20 * DAY).reason == "expired"
    dropped = again.prune(NOW + 32 * DAY).dropped
    assert record.key in dropped and again.invites(NOW + 32 * DAY) == []
    assert len(dropped) == 2, "its use goes with it"
    with pytest.raises(ProofInvalid) as caught:
        again.check(record.kind, record.raw, NOW + 32 * DAY)
    assert caught.value.reason == "expired"


def test_invites_at_the_same_time_are_counted_to_a_limit(
    mesh: Founded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INVITES", 2)
    kept = [invite(mesh, "1"), invite(mesh, "2")]
    with pytest.raises(NotPermitted, match="2 invites are open already"):
        invite(mesh, "3")
    other = mesh.roster_of(key("a").public, kept)
    body = Invite(mesh.mesh, invite_id(secret("3")), "host", False, 1, int(NOW * 1000), 0)
    with pytest.raises(ProofInvalid) as caught:
        other.check(RecordKind.INVITE, sign_invite(mesh.founder, body).raw, NOW)
    assert caught.value.reason == "full"
    later = invite(mesh, "3", wall=NOW + 2 * HOUR, expires_at=0)
    assert later.subject == invite_id(secret("3")), "those that expired do not count"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"uses": 65_536}, "uses"),
        ({"uses": -1}, "uses"),
        ({"expires_at": NOW - 1}, "expires_seconds"),
    ],
)
def test_nonsense_is_named(mesh: Founded, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        invite(mesh, **changes)
    assert caught.value.param == field
    assert mesh.roster.invites(NOW) == []


def test_a_short_secret_is_not_taken(mesh: Founded) -> None:
    with pytest.raises(InvalidRequest, match="16 bytes"):
        mesh.roster.create_invite(
            mesh.founder, secret=b"", uses=1, expires_at=0, role="host", may_invite=False, wall=NOW
        )


def test_forged_invites_are_refused(mesh: Founded) -> None:
    mesh.add("client", role="client", may_invite=True)
    mesh.add("plain")
    for signer, reason in (
        ("client", "not_permitted"),
        ("plain", "not_permitted"),
        ("nobody", "unknown_member"),
    ):
        body = Invite(mesh.mesh, invite_id(secret("f")), "host", False, 1, int(NOW * 1000), 0)
        with pytest.raises(ProofInvalid) as caught:
            mesh.roster.check(RecordKind.INVITE, sign_invite(key(signer), body).raw, NOW)
        assert caught.value.reason == reason
    future = Invite(mesh.mesh, invite_id(secret("f")), "host", False, 1, int((NOW + 30 * HOUR) * 1000), 0)
    with pytest.raises(ProofInvalid, match="30 hours") as caught:
        mesh.roster.check(RecordKind.INVITE, sign_invite(mesh.founder, future).raw, NOW)
    assert caught.value.reason == "clock"
    elsewhere = Invite(b"\1" * 32, invite_id(secret("f")), "host", False, 1, int(NOW * 1000), 0)
    with pytest.raises(ProofInvalid) as caught:
        mesh.roster.check(RecordKind.INVITE, sign_invite(mesh.founder, elsewhere).raw, NOW)
    assert caught.value.reason == "other_mesh"


def test_a_policy_can_say_no(mesh: Founded) -> None:
    mesh.roster = Roster(mesh.mesh, mesh.founder.public, policy=lambda node: "Its owner is not trusted.")
    invite(mesh, by=mesh.root)
    error = refused(mesh, "a", by=mesh.root)
    assert (error.reason, error.message) == ("policy", "Its owner is not trusted.")


def test_open_admission_lets_clients_in_up_to_its_limit(mesh: Founded) -> None:
    mesh.roster.open_admission(mesh.founder, max_clients=2, wall=NOW)
    for joiner in ("a", "b"):
        chain = join(mesh, joiner, "", role="client").chain
        found = mesh.roster.verify_chain(chain, key(joiner).public, NOW)
        assert (found.role, found.may_invite, found.expires_at) == ("client", False, NOW + OPEN_LIFE)
    view = mesh.roster.admission(NOW)
    assert view is not None and (view.used, view.uses, view.state) == (2, 2, "used_up")
    error = refused(mesh, "c", "", role="client")
    assert (error.reason, "2 visitors" in error.message) == ("full", True)
    assert refused(mesh, "d", "").reason == "full"
    assert join(mesh, "a", "", role="client", wall=NOW + 60).chain, "who has a place keeps it"
    gone = mesh.roster.admit(
        mesh.founder,
        b"",
        key("c").public,
        "client",
        wall=NOW,
        entropy=mesh.draw,
        present={key("a").public},
    )
    assert gone.chain, "who is not there takes no place"
    assert mesh.roster.invites(NOW) == [], "it is a policy, not an invite"


def test_open_admission_makes_hosts_only_where_it_says_so(mesh: Founded) -> None:
    mesh.roster.open_admission(mesh.founder, max_clients=5, wall=NOW)
    error = refused(mesh, "a", "")
    assert (error.reason, "open to clients" in error.message) == ("role", True)
    mesh.roster.open_admission(mesh.founder, max_clients=5, role="host", wall=NOW)
    assert join(mesh, "a", "").chain
    assert mesh.roster.membership(mesh.founder.public) is not None


def test_open_admission_takes_nothing_from_those_who_have_more(mesh: Founded) -> None:
    mesh.add("a", may_invite=True)
    mesh.roster.open_admission(mesh.founder, max_clients=5, wall=NOW)
    chain = join(mesh, "a", "", role="client").chain
    assert mesh.roster.verify_chain(chain, key("a").public, NOW).may_invite
    view = mesh.roster.admission(NOW)
    assert view is not None and view.used == 0


def test_a_mesh_is_closed_and_opened_again_and_old_news_does_not_open_it(mesh: Founded) -> None:
    opened = mesh.roster.open_admission(mesh.founder, max_clients=5, wall=NOW)
    join(mesh, "a", "", role="client")
    (closed,) = mesh.roster.close_admission(mesh.founder, wall=NOW + 1)
    assert (
        mesh.roster.admission(NOW + 1) is None and mesh.roster.close_admission(mesh.founder, wall=NOW) == []
    )
    assert refused(mesh, "b", "", role="client").reason == "policy"
    other = mesh.roster_of(key("x").public, [closed, opened])
    assert other.admission(NOW + 1) is None
    mesh.roster.prune(NOW + 400 * DAY)
    mesh.roster.learn(mesh.roster.check(opened.kind, opened.raw, NOW + 400 * DAY), NOW + 400 * DAY)
    assert mesh.roster.admission(NOW + 400 * DAY) is None
    again = mesh.roster.open_admission(mesh.founder, max_clients=5, wall=NOW + 1)
    assert again.version > opened.version
    assert join(mesh, "b", "", role="client", wall=NOW + 2).chain


def test_a_visitor_is_renewed_while_the_mesh_is_open(mesh: Founded) -> None:
    mesh.roster.open_admission(mesh.founder, max_clients=1, wall=NOW)
    join(mesh, "a", "", role="client")
    late = NOW + OPEN_LIFE - 6 * HOUR
    assert mesh.roster.renewal_due(late) == [key("a").public]
    records = mesh.roster.renew(mesh.founder, key("a").public, wall=late, entropy=mesh.draw)
    assert [record.kind for record in records] == [RecordKind.MEMBERSHIP, RecordKind.INVITE_USE]
    assert mesh.roster.prune(NOW + 10 * DAY).dropped == ()
    assert refused(mesh, "b", "", role="client", wall=NOW + 10 * DAY).reason == "full"
    mesh.roster.close_admission(mesh.founder, wall=NOW + 10 * DAY)
    assert mesh.roster.renewal_due(late + OPEN_LIFE - 6 * HOUR) == []
    assert mesh.roster.prune(late + OPEN_LIFE + 3 * DAY).ended == (key("a").public,)


def test_a_visitor_that_was_removed_stays_out(mesh: Founded) -> None:
    mesh.roster.open_admission(mesh.founder, max_clients=5, wall=NOW)
    join(mesh, "a", "", role="client")
    records = mesh.roster.revoke(mesh.founder, key("a").public, wall=NOW + 1)
    assert len(records) == 1, "the mesh stays open to others"
    assert refused(mesh, "a", "", role="client", wall=NOW + 2).reason == "revoked"
    assert join(mesh, "b", "", role="client", wall=NOW + 2).chain


def test_a_mesh_that_another_opened_is_closed_only_from_above(mesh: Founded) -> None:
    mesh.add("a", may_invite=True)
    mesh.add("b", may_invite=True)
    mesh.roster.open_admission(key("a"), max_clients=5, wall=NOW)
    with pytest.raises(NotPermitted, match="may not revoke"):
        mesh.roster.close_admission(key("b"), wall=NOW)
    assert mesh.roster.admission(NOW) is not None
    mesh.roster.close_admission(mesh.founder, wall=NOW)
    assert mesh.roster.admission(NOW) is None
    assert invite_id(b"") == OPEN
