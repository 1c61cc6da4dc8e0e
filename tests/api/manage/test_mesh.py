"""The mesh in the documents and in the actions."""

import json
import logging
from typing import Literal

import msgspec
import pytest

from meshllm_core.api.client import ManagementClient
from meshllm_core.api.schema import InviteAnswer
from meshllm_core.errors import InvalidRequest, JoinRefused, NodeError
from meshllm_core.state import events as ev
from meshllm_core.state import mesh_events as mesh
from tests.api.manage.conftest import TOKEN, Node
from tests.api.manage.test_reading import MODEL, READY, STARTED

SECRET = "MESHLLM:ABCD-EFGH-IJKL"
ENTERED = mesh.MeshEntered(
    at=8.0,
    mesh="ab" * 32,
    name="home",
    role="host",
    founder=True,
    may_invite=True,
    port=9440,
    discovery="mdns",
)


def model(name: str, status: Literal["loading", "ready"] = "ready") -> mesh.PeerModel:
    return mesh.PeerModel(
        id=name,
        status=status,
        architecture="llama",
        parameters=1,
        context=2048,
        lanes=4,
        chat=True,
        embeddings=False,
        decode_tokens_per_second=1.0,
        active=0,
        queued=0,
    )


def peer(name: str = "cellar", status: mesh.PeerStatus = "alive", path: Literal["", "tls"] = "tls") -> object:
    row = mesh.PeerRow(
        node=name.encode().hex().ljust(64, "0"),
        name=name,
        status=status,
        role="host",
        since=9.0,
        version="0.1.0",
        address="192.168.1.7:9440" if path else "",
        path=path,
        rtt_ms=1.5,
        rtt_source="direct",
        reach="both",
        memory_total=8 * 10**9,
        memory_free=4 * 10**9,
        devices=("CUDA0 RTX 3060",),
        models=(model("tiny"), model("large"), model("slow", "loading")),
        admitted_by="ab" * 32,
    )
    return mesh.PeerUpdated(at=9.0, peer=row)


def enter(node: Node, *then: object) -> None:
    for event in (STARTED, ev.ModelRequested(at=6.0, model=MODEL, ref="default"), READY, ENTERED, *then):
        node.backend.store.append(event)  # type: ignore[arg-type]


async def test_the_status_of_a_member(node: Node) -> None:
    invite = mesh.InviteRow(
        id="0123456789",
        role="client",
        uses=1,
        used=0,
        created_at=1.0,
        expires_at=99.0,
        created_by="aa",
        state="open",
    )
    enter(
        node,
        mesh.IdentityLoaded(at=8.0, node="cd" * 32, storage="keyring"),
        mesh.AddressesChanged(
            at=8.1, addresses=("192.168.1.5:9440",), left_out=("172.17.0.1 on docker0: x",)
        ),
        mesh.ReachMeasured(at=8.2, accepts_udp=True, accepts_tcp=False),
        mesh.InvitesChanged(at=8.3, invites=(invite,)),
        mesh.PublicationChanged(at=8.4, publication="publish_failed", detail="no relay answered"),
        mesh.RefusalCounted(at=8.5, kind="wrong key", count=3, detail="192.168.1.66 has another key"),
        peer(),
    )
    status = await node.client.status()
    assert (status.node_id, status.mesh_id, status.mesh_name) == ("cd" * 32, "ab" * 32, "home")
    assert (status.mesh_role, status.is_host, status.is_client) == ("host", True, False)
    assert (status.mesh_discovery_mode, status.first_joined_mesh_ts) == ("mdns", 8.0)
    assert (status.publication_state, status.publication_detail) == ("publish_failed", "no relay answered")
    assert status.my_addresses == ("192.168.1.5:9440",)
    assert status.my_addresses_left_out == ("172.17.0.1 on docker0: x",)
    assert (status.accepts_udp, status.accepts_tcp) == (True, False)
    assert status.serving_models == ("tiny",)
    assert status.available_models == ("tiny", "large")
    assert status.invites == (invite,)
    assert (status.refusals[0].kind, status.refusals[0].count) == ("wrong key", 3)
    (other,) = status.peers
    assert (other.name, other.state, other.path, other.latency_source) == ("cellar", "alive", "tls", "direct")
    assert (other.models, other.serving_models) == (("tiny", "large", "slow"), ("tiny", "large"))
    assert (other.vram_gb, other.gpus, other.reach) == (8.0, ("CUDA0 RTX 3060",), "both")


async def test_a_client_is_no_host(node: Node) -> None:
    enter(node, msgspec.structs.replace(ENTERED, role="client"))
    status = await node.client.status()
    assert (status.is_host, status.is_client) == (False, True)


@pytest.mark.parametrize(
    ("then", "words"),
    [
        ((), "connected"),
        ((peer(),), "connected"),
        ((peer(status="suspect"),), "connected"),
        ((peer(path=""),), "disconnected"),
        ((peer(status="down"), peer("attic", "left")), "disconnected"),
        ((peer("attic", "left"),), "connected"),
        ((peer(status="down"), peer("attic")), "connected"),
        ((peer(), mesh.MeshLeft(at=10.0, reason="asked")), "standalone"),
    ],
)
async def test_health_tells_how_the_node_stands_to_others(
    node: Node, then: tuple[object, ...], words: str
) -> None:
    assert (await node.client.health()).mesh.status == "standalone"
    enter(node, *then)
    assert (await node.client.health()).mesh.status == words


async def test_models_of_a_node_without_a_link_are_not_available(node: Node) -> None:
    enter(node, peer(path=""))
    assert (await node.client.status()).available_models == ("tiny",)


@pytest.mark.parametrize(
    ("name", "body", "arguments"),
    [
        ("invite", "{}", {}),
        (
            "invite",
            '{"uses":3,"expires_seconds":3600,"role":"client","may_invite":false}',
            {"uses": 3, "expires_seconds": 3600.0, "role": "client", "may_invite": False},
        ),
        ("join", f'{{"token":"{SECRET}\\n"}}', {"token": SECRET + "\n"}),
        ("leave", "", {}),
        ("revoke", '{"target":"attic"}', {"target": "attic"}),
        ("revoke", '{"target":"attic","confirm":true}', {"target": "attic", "confirm": True}),
        ("public", '{"on":false}', {"on": False}),
        (
            "public",
            '{"on":true,"name":"home","region":"","max_clients":4}',
            {"on": True, "name": "home", "region": "", "max_clients": 4},
        ),
        ("forget", '{"node":"abcd"}', {"node": "abcd"}),
    ],
)
async def test_actions_reach_the_node(node: Node, name: str, body: str, arguments: dict[str, object]) -> None:
    assert (await node.post(f"/api/actions/{name}", body)).status_code == 200
    assert node.backend.asked == [(name, arguments)]


@pytest.mark.parametrize(
    ("name", "body", "param"),
    [
        ("invite", '{"uses":-1}', "uses"),
        ("invite", '{"expires_seconds":0}', "expires_seconds"),
        ("invite", '{"expires_seconds":1e300}', "expires_seconds"),
        ("invite", '{"role":"root"}', "role"),
        ("join", "{}", "token"),
        ("join", '{"token":""}', "token"),
        ("revoke", '{"target":"a\\u001bb"}', "target"),
        ("public", '{"on":"yes"}', "on"),
        ("public", '{"on":true,"name":"' + "x" * 65 + '"}', "name"),
        ("public", '{"on":true,"max_clients":0}', "max_clients"),
        ("forget", '{"node":"' + "a" * 257 + '"}', "node"),
        ("new_identity", "{}", None),
    ],
)
async def test_wrong_arguments_are_named(node: Node, name: str, body: str, param: str | None) -> None:
    answer = await node.post(f"/api/actions/{name}", body)
    assert answer.status_code == (404 if name == "new_identity" else 400)
    assert answer.json()["error"]["param"] == param
    assert node.backend.asked == []


async def test_a_token_stands_in_no_log_and_in_no_refusal(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    enter(node)
    long = SECRET + "A" * 1024
    for body in (
        {"token": long},
        {"token": [SECRET]},
        {"token": SECRET, "more": SECRET},
        {"token": SECRET},
    ):
        answer = await node.post("/api/actions/join", json.dumps(body))
        assert SECRET not in answer.text
    node.fail_with(JoinRefused("The invite ran out.", reason="expired", hint="Ask for a new one."))
    with pytest.raises(JoinRefused, match="ran out"):
        await node.client.join(SECRET)
    logged = [str(record.msg) + str(record.args) for record in caplog.records]
    assert not [line for line in logged if SECRET in line]
    status = await node.http.get("/api/status")
    snapshot = await node.http.get("/api/snapshot")
    assert SECRET not in status.text + snapshot.text
    assert '"token"' not in status.text


async def test_the_typed_client_asks_and_reads(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[str, dict[str, object]] = {
        "invite": {"token": SECRET, "id": "0123456789", "role": "host", "uses": 1, "expires_at": 5.0},
        "revoke": {"revoked": ["attic", "shed"]},
    }

    async def act(name: str, arguments: dict[str, object]) -> dict[str, object]:
        node.backend.asked.append((name, arguments))
        return answers.get(name, {})

    monkeypatch.setattr(node.backend, "act", act)
    made = await node.client.invite(uses=1)
    assert made == InviteAnswer(token=SECRET, id="0123456789", role="host", uses=1, expires_at=5.0)
    assert await node.client.revoke("attic", confirm=True) == ("attic", "shed")
    await node.client.public(True, name="home")
    await node.client.forget("attic")
    await node.client.leave()
    assert node.backend.asked == [
        ("invite", {"uses": 1}),
        ("revoke", {"target": "attic", "confirm": True}),
        ("public", {"on": True, "name": "home"}),
        ("forget", {"node": "attic"}),
        ("leave", {}),
    ]
    answers["invite"] = {"status": "no"}
    with pytest.raises(NodeError, match="not understood"):
        await node.client.invite()
    with pytest.raises(InvalidRequest):
        await node.client.public(True, max_clients=0)


async def test_the_client_needs_the_token_for_the_mesh_too(node: Node) -> None:
    async with ManagementClient(node.url, token=TOKEN[:-1]) as stranger:
        with pytest.raises(NodeError, match="token"):
            await stranger.leave()
    assert node.backend.asked == []
