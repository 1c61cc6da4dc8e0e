"""Downloads without loading: the queue, pausing, resuming, cancelling, against a hub on loopback."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from meshllm_core.errors import InvalidRequest, NodeError
from meshllm_core.models.cache import Cache
from meshllm_core.models.embedded import embedded_model
from meshllm_core.models.hub import Hub
from meshllm_core.node import downloads as module
from meshllm_core.node.downloads import DONE_KEPT, OPEN_LIMIT, Downloads
from meshllm_core.state.download_events import DownloadChanged, DownloadRow
from meshllm_core.state.events import AnyEvent
from meshllm_core.state.reduce import reduce
from meshllm_core.state.snapshot import NodeSnapshot
from tests.support.hub import LocalHub, serve_hub

REPO = "owner/tiny-GGUF"
REF = f"{REPO}:Q4_1"
GIB = 1 << 30
SLOW = 0.01
"""Seconds between two pieces of a file: about a second for all of it."""


@dataclass
class Desk:
    """Downloads, and the snapshot that their events fold to."""

    downloads: Downloads
    cache: Cache
    hub: LocalHub
    snapshot: NodeSnapshot = field(default_factory=NodeSnapshot)
    seen: list[AnyEvent] = field(default_factory=list)

    def append(self, event: AnyEvent) -> None:
        self.seen.append(event)
        self.snapshot = reduce(self.snapshot, event)

    def row(self, download: str) -> DownloadRow | None:
        return next((row for row in self.snapshot.downloads if row.id == download), None)

    async def until(self, true: Callable[[], bool], seconds: float = 20.0) -> None:
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, self.snapshot.downloads
            await asyncio.sleep(0.01)

    async def state(self, download: str, state: str) -> DownloadRow:
        await self.until(lambda: (row := self.row(download)) is not None and row.state == state)
        row = self.row(download)
        assert row is not None
        return row


@pytest.fixture
def hub() -> Iterator[LocalHub]:
    with serve_hub() as served:
        data = embedded_model().read_bytes()
        served.add(REPO, {"tiny-Q4_1.gguf": data, "tiny-Q8_0.gguf": data + b"0"})
        served.faults.chunk = 1 << 20
        yield served


@pytest.fixture
async def desk(hub: LocalHub, tmp_path: Path) -> AsyncIterator[Desk]:
    cache = Cache(tmp_path / "models")
    client = Hub(endpoint=hub.address, connect_timeout=2, read_timeout=5, retry_wait=0.01)
    made = Desk(Downloads(cache, client, lambda event: made.append(event), lambda: 8 * GIB), cache, hub)
    yield made
    await made.downloads.close()


def partials(desk: Desk) -> list[Path]:
    return list(desk.cache.root.rglob("*.part"))


async def test_a_model_arrives_and_is_told_on_its_way(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROGRESS_SECONDS", 0.05)
    desk.hub.faults.seconds_per_chunk = SLOW
    row = desk.downloads.start(REF)
    done = await desk.state(row.id, "done")
    assert (done.model, done.bytes_done, done.bytes_total) == (
        "tiny-Q4_1",
        embedded_model().stat().st_size,
        embedded_model().stat().st_size,
    )
    told = [event.download for event in desk.seen if isinstance(event, DownloadChanged)]
    assert [row.state for row in told if row.state != "downloading"] == ["waiting", "done"]
    assert any(row.bytes_per_second > 0 and 0 < row.bytes_done < row.bytes_total for row in told)
    (model,) = desk.cache.models()
    assert model.complete


async def test_a_paused_download_goes_on_where_it_stopped(desk: Desk) -> None:
    desk.hub.faults.seconds_per_chunk = SLOW
    row = desk.downloads.start(REF)
    await desk.until(lambda: desk.hub.served.total() > 4 << 20)
    desk.downloads.pause(row.id)
    with pytest.raises(NodeError, match="just stopping"):
        desk.downloads.resume(row.id)
    await desk.state(row.id, "paused")
    (partial,) = partials(desk)
    here = partial.stat().st_size
    assert 0 < here < embedded_model().stat().st_size
    desk.hub.faults.seconds_per_chunk = 0
    desk.downloads.resume(row.id)
    await desk.state(row.id, "done")
    ranges = [each[2] for each in desk.hub.content_requests()]
    assert int(ranges[-1].removeprefix("bytes=").partition("-")[0]) == here
    (model,) = desk.cache.models()
    assert hashlib.sha256(model.files[0].read_bytes()).digest() == (
        hashlib.sha256(embedded_model().read_bytes()).digest()
    )


async def test_a_cancelled_download_leaves_nothing(desk: Desk) -> None:
    desk.hub.faults.seconds_per_chunk = SLOW
    row = desk.downloads.start(REF)
    await desk.until(lambda: bool(partials(desk)))
    await desk.downloads.cancel(row.id)
    await desk.until(lambda: desk.row(row.id) is None)
    assert desk.cache.models() == () and not partials(desk)
    assert "cancelled" in desk.snapshot.notices[-1].text
    with pytest.raises(InvalidRequest, match="no download"):
        desk.downloads.pause(row.id)


async def test_a_paused_download_can_be_cancelled(desk: Desk) -> None:
    desk.hub.faults.seconds_per_chunk = SLOW
    row = desk.downloads.start(REF)
    await desk.until(lambda: bool(partials(desk)))
    desk.downloads.pause(row.id)
    await desk.state(row.id, "paused")
    await desk.downloads.cancel(row.id)
    assert desk.row(row.id) is None and not partials(desk)


async def test_a_cancelled_download_takes_no_pause_instead(desk: Desk) -> None:
    desk.hub.faults.seconds_per_chunk = SLOW
    row = desk.downloads.start(REF)
    await desk.until(lambda: bool(partials(desk)))
    await desk.downloads.cancel(row.id)
    desk.downloads.pause(row.id)
    await desk.until(lambda: desk.row(row.id) is None)
    assert not partials(desk)


async def test_one_comes_after_the_other(desk: Desk) -> None:
    desk.hub.faults.seconds_per_chunk = SLOW
    first = desk.downloads.start(REF)
    second = desk.downloads.start(f"{REPO}:Q8_0")
    third = desk.downloads.start("owner/absent-GGUF")
    await desk.state(first.id, "downloading")
    assert [row.state for row in desk.snapshot.downloads] == ["downloading", "waiting", "waiting"]
    with pytest.raises(NodeError, match="on its way already"):
        desk.downloads.start(f"{REPO}:Q8_0")
    desk.downloads.pause(second.id)
    failed = await desk.state(third.id, "failed")
    assert "owner/absent-GGUF" in failed.message and failed.hint
    assert desk.row(second.id) is not None
    desk.hub.faults.seconds_per_chunk = 0
    desk.downloads.start(f"{REPO}:Q8_0")
    await desk.state(second.id, "done")


async def test_what_was_here_already_is_done_at_once(desk: Desk) -> None:
    first = desk.downloads.start(REF)
    await desk.state(first.id, "done")
    second = desk.downloads.start(REF)
    done = await desk.state(second.id, "done")
    assert "already" in done.message
    assert desk.row(first.id) is None


async def test_a_model_that_does_not_fit_is_refused_unless_it_is_wanted(desk: Desk) -> None:
    desk.downloads.free_memory = lambda: 64 << 20
    row = desk.downloads.start(REF)
    failed = await desk.state(row.id, "failed")
    assert "does not fit" in failed.message
    assert desk.downloads.start(REF, any_size=True).id == row.id
    await desk.state(row.id, "done")


async def test_the_queue_has_an_end(desk: Desk) -> None:
    desk.hub.faults.seconds_per_chunk = SLOW
    for number in range(OPEN_LIMIT):
        desk.downloads.start(f"{REF}@revision{number}")
    with pytest.raises(NodeError, match="limit"):
        desk.downloads.start(f"{REPO}:Q8_0")
    assert len(desk.snapshot.downloads) == OPEN_LIMIT


async def test_only_the_last_of_those_done_are_listed(desk: Desk) -> None:
    data = embedded_model().read_bytes()
    for number in range(DONE_KEPT + 2):
        desk.hub.add(f"owner/m{number}", {"m-Q4_1.gguf": data})
        row = desk.downloads.start(f"owner/m{number}:Q4_1")
        await desk.state(row.id, "done")
    assert len(desk.snapshot.downloads) == DONE_KEPT


async def test_the_end_of_the_node_keeps_what_has_arrived(desk: Desk) -> None:
    desk.hub.faults.seconds_per_chunk = SLOW
    desk.downloads.start(REF)
    second = desk.downloads.start(f"{REPO}:Q8_0")
    await desk.until(lambda: desk.hub.served.total() > 4 << 20)
    await desk.downloads.close()
    (partial,) = partials(desk)
    assert partial.stat().st_size > 0
    waiting = desk.row(second.id)
    assert waiting is not None and waiting.state == "waiting"


async def test_a_stalled_download_tells_no_speed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(module, "SILENCE_SECONDS", 0.2)
    desk.hub.faults.seconds_per_chunk = SLOW
    row = desk.downloads.start(REF)
    await desk.until(lambda: (now := desk.row(row.id)) is not None and now.bytes_per_second > 0)
    desk.hub.faults.seconds_per_chunk = 1.5
    await desk.until(
        lambda: (
            (now := desk.row(row.id)) is not None and now.state == "downloading" and now.bytes_per_second == 0
        )
    )
