"""`meshllm discover` against a real relay, and `meshllm public` against a node that the test plays."""

import asyncio
import os
import stat
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from meshllm_core.discovery.listing import build, identifier
from meshllm_core.errors import ExitCode
from meshllm_core.identity.keys import SigningKey
from meshllm_core.paths import Paths
from meshllm_core.state import mesh_events as ev
from meshllm_core.transport.nostr import NostrBoard
from tests.api.manage.conftest import Node
from tests.cli.conftest import Result, command, write_config
from tests.discovery.test_listing import sample
from tests.support.relay import relay

NOBODY = "ws://127.0.0.1:1"


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with relay() as running:
        yield running


async def put_up(url: str, folder: Path, number: int, **changes: object) -> None:
    """A valid listing by a key of its own."""
    now = int(time.time())
    listing = sample(mesh=f"{number:064x}", issued_at=now, expires_at=now + 100, **changes)
    board = NostrBoard([url], key_file=folder / f"key{number}")
    content = build(SigningKey(bytes([number]) * 32), listing)
    assert await board.publish(content, identifier(listing.mesh), now + 100) == {url: ""}
    await board.close()


async def test_meshes_are_listed(url: str, tmp_path: Path) -> None:
    await put_up(url, tmp_path, 1, name="Attic", models=("a", "b", "c", "d", "e"))
    await put_up(url, tmp_path, 2, name="[red]Cellar[/]", region="us", max_clients=0)
    shown = await command("discover", "--relay", url)
    assert (shown.code, shown.err.splitlines()[0]) == (0, "Asking 1 Nostr relay …")
    heads, *rows = shown.out.splitlines()
    assert heads.split() == ["NAME", "REGION", "MODELS", "MEMBERS", "FREE", "MEMORY", "VERSION"]
    attic = next(row for row in rows if row.startswith("Attic"))
    assert "a, b, c +2" in attic
    assert attic.split()[-5:] == ["3", "7", "24.0", "GiB", "0.1.0"]
    assert any(row.startswith("[red]Cellar[/]") and " any " in row for row in rows)
    assert "prompts you would post" in shown.err


async def test_json_is_one_document(url: str, tmp_path: Path) -> None:
    await put_up(url, tmp_path, 1)
    await put_up(url, tmp_path, 2, name="Full", clients=8)
    document = (await command("discover", "--relay", url, "--relay", NOBODY, "--json")).document
    (mesh,) = document["meshes"]
    assert (mesh["name"], mesh["free_slots"], mesh["round_trip_ms"]) == ("Attic", 7, None)
    assert mesh["models"] == ["qwen3-8b", "smollm2"]
    assert document["left_out"][0]["why"] == "it is full: 8 of 8 clients"
    assert document["relays"][url] == ""
    assert "refused" in document["relays"][NOBODY]


@pytest.mark.parametrize(
    ("option", "value", "kept"),
    [
        ("--model", "llama", ["Cellar"]),
        ("--region", "EU", ["Attic"]),
        ("--min-vram", "30", ["Cellar"]),
        ("--name", "attic", ["Attic"]),
        ("--min-vram", "300", []),
    ],
)
async def test_filters(url: str, tmp_path: Path, option: str, value: str, kept: list[str]) -> None:
    await put_up(url, tmp_path, 1, name="Attic", region="eu")
    await put_up(url, tmp_path, 2, name="Cellar", region="us", models=("Llama",), vram_total=40_000_000_000)
    document = (await command("discover", "--relay", url, option, value, "--json")).document
    assert [mesh["name"] for mesh in document["meshes"]] == kept
    assert len(document["left_out"]) == 2 - len(kept)
    if not kept:
        shown = await command("discover", "--relay", url, option, value)
        assert shown.out == "No public mesh that is listed now fits.\n"
        assert "left out: Cellar: 40 GB of accelerator memory, 300 are wanted" in shown.err


async def test_distance_is_measured_when_asked(url: str, tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await put_up(url, tmp_path, 1, name="near", addresses=("127.0.0.1:1", f"127.0.0.1:{port}"))
    await put_up(url, tmp_path, 2, name="dead", addresses=("127.0.0.1:1",))
    shown = await command("discover", "--relay", url, "--probe")
    server.close()
    await server.wait_closed()
    (row,) = shown.out.splitlines()[1:]
    assert row.startswith("near")
    assert row.endswith(" ms")
    assert "left out: dead: it does not answer" in shown.err


async def test_nothing_found_says_who_answered(url: str) -> None:
    shown = await command("discover", "--relay", url)
    assert (shown.code, shown.out) == (0, f"No public mesh is listed now; 1 of 1 relays answered ({url}).\n")
    document = (await command("discover", "--relay", url, "--json")).document
    assert document == {"relays": {url: ""}, "refused": {}, "meshes": [], "left_out": []}


async def test_no_relay_at_all_is_an_error() -> None:
    shown = await command("discover", "--relay", NOBODY, "--json")
    assert (shown.code, shown.out) == (ExitCode.MESH, "")
    assert f"No Nostr relay could be asked. {NOBODY}: Connection refused" in shown.err
    assert "--relay" in shown.err


async def test_what_is_no_relay_is_a_wrong_command_line() -> None:
    shown = await command("discover", "--relay", "nonsense")
    assert (shown.code, shown.out) == (ExitCode.USAGE, "")
    assert "'nonsense' is not the address of a Nostr relay" in shown.err


async def test_the_relays_of_the_configuration_are_asked(url: str, paths: Paths, tmp_path: Path) -> None:
    write_config(paths, f'nostr_relays = ["{url}"]\n')
    await put_up(url, tmp_path, 1)
    assert "Attic" in (await command("discover")).out


async def test_a_listing_cannot_command_the_terminal(url: str, tmp_path: Path) -> None:
    await put_up(url, tmp_path, 1, name="\x1b[2Jx\u202e", region="\x07", models=("ok", "\x1b]0;t\x07"))
    for arguments in (("--json",), ()):
        shown = await command("discover", "--relay", url, *arguments)
        assert not {"\x1b", "\x07", "\u202e"} & set(shown.out + shown.err)


def entered(node: Node) -> None:
    node.backend.store.append(
        ev.MeshEntered(
            at=4.0,
            mesh="ab" * 32,
            name="Attic",
            role="host",
            founder=True,
            may_invite=True,
            port=4400,
            discovery="nostr",
        )
    )
    node.backend.store.append(ev.AddressesChanged(at=4.0, addresses=("192.168.1.20:4400",), left_out=()))


def publication(node: Node, state: ev.Publication, detail: str) -> None:
    node.backend.store.append(ev.PublicationChanged(at=5.0, publication=state, detail=detail))


async def asked(node: Node) -> None:
    async with asyncio.timeout(10):
        while not node.backend.asked:  # noqa: ASYNC110 - the backend has nothing to wait for
            await asyncio.sleep(0.01)


async def test_on_says_what_it_means_and_wants_a_yes(node: Node) -> None:
    entered(node)
    shown = await command("public", "on", "--max-clients", "3")
    assert (shown.code, shown.out) == (ExitCode.USAGE, "")
    for words in ("192.168.1.20:4400", "anybody, without an invite, at most 3", "post in public", "--yes"):
        assert words in shown.err
    assert node.backend.asked == []
    no = await command("public", "on", stdin="n\n")
    assert (no.code, no.out, node.backend.asked) == (ExitCode.INTERRUPTED, "", [])


async def test_on_waits_until_it_is_public(node: Node) -> None:
    entered(node)
    publication(node, "publish_failed", "an old failure")
    running = asyncio.create_task(command("public", "on", "--yes", "--region", "eu", "--name", "Attic"))
    await asked(node)
    publication(node, "publishing", "It is listed once a model is ready.")
    await asyncio.sleep(0.1)
    publication(node, "public", "Listed on 3 of 5 relays.")
    shown = await running
    assert node.backend.asked == [("public", {"on": True, "name": "Attic", "region": "eu"})]
    assert (shown.code, shown.out) == (0, "The mesh is public. Listed on 3 of 5 relays.\n")
    assert "It is listed once a model is ready." in shown.err


async def test_on_fails_with_the_words_of_the_relays(node: Node) -> None:
    entered(node)
    running = asyncio.create_task(command("public", "on", "--yes"))
    await asked(node)
    publication(node, "publish_failed", "No relay took the listing. wss://a: blocked.")
    shown = await running
    assert (shown.code, shown.out) == (ExitCode.MESH, "")
    assert "wss://a: blocked" in shown.err
    assert "goes on trying" in shown.err


async def test_off_and_status(node: Node) -> None:
    assert (await command("public", "status")).out == "private: this node is in no mesh.\n"
    entered(node)
    publication(node, "public", "Listed on 1 of 1 relays.\x1b[0m")
    shown = await command("public", "status")
    assert shown.out.startswith("public: Listed on 1 of 1 relays.")
    assert "\x1b" not in shown.out
    assert (await command("public", "status", "--json")).document["publication"] == "public"
    assert (await command("public", "off", "--json")).document == {"publication": "private", "detail": ""}
    assert node.backend.asked == [("public", {"on": False})]


async def test_on_without_waiting(node: Node) -> None:
    entered(node)
    shown = await command("public", "on", "--yes", "--no-wait", "--json")
    assert shown.document == {"publication": "publishing", "detail": ""}


@pytest.mark.parametrize("arguments", [("on", "--yes"), ("off",), ("status",)])
async def test_without_a_node(arguments: tuple[str, ...]) -> None:
    shown = await command("public", *arguments)
    assert (shown.code, shown.out) == (ExitCode.NODE, "")


def test_rotate_key_makes_a_private_file_and_needs_no_node(
    meshllm: Callable[..., Result], paths: Paths
) -> None:
    file = Path(meshllm("public", "rotate-key", "--json").document["file"])
    before = file.read_text()
    shown = meshllm("public", "rotate-key")
    after = file.read_text()
    assert before != after
    assert after.strip() not in shown.out + shown.err
    assert [entry.name for entry in paths.data.iterdir()] == ["nostr.key"]
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
