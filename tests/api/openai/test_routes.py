"""What surrounds the answers: models, health, ids, keys, hosts, and routes that are not there."""

import gzip
import json
import uuid

import pytest

from meshllm_core.api.guard import LOOPBACK_HOSTS
from meshllm_core.api.openai.context import SCHEMA
from meshllm_core.api.openai.settings import OpenAISettings
from meshllm_core.errors import InvalidRequest
from meshllm_core.ids import ModelId
from meshllm_core.serve.router import HostedModel
from tests.api.openai.conftest import CREATED, MODEL, Endpoint, chat_body, error_of, scripted, serving
from tests.support.scripted_engine import ScriptedEngine

LOADING = HostedModel(ModelId("owner/repo:Q4"), CREATED, "loading", detail="40 %")
FAILED = HostedModel(ModelId("broken"), CREATED, "failed", detail="out of memory")


async def test_models(endpoint: Endpoint) -> None:
    endpoint.hosted[LOADING.id] = LOADING
    endpoint.hosted[FAILED.id] = FAILED
    for path in ("/v1/models", "/models"):
        body = (await endpoint.http.get(path)).json()
        assert body["object"] == "list"
        ready, loading = body["data"]
    assert (ready["id"], ready["object"], ready["created"], ready["owned_by"]) == (
        MODEL,
        "model",
        CREATED,
        "meshllm",
    )
    assert ready["meta"]["context"] == 4096
    assert (loading["status"], loading["detail"]) == ("loading", "40 %")
    one = (await endpoint.http.get("/v1/models/owner/repo:Q4")).json()
    assert one == loading
    assert (await endpoint.http.get("/v1/models/broken")).json()["status"] == "failed"
    missing = await endpoint.http.get("/v1/models/nope")
    assert (missing.status_code, error_of(missing)["code"]) == (404, "model_not_found")
    assert MODEL in error_of(missing)["message"]


async def test_models_that_are_not_ready_say_when_to_come_back(endpoint: Endpoint) -> None:
    endpoint.hosted[LOADING.id] = LOADING
    for stream in (True, False):
        answer = await endpoint.chat(model=LOADING.id, stream=stream)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        error = error_of(answer)
        assert (error["code"], error["type"], error["param"]) == (
            "service_unavailable",
            "server_error",
            "model",
        )


async def test_auto_means_a_model_that_is_ready(endpoint: Endpoint) -> None:
    endpoint.hosted[LOADING.id] = LOADING
    assert (await endpoint.chat(model="auto")).json()["model"] == MODEL


async def test_a_node_that_stops_takes_nothing_new(endpoint: Endpoint) -> None:
    assert (await endpoint.http.get("/readyz")).json()["status"] == "ready"
    endpoint.service.accepting = False
    assert (await endpoint.chat()).status_code == 503
    answer = await endpoint.http.get("/readyz")
    assert (answer.status_code, answer.json()["models"]) == (503, {MODEL: "ready"})
    assert (await endpoint.http.get("/health")).json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "not_found"),
        ("POST", "/v1/images/generations", 404, "not_found"),
        ("POST", "/", 404, "not_found"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("DELETE", "/v1/models", 405, "method_not_allowed"),
        ("OPTIONS", "/v1/chat/completions", 405, "method_not_allowed"),
        ("GET", "/docs", 404, "not_found"),
    ],
)
async def test_routes_that_are_not_there(
    endpoint: Endpoint, method: str, path: str, status: int, code: str
) -> None:
    answer = await endpoint.http.request(method, path)
    assert (answer.status_code, error_of(answer)["code"]) == (status, code)
    assert path in error_of(answer)["message"]
    assert "access-control-allow-origin" not in answer.headers


async def test_every_answer_has_an_id(endpoint: Endpoint) -> None:
    given = str(uuid.uuid4())
    for path in ("/health", "/nothing", "/v1/models/nope"):
        answer = await endpoint.http.get(path, headers={"x-request-id": given})
        assert answer.headers["x-request-id"] == given
    for bad in ("", "1", given + "0", "{" + given + "}", "x" * 5000):
        answer = await endpoint.http.get("/health", headers={"x-request-id": bad})
        assert str(uuid.UUID(answer.headers["x-request-id"])) != given
    refused = await endpoint.http.get("/health", headers={"host": "evil.example", "x-request-id": given})
    assert (refused.status_code, refused.headers["x-request-id"]) == (403, given)


async def test_pages_from_elsewhere_are_refused(endpoint: Endpoint) -> None:
    answer = await endpoint.post("/v1/chat/completions", chat_body(), origin="http://evil.example")
    assert (answer.status_code, error_of(answer)["code"]) == (403, "host_refused")
    answer = await endpoint.post("/v1/chat/completions", chat_body(), origin="http://localhost:3000")
    assert answer.status_code == 200
    async with serving(
        {MODEL: scripted()}, OpenAISettings(allowed_hosts=LOOPBACK_HOSTS | {"box.lan"})
    ) as other:
        assert (await other.http.get("/health", headers={"host": "box.lan:9337"})).status_code == 200


async def test_the_key() -> None:
    async with serving({MODEL: scripted()}, OpenAISettings(api_key="sésame")) as endpoint:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic s\u00e9same"}):
            raw = {name.encode(): value.encode() for name, value in headers.items()}
            answer = await endpoint.http.get("/v1/models", headers=raw)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            error = error_of(answer)
            assert (error["code"], error["type"]) == ("invalid_api_key", "authentication_error")
        right = {b"authorization": "Bearer sésame".encode()}
        assert (await endpoint.http.get("/v1/models", headers=right)).status_code == 200
        assert (await endpoint.http.get("/health")).status_code == 200


async def test_tokenize_and_back(endpoint: Endpoint) -> None:
    answer = (await endpoint.post("/v1/tokenize", {"model": "auto", "content": "Hé"})).json()
    assert answer == {"model": MODEL, "tokens": [72, 233], "count": 2}
    back = await endpoint.post("/v1/detokenize", {"model": MODEL, "tokens": answer["tokens"]})
    assert back.json() == {"model": MODEL, "content": "Hé"}
    messages = chat_body()["messages"]
    chat = (await endpoint.post("/v1/tokenize", {"model": MODEL, "messages": messages})).json()
    asked = await endpoint.chat()
    assert chat["count"] == asked.json()["usage"]["prompt_tokens"]


async def test_a_fault_inside_is_a_plain_500() -> None:
    class Broken(ScriptedEngine):
        async def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> tuple[int, ...]:
            raise ZeroDivisionError("secret")

    async with serving({MODEL: Broken()}) as endpoint:
        answer = await endpoint.post("/v1/tokenize", {"model": MODEL, "content": "x"})
        assert (answer.status_code, error_of(answer)["code"]) == (500, "internal_error")
        assert "secret" not in answer.text
        assert len(answer.headers["x-request-id"]) == 36


async def test_a_fault_in_a_stream_is_its_last_event() -> None:
    class Broken(ScriptedEngine):
        async def generate(self, request):  # type: ignore[no-untyped-def]
            async for chunk in super().generate(request):
                yield chunk
                if chunk.__class__.__name__ == "Delta":
                    raise ZeroDivisionError("secret")

    async with serving({MODEL: Broken()}) as endpoint:
        answer = await endpoint.chat(stream=True)
        assert '"code":"internal_error"' in answer.text.split("\n\n")[-2]
        assert "secret" not in answer.text
        assert "[DONE]" not in answer.text


async def test_default_limit_of_an_answer() -> None:
    engine = scripted()
    async with serving({MODEL: engine}, OpenAISettings(default_max_tokens=2)) as endpoint:
        await endpoint.chat()
        await endpoint.post("/v1/completions", {"model": MODEL, "prompt": "x"})
        await endpoint.post("/v1/responses", {"model": MODEL, "input": "x"})
        await endpoint.chat(max_tokens=3)
    assert [request.max_tokens for request in engine.requests] == [2, 2, 2, 3]


@pytest.mark.parametrize(
    ("path", "fields", "below", "param"),
    [
        ("chat/completions", {"messages": [{"role": "user", "content": "x"}]}, "prompt", "messages"),
        ("completions", {"prompt": "x"}, "messages", "prompt"),
        ("responses", {"input": "x"}, "messages", "input"),
        ("responses", {"input": "x"}, SCHEMA, "text.format.schema"),
        ("responses", {"input": "x"}, None, None),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_errors_from_below_carry_the_names_of_the_route(
    path: str, fields: dict[str, object], below: str | None, param: str | None, stream: bool
) -> None:
    engine = scripted(refusal=InvalidRequest("No.", param=below))
    async with serving({MODEL: engine}) as endpoint:
        answer = await endpoint.post(f"/v1/{path}", {"model": MODEL, "stream": stream, **fields})
    assert (answer.status_code, error_of(answer)["param"]) == (400, param)


async def test_bodies_of_any_content_type_but_no_encoding(endpoint: Endpoint) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "nonsense"):
        answer = await endpoint.post("/v1/chat/completions", chat_body(), **{"content-type": kind})
        assert answer.status_code == 200
    packed = gzip.compress(json.dumps(chat_body()).encode())
    answer = await endpoint.post("/v1/chat/completions", packed, **{"content-encoding": "gzip"})
    assert answer.status_code == 400
    assert "gzip" in error_of(answer)["message"]
