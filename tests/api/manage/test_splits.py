"""What the status tells of split models and hosted stages, and what `load` takes for them."""

import json
from pathlib import Path

import pytest

from meshllm_core.api.manage_status import status_of
from meshllm_core.errors import InvalidRequest
from meshllm_core.state import mesh_events as mesh
from meshllm_core.state import split_events as split
from tests.api.manage.conftest import Node
from tests.api.manage.test_reading import READY, STARTED
from tests.support import splits

GOLDEN = Path(__file__).with_name("golden_split_status.json")


async def test_every_stage_of_a_split_and_every_hosted_one_has_a_row(node: Node) -> None:
    store = node.backend.store
    store.append(STARTED)
    store.append(mesh.IdentityLoaded(at=5.0, node="c0" * 32, storage="file"))
    for event in splits.under_way():
        store.append(event)
    store.append(splits.hosted(state="fetching", bytes_done=5, bytes_total=9, pid=0, memory_measured=0))
    runtime = (await node.http.get("/api/status")).json()["runtime"]
    shown = {name: runtime[name] for name in ("stages", "splits")}
    assert json.dumps(shown, indent=2) + "\n" == GOLDEN.read_text(encoding="utf-8")


async def test_a_whole_model_has_no_fields_of_a_split(node: Node) -> None:
    for event in (*splits.under_way()[:1], READY):
        node.backend.store.append(event)
    (stage,) = (await node.client.status()).runtime.stages
    assert (stage.kind, stage.state) == ("whole", "requested")
    document = (await node.http.get("/api/status")).json()["runtime"]
    assert document["splits"] == []
    assert not {"run_id", "wire_dtype", "rtt_ms", "coordinator"} & set(document["stages"][0])


@pytest.mark.parametrize(
    ("target", "predicted", "network", "met"),
    [
        (0.0, 20.0, 10.0, None),
        (33.3, 20.0, 10.0, True),
        (33.3, 33.4, 10.0, False),
        (33.3, 0.0, 40.0, False),
        (33.3, 0.0, 10.0, None),
        (33.3, 0.0, 0.0, None),
    ],
)
async def test_the_target_is_met_missed_or_not_known(
    node: Node, target: float, predicted: float, network: float, met: bool | None
) -> None:
    plan = splits.planned(target_ms=target, predicted_ms_per_token=predicted, network_ms_per_token=network)
    for event in (splits.under_way()[0], plan):
        node.backend.store.append(event)
    (shown,) = (await node.client.status()).runtime.splits
    assert shown.decode_tpot_target_met is met
    assert shown.decode_tpot_target_ms == (target or None)
    assert shown.estimated_decode_network_ms_per_token == (network or None)
    assert shown.predicted_ms_per_token == (predicted or None)


async def test_what_was_measured_is_summed_once_all_is_known(node: Node) -> None:
    store = node.backend.store
    for event in splits.under_way():
        store.append(event)
    before = status_of(store.snapshot).runtime.splits[0]
    assert (before.stages_ready, before.measured_compute_ms_per_token) == (1, None)
    for event in splits.ready():
        store.append(event)
    after = status_of(store.snapshot).runtime.splits[0]
    assert (after.stages_ready, after.stage_count) == (3, 3)
    assert after.measured_compute_ms_per_token == pytest.approx(5.5)


async def test_a_failed_stage_says_why(node: Node) -> None:
    for event in (*splits.under_way(), splits.stage(splits.DESK, state="failed", detail="its disk is full")):
        node.backend.store.append(event)
    stage = (await node.client.status()).runtime.stages[1]
    assert (stage.state, stage.error, stage.detail) == ("failed", "its disk is full", "its disk is full")


async def test_a_node_that_only_computes_for_others_says_so(node: Node) -> None:
    node.backend.store.append(STARTED)
    node.backend.store.append(splits.hosted())
    status = await node.client.status()
    assert status.node_status == "Running; computes 1 stage of other machines' models"
    assert status.models == ()
    node.backend.store.append(split.StageReleased(at=9.0, run="a1" * 8, reason="the model was unloaded"))
    assert (await node.client.status()).node_status == "Running; no model is loaded"


async def test_the_shape_is_documented(node: Node) -> None:
    schemas = (await node.http.get("/openapi.json")).json()["components"]["schemas"]
    assert "estimated_decode_network_ms_per_token" in schemas["SplitStatus"]["properties"]
    assert "milliseconds per decoded token" in schemas["StageStatus"]["description"]
    assert "wire_verdict" not in schemas["StageStatus"]["required"]
    assert set(schemas["LoadArguments"]["properties"]) >= {"split", "wire_dtype", "split_topology_lock"}
    assert "decode_tpot_target_met" in (await node.http.get("/docs")).text


async def test_load_passes_on_what_a_split_needs(node: Node) -> None:
    given = {"model": "m", "split": True, "wire_dtype": "q8x", "split_topology_lock": "/home/user/lock.json"}
    await node.client.act("load", **given)
    await node.client.act("load", model="m")
    assert node.backend.asked == [("load", given), ("load", {"model": "m"})]


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"split": "yes"}, "split", "split"),
        ({"split": True, "wire_dtype": "f8"}, "wire_dtype", "f8"),
        ({"split": True, "split_topology_lock": ""}, "split_topology_lock", "length"),
        ({"split": True, "split_topology_lock": "a\x1bb"}, "split_topology_lock", "matching"),
        ({"split": True, "split_topology_lock": "a" * 4097}, "split_topology_lock", "length"),
        ({"wire_dtype": "f16"}, "wire_dtype", "only where `split`"),
        ({"split": False, "split_topology_lock": "x"}, "split_topology_lock", "only where `split`"),
    ],
)
async def test_load_refuses_by_the_name_of_the_field(
    node: Node, body: dict[str, object], field: str, words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        await node.client.act("load", model="m", **body)
    assert caught.value.param == field
    assert node.backend.asked == []
