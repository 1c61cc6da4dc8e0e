"""Joining over real sockets: how it goes well, and each way in which it does not, in its own words."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from meshllm_core.discovery.token import Endpoint, decode, encode
from meshllm_core.errors import JoinFailed
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.storage import load_or_create
from meshllm_core.membership.owner import sign_node
from meshllm_core.membership.trust import Entry
from meshllm_core.mesh.greeting import Me
from meshllm_core.paths import default_paths
from meshllm_core.state.snapshot import JoinView
from meshllm_core.wire import handshake as hs
from tests.mesh.members import Member, joined, members, until


def failed_at(view: JoinView) -> str:
    """The line that failed."""
    assert view.state == "failed", view
    return next(line.step for line in view.lines if line.status == "failed")


async def test_two_machines_join_and_see_each_other(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        began = time.monotonic()
        view = await b.join(await a.invite())
        assert view.state == "joined", view
        assert all(line.status == "passed" for line in view.lines), view.lines
        await until(lambda: a.sees(b) and b.sees(a))
        assert time.monotonic() - began < 8
        row = a.peer(b)
        assert row is not None
        assert (row.name, row.role, row.version) == ("b", "host", "0.1.0")
        await until(lambda: (a.peer(b) or row).path == "tls")
        await until(lambda: (a.peer(b) or row).reach == "both")
        assert a.snapshot.mesh is not None
        assert b.snapshot.mesh is not None
        assert a.snapshot.mesh.founder
        assert not b.snapshot.mesh.founder
        assert a.snapshot.mesh.mesh == b.snapshot.mesh.mesh
        (invite,) = a.snapshot.mesh.invites
        assert (invite.state, invite.used) == ("used_up", 1)
        await until(lambda: a.snapshot.mesh is not None and a.snapshot.mesh.invites[0].used_by == ("b",), 20)


async def test_the_third_is_known_to_the_second(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b", "c") as (a, b, c):
        await joined(a, b, c)
        view = await c.join(await a.invite()) if c.snapshot.mesh is None else None
        assert view is None
        await until(lambda: b.sees(c) and c.sees(b))
        await until(lambda: (b.peer(c) or a.peer(c)).path in ("tls", "quic"))  # type: ignore[union-attr]


async def test_six_refusals_have_six_messages(tmp_path: Path) -> None:
    """Expired, used up, revoked, other mesh, mistyped, wrong version."""
    async with members(tmp_path, "a", "b", "c") as (a, b, c):
        used = await a.invite()
        await joined_by(b, used)
        views = [await c.join(used)]

        expiring = await a.invite(expires_seconds=0.2)
        await asyncio.sleep(0.3)
        # The joiner's own clock may be behind: then the member says it.
        c.skew(-3600)
        views.append(await c.join(expiring))
        c.skew(0)

        made = await a.service.invite()
        a.service.revoke(str(made["id"]), confirm=True)
        views.append(await c.join(str(made["token"])))

        other = encode(replace(decode(await a.invite()), mesh=bytes(8)))
        views.append(await c.join(other))

        token = await a.invite()
        place = token.index("-") + 3
        wrong = "A" if token[place] != "A" else "B"
        views.append(await c.join(token[:place] + wrong + token[place + 1 :]))

        c.service.greeter.me = OldMe(**vars(c.service.greeter.me))
        views.append(await c.join(token))

        assert [failed_at(view) for view in views] == [
            *["admission"] * 4,
            "token",
            "version",
        ]
        messages = [view.message for view in views]
        for message, word in zip(
            messages, ("used", "expired", "revoked", "another mesh", "group 2", "version"), strict=True
        ):
            assert word in message, message
        assert len(set(messages)) == len(messages)
        assert all(view.hint for view in views)
        assert c.snapshot.mesh is None
        assert c.service.sockets is None


class OldMe(Me):
    """A node of a version that nobody speaks with any more."""

    def hello(self, wall: float, *, in_full: bool, observed: str = "") -> hs.Hello:
        """As a much older one."""
        hello = super().hello(wall, in_full=in_full, observed=observed)
        return hs.Hello(
            **{**{f: getattr(hello, f) for f in hello.__struct_fields__}, "protocol": 0, "oldest": 0}
        )


async def joined_by(member: Member, token: str) -> None:
    """Joins; must work."""
    view = await member.join(token)
    assert view.state == "joined", view


async def test_an_expired_invite_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        token = await a.invite(expires_seconds=60)
        b.skew(120)
        view = await b.join(token)
        assert failed_at(view) == "token"
        assert "expired on" in view.message
        assert "clock" in view.hint


async def test_nobody_answers_is_named_within_ten_seconds(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        invite = decode(await a.invite())
        nowhere = replace(invite, addresses=(Endpoint("127.0.0.1", 1), Endpoint("127.0.0.2", 9)))
        began = time.monotonic()
        view = await b.join(encode(nowhere))
        assert time.monotonic() - began < 10
        assert failed_at(view) == "address"
        assert "127.0.0.1:1" in view.message
        assert "firewall" in view.hint


async def test_another_node_at_the_address_is_named(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b", "c") as (a, b, c):
        invite = decode(await a.invite())
        elsewhere = decode(await b.invite())
        view = await c.join(encode(replace(invite, addresses=elsewhere.addresses)))
        assert failed_at(view) == "identity"
        assert "nother node" in view.message


@pytest.mark.parametrize(("hours", "joins"), [(-23.0, True), (23.0, True), (25.0, False), (-30.0, False)])
async def test_clocks_may_differ_by_a_day_and_no_more(tmp_path: Path, hours: float, joins: bool) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        # A minute is what the test itself may take.
        token = await a.invite(expires_seconds=3 * 86_400)
        b.skew(hours * 3600)
        view = await b.join(token)
        if joins:
            assert view.state == "joined", view
            await until(lambda: a.sees(b) and abs((a.peer(b) or b.peer(a)).clock_skew) > 3600)  # type: ignore[union-attr]
        else:
            assert failed_at(view) == "clock"
            assert f"{abs(hours):.0f} hours" in view.message


async def test_the_own_invite_and_a_second_mesh_are_refused(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        token = await a.invite()
        with pytest.raises(JoinFailed, match="already"):
            a.service.joiner.begin(token)
        await a.service.leave()
        view = await a.join(token)
        assert failed_at(view) == "token"
        assert "this very node" in view.message
        assert b.snapshot.mesh is None


async def test_a_client_invite_makes_a_client(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        await joined_by(b, await a.invite(role="client"))
        await until(lambda: a.sees(b))
        assert (a.peer(b) or b.peer(a)).role == "client"  # type: ignore[union-attr]
        assert b.snapshot.mesh is not None
        assert b.snapshot.mesh.role == "client"


async def test_who_is_no_member_any_more_is_told_so(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        await joined(a, b)
        a.service.revoke(b.key.public.hex(), confirm=True)
        await until(lambda: a.peer(b) is None)
        await until(lambda: b.snapshot.mesh is None)
        assert "revoked" in b.log()


async def test_an_owner_policy_refuses_in_words(tmp_path: Path) -> None:
    async with members(tmp_path, "b") as (b,), members(tmp_path, "a", trust_policy="require-owned") as (a,):
        view = await b.join(await a.invite())
        assert failed_at(view) == "admission"
        assert "owner" in view.message


async def test_an_owner_that_signs_after_a_refusal_is_heard_at_the_next_try(tmp_path: Path) -> None:
    key = load_or_create(default_paths({"MESHLLM_HOME": str(tmp_path / "b")}), use_keyring=False).key
    b = Member("b", tmp_path / "b", key=key)
    async with members(tmp_path, "a", trust_policy="require-owned") as (a,):
        token = await a.invite()
        assert (await b.join(token)).state == "failed"
        owner = SigningKey.generate()
        a.service.environment.owners.trust_owner(Entry(id=owner.public.hex()))
        raw = sign_node(owner, b.key.public, wall=time.time())
        b.service.environment.owners.install(raw, b.key.public)
        try:
            await joined_by(b, token)
        finally:
            await b.service.stop()


async def test_a_join_as_client_that_failed_makes_no_client_of_a_founder(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        made = await a.service.invite(role="client")
        a.service.revoke(str(made["id"]), confirm=True)
        assert (await b.join(str(made["token"]))).state == "failed"
        await b.invite()
        assert b.snapshot.mesh is not None
        assert b.snapshot.mesh.role == "host"


async def test_who_was_revoked_while_away_learns_it_on_coming_back(tmp_path: Path) -> None:
    async with members(tmp_path, "a", "b") as (a, b):
        await joined(a, b)
        await b.service.stop()
        await until(lambda: a.sees(b, "left"))
        a.service.revoke(b.key.public.hex(), confirm=True)
        b.service = b.make()
        await b.service.start()
        await until(lambda: b.snapshot.mesh is None)
        assert "revoked" in b.log()
        assert not b.service.environment.store.exists()
