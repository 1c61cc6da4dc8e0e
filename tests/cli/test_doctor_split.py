"""`meshllm doctor split`: who could take a stage, why not and what to do, and what the split would be."""

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from meshllm_core.cli.doctor_machines import candidates, links, machines
from meshllm_core.errors import ExitCode
from meshllm_core.models.embedded import embedded_model
from meshllm_core.paths import Paths
from meshllm_core.state import events as ev
from meshllm_core.state import mesh_events as mesh
from meshllm_core.state import split_events as split
from meshllm_core.state.pace_events import Pace
from meshllm_core.state.reduce import reduce
from meshllm_core.state.snapshot import NodeSnapshot
from tests.api.manage.conftest import Node, running
from tests.cli.conftest import Result, command, put_record, start_events
from tests.support import splits

MIB = 1 << 20
OWN = "ab" * 32
ESCAPE = "\x1b[31m\u202e"
SMALL = 90 * MIB
"""Too little for all of SmolLM2 at a context of 512 (119 MiB), enough for half of it."""


def peer(name: str, **changes: Any) -> mesh.PeerUpdated:
    """A member that could take a stage, but for `changes`."""
    row = mesh.PeerRow(
        node=name.encode().hex().ljust(64, "7")[:64],
        name=name,
        status="alive",
        role="host",
        since=1.0,
        version="0.1.0",
        address="192.168.1.30:9440",
        path="tls",
        rtt_ms=4.0,
        rtt_source="direct",
        reach="both",
        memory_total=8192 * MIB,
        memory_free=4096 * MIB,
        memory_lent=4096 * MIB,
    )
    return mesh.PeerUpdated(at=3.0, peer=msgspec.structs.replace(row, **changes))


def begin(node: Node, *peers: mesh.PeerUpdated, lent: int = 4096 * MIB, role: Any = "host") -> None:
    """A node in a mesh with those members, that lends so much itself."""
    told: list[ev.AnyEvent] = [
        mesh.IdentityLoaded(at=1.0, node=OWN, storage="file"),
        mesh.MeshEntered(
            at=2.0,
            mesh="ef" * 32,
            name="den",
            role=role,
            founder=True,
            may_invite=True,
            port=4400,
            discovery="mdns",
        ),
        ev.MemoryMeasured(at=2.0, memory_free=4096 * MIB, memory_lent=lent),
        *peers,
    ]
    for event in told:
        node.backend.store.append(event)


@pytest.fixture
async def node(paths: Paths) -> AsyncIterator[Node]:
    """A node without a model."""
    async with running() as played:
        put_record(paths, played.url)
        played.backend.store.append(start_events(played.url)[0])
        yield played


async def ask(*arguments: str, model: str = "default") -> Result:
    return await command("doctor", "split", model, "--ctx-size", "512", "--lanes", "1", *arguments)


def rows(result: Result) -> dict[str, Any]:
    return {row["name"]: row for row in result.document["machines"]}


async def test_what_fits_on_one_machine_needs_no_split(node: Node) -> None:
    begin(node, peer("shed"))
    result = await ask("--json")
    assert (result.code, result.document["verdict"]) == (0, "alone")
    assert result.document["sentence"].endswith("fits on attic alone: no split is needed.")
    assert [row["eligible"] for row in result.document["machines"]] == [True, True]
    shown = await ask()
    assert re.search(r"^attic \(this node\) +eligible +4\.00 GiB +– +not measured +– ", shown.out, re.M)
    assert "no split needed  SmolLM2" in shown.out
    assert "Load it here: `meshllm load default`." in shown.out


async def test_what_fits_elsewhere_is_loaded_there(node: Node) -> None:
    begin(node, peer("shed"), lent=SMALL)
    result = await ask("--json")
    assert (result.code, result.document["verdict"]) == (0, "alone")
    assert "Load it on shed: `meshllm load default` there" in result.document["hint"]


async def test_a_split_is_told_with_its_stages_price_and_next_step(node: Node) -> None:
    begin(node, peer("shed", memory_lent=SMALL), peer("phone", role="client"), lent=SMALL)
    result = await ask("--json")
    assert (result.code, result.document["verdict"]) == (0, "split"), result.out
    found = rows(result)
    shed, own = found["shed"], found["attic"]
    assert (shed["layer_start"], shed["layer_end"], own["layer_end"]) == (0, own["layer_start"], 30)
    assert shed["reason"] == "stage 1 of 2"
    assert own["reason"].startswith("stage 2 of 2; it drives")
    assert (found["phone"]["eligible"], found["phone"]["layer_start"]) == (False, None)
    assert result.document["estimated_decode_network_ms_per_token"] == pytest.approx(4.0)
    assert result.document["context"] == 512
    shown = (await ask()).out
    assert "can be split  SmolLM2" in shown
    assert "2 × 2.0 ms of network per token" in shown
    assert "meshllm load default --split" in shown
    assert "phone: To let it compute" in shown


async def test_a_fresh_mesh_is_priced_by_what_was_calibrated(node: Node) -> None:
    begin(node, peer("shed", memory_lent=SMALL, weights_per_second=10**9, calibrated=True), lent=SMALL)
    pace = Pace(decode=2 * 10**9, prefill=10**10, source="calibrated")
    node.backend.store.append(ev.PaceLearned(at=3.0, pace=pace))
    result = await ask("--json")
    document = result.document
    assert (result.code, document["verdict"]) == (0, "split"), result.out
    assert {row["name"]: row["speed"] for row in document["machines"]} == {
        "shed": "calibrated",
        "attic": "calibrated",
    }
    assert "tok/s" in document["sentence"]
    assert "no machine's speed is measured" not in document["sentence"]
    assert any("calibrated on a small model" in reason for reason in document["reasons"])
    shown = (await ask()).out
    assert re.search(r"^shed .* 954 MiB/s calibrated .* 0–", shown, re.M), shown
    assert re.search(r"^attic .* 1\.86 GiB/s calibrated ", shown, re.M), shown
    # About 90 MB of weights at 1 and 2 GB a second, two links of 2 ms, two hand-overs of 1.5 ms.
    assert 50 < document["predicted_ms_per_token"] < 110


async def test_machines_that_a_split_does_not_need_stand_by(node: Node) -> None:
    peers = (peer(name, memory_lent=SMALL, rtt_ms=rtt) for name, rtt in (("shed", 4.0), ("cellar", 90.0)))
    begin(node, *peers, lent=SMALL)
    found = rows(await ask("--json"))
    assert found["shed"]["layer_start"] == 0
    assert (found["cellar"]["eligible"], found["cellar"]["layer_start"]) == (True, None)
    assert "standby" in found["cellar"]["reason"]


async def test_a_model_that_fits_nowhere_fails_the_check_with_what_is_missing(node: Node) -> None:
    begin(node, peer("shed", memory_lent=12 * MIB), lent=12 * MIB)
    result = await ask("--json")
    document = result.document
    assert (result.code, document["verdict"]) == (ExitCode.CHECK, "impossible")
    assert document["missing"]
    assert document["would_fit"]
    for row in document["machines"]:
        assert (row["eligible"], "no stage fits" in row["reason"]) == (False, True)
        assert row["hint"]
    shown = await ask()
    assert shown.code == ExitCode.CHECK
    assert "cannot run  SmolLM2" in shown.out
    assert "What would do: " in shown.out


async def test_alone_and_too_small_needs_another_machine(node: Node) -> None:
    begin(node, lent=SMALL)
    result = await ask()
    assert result.code == ExitCode.CHECK
    assert "there is no second machine" in result.out
    assert "meshllm invite" in result.out


async def test_a_coordinator_without_room_cannot_drive(node: Node) -> None:
    peers = (peer(name, memory_lent=SMALL) for name in ("shed", "cellar"))
    begin(node, *peers, lent=0)
    result = await ask("--json")
    assert (result.code, result.document["verdict"]) == (ExitCode.CHECK, "impossible")
    assert "attic, which drives it" in result.document["missing"][0]
    assert result.document["would_fit"][0] in ("load it on shed", "load it on cellar")
    assert rows(result)["attic"]["eligible"] is False


async def test_a_model_that_is_split_already_is_told_as_it_is(node: Node) -> None:
    begin(node, peer("attic", memory_lent=0), peer("desk"))
    for event in splits.ready():
        node.backend.store.append(event)
    result = await ask("--json", model=splits.MODEL)
    found = rows(result)
    assert (result.code, result.document["verdict"]) == (0, "running")
    assert (found["desk"]["layer_start"], found["desk"]["layer_end"]) == (24, 40)
    assert result.document["sentence"] == splits.SENTENCE


async def test_a_loaded_model_is_found_by_its_name(node: Node) -> None:
    begin(node, peer("shed"))
    for event in start_events(node.url)[1:]:
        node.backend.store.append(event)
    path = str(embedded_model())
    node.backend.store.append(
        ev.ModelLoadProgressed(
            at=3.5, model=node.backend.store.snapshot.models[0].id, fraction=1.0, path=path
        )
    )
    assert (await ask("--json", model="tiny")).document["verdict"] == "alone"


@pytest.mark.parametrize("model", ["nothing", "nothing/of:the_kind", "/nowhere/x.gguf"])
async def test_a_model_that_is_not_here_is_refused_with_the_next_step(node: Node, model: str) -> None:
    begin(node)
    result = await ask("--json", model=model)
    assert (result.code, result.out) == (ExitCode.MODEL, "")
    assert "meshllm models download" in result.err


async def test_a_file_that_is_no_model_is_refused(node: Node, tmp_path: Path) -> None:
    begin(node)
    broken = tmp_path / "x.gguf"
    broken.write_bytes(os.urandom(64))
    result = await ask("--json", model=str(broken))
    assert (result.code, result.out) == (ExitCode.MODEL, "")
    assert "x.gguf is not a GGUF file" in result.err


async def test_without_a_node_there_is_nobody_to_ask(paths: Paths) -> None:
    result = await ask()
    assert (result.code, result.out) == (ExitCode.NODE, "")


async def test_json_stands_after_the_inner_command(node: Node) -> None:
    result = await command("doctor", "--json", "split", "default")
    assert (result.code, result.out) == (ExitCode.USAGE, "")


def snapshot_of(*events: ev.AnyEvent) -> NodeSnapshot:
    snapshot = NodeSnapshot()
    for event in (
        start_events("http://127.0.0.1:1")[0],
        mesh.IdentityLoaded(at=1.0, node=OWN, storage="file"),
        ev.MemoryMeasured(at=2.0, memory_free=MIB, memory_lent=MIB),
        *events,
    ):
        snapshot = reduce(snapshot, event)
    return snapshot


@pytest.mark.parametrize(
    ("changes", "eligible", "reason", "hint"),
    [
        ({}, True, "", ""),
        ({"reach": "outgoing_only"}, True, "nobody reaches it, which is enough", ""),
        ({"reach": "unknown"}, True, "", ""),
        ({"status": "down"}, False, "it is down", "Start meshllm on it"),
        ({"status": "left"}, False, "it left the mesh", "meshllm invite"),
        ({"status": "suspect"}, False, "does not answer at the moment", "ten seconds"),
        ({"role": "client"}, False, "it is a client", "--role host"),
        ({"reach": "no_path"}, False, "no path to it from here", "UDP"),
        ({"address": "", "path": ""}, False, "no path to it from here", "UDP"),
        ({"version": "0.0.9"}, False, "it runs meshllm 0.0.9, this node 0.1.0", "same release"),
        ({"memory_lent": 0}, False, "it lends no memory: 4.00 GiB are free", "--max-vram"),
        ({"memory_lent": 0, "memory_free": 0}, False, "it lends no memory", "--max-vram"),
        ({"status": "down", "role": "client", "memory_lent": 0}, False, "it is down", "Start"),
    ],
)
def test_each_obstacle_has_its_words_and_its_next_step(
    changes: dict[str, Any], eligible: bool, reason: str, hint: str
) -> None:
    shed, own = candidates(snapshot_of(peer("shed", **changes)))
    assert shed.eligible is eligible
    assert reason in shed.reason
    assert hint in shed.hint
    assert bool(shed.hint) is not eligible
    assert own.eligible
    assert machines((shed, own))[0].excluded == ("" if eligible else shed.reason)


def test_machines_of_one_name_are_told_apart() -> None:
    first, second, own = candidates(
        snapshot_of(peer("attic"), peer("attic", node="cd" * 32, rtt_source="unknown", rtt_ms=0.0))
    )
    assert len({first.name, second.name, own.name}) == 3
    assert second.name == "attic cdcdcd"
    assert links((first, second, own)) == {(own.name, first.name): 4.0}


async def test_texts_of_other_machines_command_no_terminal(node: Node) -> None:
    begin(node, peer(f"sh{ESCAPE}ed", version=f"0{ESCAPE}"), lent=SMALL)
    shown = await ask()
    assert not {"\x1b", "\u202e"} & set(shown.out + shown.err)
    assert "sh\ufffd[31m\ufffded" in shown.out


def test_what_is_released_or_hosted_changes_no_candidates() -> None:
    hosted = snapshot_of(splits.hosted(), split.StageReleased(at=9.0, run="zz", reason="x"))
    assert [row.this_node for row in candidates(hosted)] == [True]
