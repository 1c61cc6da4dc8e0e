"""The event store: ring, waits, other threads."""

import asyncio
import threading

import pytest

from meshllm_core.node import store as store_module
from meshllm_core.node.store import EventStore
from meshllm_core.state.events import NoticeLogged


def notice(text: str) -> NoticeLogged:
    return NoticeLogged(at=1.0, level="info", source="s", text=text)


def texts(store: EventStore, after: int) -> list[str] | None:
    events = store.events_after(after)
    return None if events is None else [e.event.text for e in events if isinstance(e.event, NoticeLogged)]


async def test_events_after_gives_the_rest_or_none() -> None:
    store = EventStore(keep=3)
    assert store.events_after(0) == []
    assert store.events_after(1) is None
    for text in "abcde":
        store.append(notice(text))
    assert store.snapshot.sequence == store.sequence == 5
    assert [texts(store, after) for after in (5, 4, 3, 2, 1, 0, 6)] == [
        [],
        ["e"],
        ["d", "e"],
        ["c", "d", "e"],
        None,
        None,
        None,
    ]
    assert [logged.sequence for logged in store.events_after(2) or ()] == [3, 4, 5]


async def test_a_wait_ends_with_an_event_a_timeout_or_the_end() -> None:
    store = EventStore()
    assert await store.wait_after(0, 0.01) is False
    waits = [asyncio.create_task(store.wait_after(0, 5)) for _ in range(3)]
    await asyncio.sleep(0)
    store.append(notice("a"))
    assert await asyncio.gather(*waits) == [True, True, True]
    assert await store.wait_after(0, 5) is True
    ending = asyncio.create_task(store.wait_after(1, 5))
    await asyncio.sleep(0)
    store.close()
    assert await asyncio.wait_for(ending, 1) is False
    assert await asyncio.wait_for(store.wait_after(1, 5), 1) is False
    store.append(notice("late"))
    assert await store.wait_after(1, 5) is True


async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    store = EventStore()
    waiting = asyncio.create_task(store.wait_after(0, 5))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    store.append(notice("a"))
    assert store.sequence == 1


async def test_other_threads_must_not_append_and_may_append_soon() -> None:
    store = EventStore()
    caught: list[BaseException] = []

    def work() -> None:
        try:
            store.append(notice("wrong"))
        except RuntimeError as error:
            caught.append(error)
        for index in range(100):
            store.append_soon(notice(str(index)))

    thread = threading.Thread(target=work)
    thread.start()
    await asyncio.to_thread(thread.join)
    assert await store.wait_after(99, 2)
    assert "append_soon" in str(caught[0])
    assert texts(store, 0) == [str(index) for index in range(100)]


async def test_a_flood_from_another_thread_is_cut_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "PENDING_LIMIT", 5)
    store = EventStore()
    for index in range(8):
        store.append_soon(notice(str(index)))
    await asyncio.sleep(0)
    assert texts(store, 0) == [
        "0",
        "1",
        "2",
        "3",
        "4",
        "3 events came faster than they could be taken and were dropped",
    ]
    store.append_soon(notice("again"))
    await asyncio.sleep(0)
    assert texts(store, 6) == ["again"]


def test_events_for_a_loop_that_is_gone_are_dropped() -> None:
    async def make() -> EventStore:
        return EventStore()

    store = asyncio.run(make())
    store.append_soon(notice("late"))
    assert store.snapshot.sequence == 0
