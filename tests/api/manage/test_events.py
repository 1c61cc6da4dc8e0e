"""The event stream: resume, reset, many clients, and the end."""

import asyncio
import contextlib
from typing import Any

import httpx
import pytest

from meshllm_core.api import sse
from meshllm_core.state import events as ev
from meshllm_core.state.snapshot import NodeSnapshot
from tests.api.manage.conftest import Node, running


def notice(text: str) -> ev.NoticeLogged:
    return ev.NoticeLogged(at=1.0, level="info", source="test", text=text)


async def lines(node: Node, path: str, count: int, **headers: str) -> list[str]:
    """The first lines that are not comments or empty."""
    found: list[str] = []
    async with node.http.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            if line and not line.startswith(":"):
                found.append(line)
            if len(found) == count:
                return found
    return found


async def test_bytes_of_one_event(node: Node) -> None:
    node.backend.store.append(notice("hello"))
    assert await lines(node, "/api/events?after=0", 3) == [
        "id: 1",
        "event: notice_logged",
        'data: {"sequence":1,"event":{"type":"notice_logged","at":1.0,"level":"info","source":"test",'
        '"text":"hello"}}',
    ]


async def test_resume_continues_where_the_client_was(node: Node) -> None:
    for index in range(5):
        node.backend.store.append(notice(str(index)))
    assert (await lines(node, "/api/events?after=3", 4))[::3] == ["id: 4", "id: 5"]
    # A browser that comes back repeats the address and adds where it was.
    assert (await lines(node, "/api/events?after=0", 1, **{"last-event-id": "4"})) == ["id: 5"]


async def test_without_a_place_the_stream_starts_now(node: Node) -> None:
    node.backend.store.append(notice("before"))
    reading = asyncio.create_task(lines(node, "/api/events", 1))
    await asyncio.sleep(0.1)
    node.backend.store.append(notice("after"))
    assert await reading == ["id: 2"]


@pytest.mark.parametrize("after", [0, 5, 99])
async def test_a_place_that_is_not_known_gives_a_reset(after: int) -> None:
    async with running(keep=4) as node:
        for index in range(10):
            node.backend.store.append(notice(str(index)))
        assert await lines(node, f"/api/events?after={after}", 3) == [
            "id: 10",
            "event: reset",
            'data: {"sequence":10}',
        ]
        assert (await lines(node, "/api/events?after=6", 1)) == ["id: 7"]


@pytest.mark.parametrize("after", ["x", "-1", "1.5", "", "٣", "9" * 30])
async def test_nonsense_places_are_refused(node: Node, after: str) -> None:
    answer = await node.http.get("/api/events", params={"after": after})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "after"


async def test_client_sees_every_event_once_and_in_order(node: Node) -> None:
    async def feed() -> None:
        for index in range(300):
            node.backend.store.append(notice(str(index)))
            if index % 50 == 0:
                await asyncio.sleep(0.01)

    feeding = asyncio.create_task(feed())
    seen: list[int] = []
    async with contextlib.aclosing(node.client.events(0)) as events:
        async for logged in events:
            seen.append(logged.sequence)
            if len(seen) == 300:
                break
    await feeding
    assert seen == list(range(1, 301))


async def test_client_iterator_ends_on_reset_and_on_close(node: Node) -> None:
    assert [logged async for logged in node.client.events(50)] == []
    reading = asyncio.create_task(anext(aiter(node.client.events(0)), None))
    await asyncio.sleep(0.05)
    node.backend.store.close()
    assert await asyncio.wait_for(reading, 2) is None


async def test_follow_folds_to_the_same_snapshot(node: Node) -> None:
    node.backend.store.append(notice("one"))
    seen: list[NodeSnapshot] = []
    async with contextlib.aclosing(node.client.follow()) as snapshots:
        async for snapshot in snapshots:
            seen.append(snapshot)
            if len(seen) == 1:
                node.backend.store.append(notice("two"))
            else:
                break
    assert seen[-1] == node.backend.store.snapshot


async def test_follow_tells_of_a_lost_node_and_goes_on() -> None:
    told: list[Any] = []
    async with running() as first:
        following = first.client.follow(told.append)
        assert (await anext(following)).sequence == 0
    # The node is gone now; the iterator keeps trying.
    waiting = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0.6)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
        await waiting
    assert told
    assert all(error is not None for error in told)
    await following.aclose()


async def test_too_many_streams_are_refused(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "CLIENTS_LIMIT", 2)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            answer = await stack.enter_async_context(node.http.stream("GET", "/api/events"))
            assert answer.status_code == 200
        refused = await node.http.get("/api/events")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
    await _until_allowed(node)


async def _until_allowed(node: Node) -> None:
    """A closed stream gives its place back."""
    for _ in range(100):
        async with node.http.stream("GET", "/api/events") as answer:
            if answer.status_code == 200:
                return
        await asyncio.sleep(0.02)
    pytest.fail("the place of a closed stream was never given back")


async def test_a_silent_node_still_sends_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT_SECONDS", 0.1)
    async with running() as node, node.http.stream("GET", "/api/events") as answer:
        first = await asyncio.wait_for(anext(answer.aiter_lines()), 2)
        assert first.startswith(":")


async def test_stream_closes_when_the_node_does(node: Node) -> None:
    async with node.http.stream("GET", "/api/events") as answer:
        node.backend.store.close()
        with contextlib.suppress(httpx.RemoteProtocolError):
            assert await asyncio.wait_for(answer.aread(), 3) == b""
