"""`meshllm members`, `invites`, `revoke` and `leave`, against a node that the test plays."""

from collections.abc import AsyncIterator

import pytest

from meshllm_core.errors import ExitCode
from meshllm_core.paths import Paths
from meshllm_core.state import mesh_events as ev
from tests.cli.conftest import command, playing
from tests.cli.mesh_stub import ESCAPE, OTHER, OWN, Mesh


@pytest.fixture
async def mesh(paths: Paths) -> AsyncIterator[Mesh]:
    async with playing(paths) as node:
        yield Mesh(node)


async def test_members_are_listed_with_how_they_are_reached(mesh: Mesh) -> None:
    mesh.enter()
    result = await command("members")
    heads, own, other, _, detail = result.out.splitlines()
    assert heads.split()[:3] == ["NAME", "ID", "STATUS"]
    assert own.startswith("attic (this node)  ababababab  there")
    assert "tiny" in own
    for word in ("sh\ufffd[31med", "cdcdcdcdcd", "does not answer", "client", "1.2 ms", "tls", "0.2.0"):
        assert word in other
    assert "it reaches us only" in other
    assert "verified 3fa9" in other
    assert detail == "sh\ufffd[31med: Its clock is two hours behind."
    document = (await command("members", "--json")).document
    assert (document["mesh"]["name"], document["node"], document["peers"][0]["node"]) == ("den", OWN, OTHER)


async def test_invites_are_listed(mesh: Mesh) -> None:
    mesh.enter()
    line = (await command("invites")).out.splitlines()[1]
    assert line.split() == [
        *("0011223344", "open", "client", "1", "of", "any", "number", "never", "this", "node"),
        "sh\ufffd[31med",
    ]
    assert (await command("invites", "--json")).document["invites"][0]["id"] == "0011223344"


async def test_the_status_tells_of_the_mesh_and_of_what_was_refused(mesh: Mesh) -> None:
    assert "mesh " not in (await command("status")).out
    mesh.enter()
    mesh.store.append(
        ev.RefusalCounted(at=5.0, kind="wrong key", count=3, detail=f"from 10.0.0.9{ESCAPE}\u202e")
    )
    mesh.store.append(ev.ReachMeasured(at=6.0, accepts_udp=False, accepts_tcp=False))
    shown = (await command("status")).out
    assert "den (efefefefef), as host; 0 of 1 others there" in shown
    assert "others do not reach this node" in shown
    assert "REFUSED FROM OUTSIDE  TIMES  LAST\nwrong key                 3  from 10.0.0.9" in shown
    assert not {"\x1b", "\u202e"} & set(shown)


@pytest.mark.parametrize("arguments", [("members",), ("invites",), ("revoke", "abcdef"), ("leave", "--yes")])
async def test_a_node_by_itself_has_none_of_it(mesh: Mesh, arguments: tuple[str, ...]) -> None:
    result = await command(*arguments, "--json")
    assert (result.code, result.out, mesh.asked) == (ExitCode.MESH, "", [])
    assert "meshllm invite" in result.err


async def test_revoking_asks_with_the_list_of_who_goes(mesh: Mesh) -> None:
    mesh.enter()
    refused = await command("revoke", "cdcdcd", stdin="n\n")
    assert (refused.code, refused.out) == (ExitCode.INTERRUPTED, "")
    assert "attic, shed" in refused.err
    assert mesh.asked == [("revoke", {"target": "cdcdcd"})]
    agreed = await command("revoke", "cdcdcd", stdin="y\n")
    assert (agreed.code, agreed.out) == (0, "Revoked: attic, shed.\n")
    assert mesh.asked[-1] == ("revoke", {"target": "cdcdcd", "confirm": True})


async def test_a_member_may_be_named(mesh: Mesh) -> None:
    mesh.enter()
    result = await command("revoke", f"SH{ESCAPE}ed", "--yes", "--json")
    assert result.document == {"revoked": ["attic", "shed"], "done": True}
    assert mesh.asked == [("revoke", {"target": OTHER, "confirm": True})]
    mesh.store.append(ev.PeerUpdated(at=5.0, peer=_peer_named_alike()))
    several = await command("revoke", f"sh{ESCAPE}ed", "--yes")
    assert (several.code, "2 members" in several.err) == (ExitCode.USAGE, True)


async def test_this_node_counts_among_those_that_are_called_alike(mesh: Mesh) -> None:
    mesh.enter()
    assert (await command("revoke", "attic", "--yes", "--json")).code == 0
    assert mesh.asked == [("revoke", {"target": OWN, "confirm": True})]
    mesh.store.append(ev.PeerUpdated(at=5.0, peer=_peer_named_alike("Attic")))
    several = await command("revoke", "attic", "--yes")
    assert (several.code, several.out, len(mesh.asked)) == (ExitCode.USAGE, "", 1)
    assert OWN[:10] in several.err


@pytest.mark.parametrize("given", [OWN[:6], OTHER[:8], "0011223344"])
async def test_no_machine_can_call_itself_by_the_id_of_another(mesh: Mesh, given: str) -> None:
    mesh.enter()
    mesh.store.append(ev.PeerUpdated(at=5.0, peer=_peer_named_alike(given)))
    await command("revoke", given.upper(), "--yes")
    assert mesh.asked == [("revoke", {"target": given.upper(), "confirm": True})]


async def test_to_take_an_invite_back_is_no_question_of_machines(mesh: Mesh) -> None:
    mesh.enter()
    mesh.gone = ["0011223344"]
    refused = await command("revoke", "001122", stdin="n\n")
    assert (refused.code, refused.out) == (ExitCode.INTERRUPTED, "")
    assert "who came by it stays" in refused.err


def _peer_named_alike(name: str = f"sh{ESCAPE}ed") -> ev.PeerRow:
    return ev.PeerRow(node="12" * 32, name=name, status="alive", role="host", since=1.0)


async def test_leaving_asks_and_says_what_it_means(mesh: Mesh) -> None:
    mesh.enter()
    nobody = await command("leave")
    assert (nobody.code, nobody.out, mesh.asked) == (ExitCode.USAGE, "", [])
    assert "--yes" in nobody.err
    assert "This node founded it" in nobody.err
    assert (await command("leave", stdin="yes\n")).out == "This node has left the mesh.\n"
    assert mesh.asked == [("leave", {})]
