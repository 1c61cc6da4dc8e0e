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


def _peer_named_alike() -> ev.PeerRow:
    return ev.PeerRow(node="12" * 32, name=f"sh{ESCAPE}ed", status="alive", role="host", since=1.0)


async def test_leaving_asks_and_says_what_it_means(mesh: Mesh) -> None:
    mesh.enter()
    nobody = await command("leave")
    assert (nobody.code, nobody.out, mesh.asked) == (ExitCode.USAGE, "", [])
    assert "--yes" in nobody.err
    assert "This node founded it" in nobody.err
    assert (await command("leave", stdin="yes\n")).out == "This node has left the mesh.\n"
    assert mesh.asked == [("leave", {})]
