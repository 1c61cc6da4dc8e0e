"""What changes something: the token, the bodies, the errors."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from meshllm_core.errors import ModelTooLarge, Overloaded
from tests.api.manage.conftest import TOKEN, Node


@pytest.mark.parametrize(
    ("name", "body", "arguments"),
    [
        ("load", b'{"model":"default"}', {"model": "default"}),
        (
            "load",
            b'{"model":"a/b:Q4","ctx_size":0,"lanes":2}',
            {"model": "a/b:Q4", "ctx_size": 0, "lanes": 2},
        ),
        ("load", b'{"model":"x","lanes":null}', {"model": "x"}),
        ("unload", b'{"model":"tiny"}', {"model": "tiny"}),
        ("cancel", b'{"request":"r-1"}', {"request": "r-1"}),
        ("stop", b"", {}),
        ("stop", b" {} ", {}),
    ],
)
async def test_actions_reach_the_node(
    node: Node, name: str, body: bytes, arguments: dict[str, object]
) -> None:
    answer = await node.post(f"/api/actions/{name}", body)
    assert (answer.status_code, answer.json()) == (200, {"done": name})
    assert node.backend.asked == [(name, arguments)]


@pytest.mark.parametrize("token", ["", "wrong", "t" * 42, "t" * 44, "tök"])
async def test_without_the_token_nothing_is_done(node: Node, token: str) -> None:
    headers = {b"authorization": f"Bearer {token}".encode()} if token else {}
    answer = await node.http.post("/api/actions/stop", headers=headers)
    assert answer.status_code == 401
    assert answer.json()["error"]["type"] == "authentication_error"
    assert node.backend.asked == []


BAD_BODIES = [
    (b"{", None, "not JSON"),
    (b"nonsense", None, "not JSON"),
    (b"[]", None, "Expected `object`"),
    (b"null", None, "Expected `object`"),
    (b'"text"', None, "Expected `object`"),
    (b"{}", "model", "model"),
    (b'{"model":null}', "model", "Expected `str`"),
    (b'{"model":7}', "model", "Expected `str`"),
    (b'{"model":""}', "model", "length"),
    (b'{"model":"' + b"x" * 1025 + b'"}', "model", "length"),
    (b'{"model":"a\\u0000b"}', "model", "regex"),
    (b'{"model":"\\ud800"}', None, "not JSON"),
    (b'{"model":"\xff"}', None, "not JSON"),
    (b'\xef\xbb\xbf{"model":"x"}', None, "not JSON"),
    (b'{"model":"x","ctxsize":1}', "ctxsize", "ctxsize"),
    (b'{"model":"x","ctx_size":-1}', "ctx_size", ">= 0"),
    (b'{"model":"x","ctx_size":"8"}', "ctx_size", "Expected `int"),
    (b'{"model":"x","ctx_size":1e309}', "ctx_size", ""),
    (b'{"model":"x","ctx_size":99999999999999999999999}', "ctx_size", ""),
    (b'{"model":"x","ctx_size":NaN}', None, "not JSON"),
    (b'{"model":"x","lanes":0}', "lanes", ">= 1"),
    (b'{"model":"x","lanes":65}', "lanes", "<= 64"),
    (b'{"model":"x","lanes":true}', "lanes", "Expected `int"),
    (b'{"model":' + b"[" * 30_000, "model", "Expected `str`"),
    (b"[" * 60_000, None, "Expected `object`"),
    (b'{"model":"x"} trailing', None, "not JSON"),
]


@pytest.mark.parametrize(("body", "param", "words"), BAD_BODIES, ids=[str(n) for n in range(len(BAD_BODIES))])
async def test_bad_bodies_are_named(node: Node, body: bytes, param: str | None, words: str) -> None:
    answer = await node.post("/api/actions/load", body)
    error = answer.json()["error"]
    assert answer.status_code == 400
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert words in error["message"]
    assert node.backend.asked == []
    assert (await node.http.get("/health")).status_code == 200


async def test_large_bodies_are_refused_whether_announced_or_not(node: Node) -> None:
    announced = await node.post("/api/actions/load", b" " * 70_000)
    assert (announced.status_code, announced.json()["error"]["code"]) == (413, "payload_too_large")

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(70):
            yield b" " * 1000

    chunked = await node.http.post(
        "/api/actions/load", content=pieces(), headers={"authorization": f"Bearer {TOKEN}"}
    )
    assert chunked.status_code == 413


async def test_unknown_actions_list_the_known_ones(node: Node) -> None:
    answer = await node.post("/api/actions/fly", b"{}")
    assert answer.status_code == 404
    assert "load" in answer.json()["error"]["message"]


async def test_errors_of_the_node_keep_their_code(node: Node) -> None:
    node.fail_with(ModelTooLarge("Needs 9 GB.", hint="Use a smaller one."))
    answer = await node.post("/api/actions/load", b'{"model":"x"}')
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "model_too_large")
    assert error["message"] == "Needs 9 GB. Use a smaller one."
    node.fail_with(Overloaded("Busy.", retry_after=7))
    assert (await node.post("/api/actions/stop")).headers["retry-after"] == "7"
    with pytest.raises(Overloaded, match="Busy"):
        await node.client.act("stop")


async def test_a_client_that_leaves_in_the_middle_of_a_body_hurts_nobody(node: Node) -> None:
    port = int(node.url.rpartition(":")[2])
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST /api/actions/load HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {'t' * 43}\r\n"
        'Content-Length: 100\r\n\r\n{"model":'
    )
    writer.write(head.encode())
    await writer.drain()
    writer.close()
    await asyncio.sleep(0.05)
    assert node.backend.asked == []
    assert (await node.post("/api/actions/stop")).status_code == 200
