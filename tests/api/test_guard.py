"""The guard against DNS rebinding, as an ASGI application sees it."""

import json
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from meshllm_core.api.guard import ANY_HOST, LOOPBACK_HOSTS, HostGuard, host_name


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


async def _ask(
    headers: list[tuple[str, str]], allowed: frozenset[str] = LOOPBACK_HOSTS, kind: str = "http"
) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: Message) -> None:
        sent.append(dict(message))

    async def receive() -> Message:
        raise AssertionError("the guard reads no body")

    scope = {"type": kind, "headers": [(k.encode(), v.encode("latin-1")) for k, v in headers]}
    await HostGuard(_app, allowed_hosts=allowed)(scope, receive, send)
    return sent


@pytest.mark.parametrize(
    "headers",
    [
        [("host", "localhost:9337")],
        [("host", "LOCALHOST")],
        [("host", "127.0.0.1:80")],
        [("host", "[::1]:9337")],
        [("host", "localhost.:9337")],
        [("host", "localhost:9337"), ("origin", "http://127.0.0.1:8080")],
        [("host", "localhost:9337"), ("origin", "https://[::1]")],
    ],
)
async def test_this_machine_passes(headers: list[tuple[str, str]]) -> None:
    assert (await _ask(headers))[0]["status"] == 200


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("host", "")],
        [("host", "evil.example")],
        [("host", "evil.example:9337")],
        [("host", "localhost.evil.example")],
        [("host", "127.0.0.1.evil.example")],
        [("host", "localhost@evil.example")],
        [("host", "localhost:notaport")],
        [("host", "localhost:9337"), ("host", "evil.example")],
        [("host", "localhost:9337"), ("origin", "http://evil.example")],
        [("host", "localhost:9337"), ("origin", "null")],
        [("host", "localhost:9337"), ("origin", "file://localhost")],
        [("host", "localhost:9337"), ("origin", "")],
    ],
)
async def test_anything_else_is_refused_in_openai_shape(headers: list[tuple[str, str]]) -> None:
    start, body = await _ask(headers)
    assert start["status"] == 403
    error = json.loads(body["body"])["error"]
    assert (error["type"], error["code"], error["param"]) == ("permission_error", "host_refused", None)


async def test_any_host_still_wants_the_origin_to_be_that_host() -> None:
    any_host = frozenset({ANY_HOST})
    assert (await _ask([("host", "box.lan:9337")], any_host))[0]["status"] == 200
    same = [("host", "box.lan:9337"), ("origin", "http://box.lan:8080")]
    assert (await _ask(same, any_host))[0]["status"] == 200
    foreign = [("host", "box.lan:9337"), ("origin", "http://evil.example")]
    assert (await _ask(foreign, any_host))[0]["status"] == 403


async def test_a_web_socket_is_closed_and_other_scopes_pass() -> None:
    assert (await _ask([("host", "evil.example")], kind="websocket"))[0]["type"] == "websocket.close"
    assert (await _ask([], kind="lifespan"))[0]["status"] == 200


def test_host_name() -> None:
    assert host_name("A.example:1") == "a.example"
    assert host_name("[fe80::1]:9") == "fe80::1"
    assert host_name("a:b:c") is None
    assert host_name("a/b") is None
