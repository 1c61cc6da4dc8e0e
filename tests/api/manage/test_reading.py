"""What may be read: documents, their names, and who may read them."""

import json
from pathlib import Path

import pytest

from meshllm_core.api.client import ManagementClient
from meshllm_core.api.schema import ACTIONS
from meshllm_core.errors import MeshError, NodeNotRunning, NotAuthorized
from meshllm_core.ids import ModelId
from meshllm_core.state import events as ev
from tests.api.manage.conftest import TOKEN, Node, running

MODEL = ModelId("tiny")
STARTED = ev.NodeStarted(
    at=5.0,
    name="attic",
    version="0.1.0",
    pid=77,
    api_url="http://127.0.0.1:9337",
    console_url="http://127.0.0.1:3131",
)
READY = ev.ModelReady(
    at=7.0,
    model=MODEL,
    pid=78,
    architecture="llama",
    parameters=1000,
    context=2048,
    lanes=4,
    memory_measured=10,
    device="CPU",
    chat=True,
    embeddings=False,
    load_seconds=0.5,
    layers=30,
)


async def test_health_answers_before_anything_happened(node: Node) -> None:
    answer = await node.http.get("/health")
    assert answer.status_code == 200
    assert answer.json()["serving"] == {"status": "starting"}
    assert answer.json()["mode"] == "worker"


async def test_status_uses_the_known_names(node: Node) -> None:
    store = node.backend.store
    store.append(STARTED)
    store.append(
        ev.HardwareDetected(
            at=5.5,
            cpu="x",
            threads=2,
            memory_total=8_000_000_000,
            memory_free=4_000_000_000,
            devices=(
                ev.Device(name="CPU", description="x", kind="cpu", memory_total=8, memory_free=4),
                ev.Device(
                    name="CUDA0", description="y", kind="gpu", memory_total=12 * 10**9, memory_free=10**9
                ),
            ),
        )
    )
    store.append(ev.ModelRequested(at=6.0, model=MODEL, ref="default"))
    store.append(ev.ModelLoadProgressed(at=6.5, model=MODEL, fraction=0.5, path="/m.gguf", file_bytes=99))
    store.append(READY)
    status = (await node.http.get("/api/status")).json()
    assert status["node_state"] == "serving"
    assert status["node_status"] == "Serving tiny"
    assert status["llama_ready"] is True
    assert (status["api_port"], status["my_hostname"], status["my_vram_gb"]) == (9337, "attic", 12.0)
    assert (status["models"], status["serving_models"], status["requested_models"]) == (
        ["tiny"],
        ["tiny"],
        ["default"],
    )
    assert [gpu["name"] for gpu in status["gpus"]] == ["CUDA0"]
    assert (status["peers"], status["node_id"], status["mesh_id"]) == ([], "", "")
    (stage,) = status["runtime"]["stages"]
    assert (stage["layer_start"], stage["layer_end"], stage["state"]) == (0, 30, "ready")
    assert (stage["ctx_size"], stage["lane_count"], stage["source_model_path"]) == (2048, 4, "/m.gguf")
    assert status["runtime"]["models"][0]["id"] == "tiny"
    golden = Path(__file__).with_name("golden_status.json")
    assert json.dumps(status, indent=2) + "\n" == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("then", "serving", "sentence"),
    [
        ((), "starting", "Loading tiny"),
        ((READY,), "healthy", "Serving tiny"),
        (
            (ev.ModelFailed(at=8.0, model=MODEL, code="c", message="m", hint=""),),
            "unhealthy",
            "Running; tiny failed",
        ),
        ((ev.ModelUnloaded(at=8.0, model=MODEL),), "idle", "Running; no model is loaded"),
        (
            (READY, ev.ModelRequested(at=9.0, model=ModelId("b"), ref="b")),
            "healthy",
            "Serving tiny",
        ),
        (
            (
                READY,
                ev.ModelRequested(at=9.0, model=ModelId("b"), ref="b"),
                ev.ModelFailed(at=9.5, model=ModelId("b"), code="c", message="m", hint=""),
            ),
            "degraded",
            "Serving tiny",
        ),
    ],
)
async def test_health_follows_the_models(
    node: Node, then: tuple[ev.AnyEvent, ...], serving: str, sentence: str
) -> None:
    for event in (STARTED, ev.ModelRequested(at=6.0, model=MODEL, ref="default"), *then):
        node.backend.store.append(event)
    assert (await node.client.health()).serving.status == serving
    assert (await node.client.status()).node_status == sentence


async def test_snapshot_arrives_as_it_is(node: Node) -> None:
    node.backend.store.append(STARTED)
    node.backend.store.append(
        ev.NoticeLogged(at=1.0, level="info", source="a", text="line\u2028break \u202e ✓")
    )
    assert await node.client.snapshot() == node.backend.store.snapshot


@pytest.mark.parametrize(
    "headers", [{"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "null"}]
)
async def test_foreign_pages_are_refused(node: Node, headers: dict[str, str]) -> None:
    answer = await node.http.get("/api/status", headers=headers)
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "host_refused"


async def test_beyond_loopback_reading_needs_the_token() -> None:
    async with running(console_host="0.0.0.0") as node:
        for path in ("/api/status", "/api/snapshot", "/api/events", "/api/actions"):
            refused = await node.http.get(path, headers={"host": "attic.lan"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
            assert refused.headers["www-authenticate"] == "Bearer"
        given = await node.http.get("/api/status", headers={"authorization": f"Bearer {TOKEN}"})
        assert given.status_code == 200
        assert (await node.http.get("/health", headers={"host": "attic.lan"})).status_code == 200


@pytest.mark.parametrize(
    ("verb", "path", "status", "code"),
    [("GET", "/nope", 404, "not_found"), ("DELETE", "/api/status", 405, "method_not_allowed")],
)
async def test_unknown_places_have_the_same_error_shape(
    node: Node, verb: str, path: str, status: int, code: str
) -> None:
    answer = await node.http.request(verb, path)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["code"] == code
    assert path in error["message"]


async def test_openapi_describes_every_call(node: Node) -> None:
    document = (await node.http.get("/openapi.json")).json()
    assert {"/health", "/api/status", "/api/snapshot", "/api/events", "/api/actions/load"} <= set(
        document["paths"]
    )
    schemas = document["components"]["schemas"]
    assert {"Status", "NodeSnapshot", "LoadArguments", "ErrorEnvelope"} <= set(schemas)
    text = json.dumps(document)
    for name in {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
        assert name in schemas
    body = document["paths"]["/api/actions/load"]["post"]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    assert body == {"$ref": "#/components/schemas/LoadArguments"}


async def test_docs_need_no_other_server(node: Node) -> None:
    page = await node.http.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "<script" not in page.text
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert "/api/actions/unload" in page.text
    assert (await node.http.get("/")).headers["location"] == "/docs"


async def test_actions_list_their_arguments(node: Node) -> None:
    listed = {item["name"]: item for item in (await node.http.get("/api/actions")).json()["actions"]}
    assert (
        set(listed)
        == set(ACTIONS)
        >= {"load", "stop", "invite", "join", "leave", "revoke", "public", "forget"}
    )
    assert listed["load"]["parameters"]["$defs"]["LoadArguments"]["required"] == ["model"]


async def test_client_names_a_node_that_is_not_there(node: Node, unused_tcp_port: int) -> None:
    async with ManagementClient(f"http://127.0.0.1:{unused_tcp_port}") as client:
        with pytest.raises(NodeNotRunning, match=str(unused_tcp_port)):
            await client.status()


async def test_client_raises_what_the_node_said(node: Node) -> None:
    async with ManagementClient(node.url, token="wrong") as client:
        with pytest.raises(NotAuthorized):
            await client.act("stop")
    with pytest.raises(MeshError, match="no action 'fly'"):
        await node.client.act("fly")
