"""Files between two nodes: whole, resumed, refused, and without a stop of the node's event loop."""

import asyncio
import contextlib
import hashlib
import random
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.errors import DownloadFailed, LinkClosed, MeshError, StorageError, WireError
from meshllm_core.transport import transfer, transfer_messages
from meshllm_core.transport.link import Channel, ChannelKind
from meshllm_core.transport.transfer import Fetched, fetch_file, serve_file
from tests.mesh.members import until
from tests.transport.tls_nodes import LOOPS, Node, nodes, on_loop

MEGABYTE = 1 << 20


class Pair:
    """A fetches what B serves: any file of one folder."""

    def __init__(self, a: Node, b: Node, folder: Path) -> None:
        self.a, self.b = a, b
        self.folder = folder
        self.target = folder / "target" / "file"
        self.errors: list[MeshError] = []
        self.sent: list[int] = []
        b.handler = self.serve

    async def serve(self, channel: Channel) -> None:
        try:
            self.sent.append(await serve_file(channel, self.lookup))
        except MeshError as error:
            self.errors.append(error)

    def lookup(self, file_id: str) -> Path | None:
        return self.folder / file_id if file_id in ("weights", "folder", "gone") else None

    async def fetch(
        self, file_id: str = "weights", *, kind: ChannelKind = ChannelKind.TRANSFER, **options: object
    ) -> Fetched:
        channel = await self.a.connect(self.b, kind)
        return await fetch_file(channel, file_id, self.target, **options)  # type: ignore[arg-type]

    def left(self) -> list[Path]:
        folder = self.target.parent
        return sorted(path for path in folder.iterdir() if path != self.target) if folder.exists() else []


@contextlib.asynccontextmanager
async def pair(folder: Path, size: int) -> AsyncIterator[tuple[Pair, bytes]]:
    content = random.Random(size).randbytes(size)
    (folder / "weights").write_bytes(content)
    (folder / "folder").mkdir()
    async with nodes() as (a, b):
        yield Pair(a, b, folder), content


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", [ChannelKind.TRANSFER, ChannelKind.CALL])
@pytest.mark.parametrize("size", [0, 1, 3 * MEGABYTE + 17])
def test_a_file_arrives_whole(tmp_path: Path, loop: str, kind: ChannelKind, size: int) -> None:
    async def scenario() -> None:
        async with pair(tmp_path, size) as (two, content):
            seen: list[tuple[int, int]] = []
            digest = hashlib.sha256(content).hexdigest()
            fetched = await two.fetch(
                kind=kind, sha256=digest, progress=lambda done, total: seen.append((done, total))
            )
            assert fetched == Fetched(two.target, size, digest, 0)
            assert two.target.read_bytes() == content
            await asyncio.sleep(0.05)
            assert (seen[0], seen[-1]) == ((0, size), (size, size))
            assert two.left() == []
            assert (two.sent, two.errors) == ([size], [])

    on_loop(loop, scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_the_event_loop_stays_quick(tmp_path: Path, loop: str) -> None:
    """Both ends are in this process, and the machine computes for others: a real node does half of it."""

    async def scenario() -> None:
        size = 64 * MEGABYTE
        async with pair(tmp_path, size) as (two, content):
            late: list[float] = []

            async def tick() -> None:
                while True:
                    before = time.perf_counter()
                    await asyncio.sleep(0.005)
                    late.append(time.perf_counter() - before - 0.005)

            ticking = asyncio.create_task(tick())
            began = time.perf_counter()
            fetched = await two.fetch()
            seconds = time.perf_counter() - began
            ticking.cancel()
            assert fetched.sha256 == hashlib.sha256(content).hexdigest()
            late.sort()
            p99 = late[int(len(late) * 0.99)]
            rate = f"{size / seconds / 1e6:.0f} MB/s, p99 {1e3 * p99:.1f} ms"
            assert p99 < 0.02, rate

    on_loop(loop, scenario())


async def test_a_fetch_goes_on_where_it_was_cancelled(tmp_path: Path) -> None:
    async with pair(tmp_path, 24 * MEGABYTE) as (two, content):
        enough = asyncio.Event()
        fetching = asyncio.create_task(two.fetch(progress=lambda done, _: enough.set() if done else None))
        await enough.wait()
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        assert not two.target.exists()
        (partial,) = two.left()
        there = partial.stat().st_size
        assert 0 < there < len(content)
        fetched = await two.fetch(sha256=hashlib.sha256(content).hexdigest())
        assert fetched.resumed == there
        assert two.target.read_bytes() == content
        assert two.left() == []
        # The other side notes it when the last answer is out, which may be after the file is whole here.
        await until(lambda: bool(two.sent))
        assert two.sent == [len(content) - there]


async def test_a_fetch_goes_on_after_the_link_was_lost(tmp_path: Path) -> None:
    async with pair(tmp_path, 24 * MEGABYTE) as (two, content):

        def cut(done: int, _: int) -> None:
            if done:
                two.b.plane.forbid(two.a.id)

        with pytest.raises(LinkClosed):
            await two.fetch(progress=cut)
        two.b.plane.allow(two.a.id, two.a.certificate)
        fetched = await two.fetch()
        assert fetched.resumed > 0
        assert two.target.read_bytes() == content


async def test_what_is_left_of_another_version_is_not_used(tmp_path: Path) -> None:
    async with pair(tmp_path, 2 * MEGABYTE) as (two, _):
        two.target.parent.mkdir()
        other = transfer._Request("weights", two.target, "", 0, None, 1).partial(b"another!")
        other.write_bytes(b"x" * MEGABYTE)
        assert (await two.fetch()).resumed == 0


async def test_a_part_of_a_file(tmp_path: Path) -> None:
    async with pair(tmp_path, MEGABYTE) as (two, content):
        fetched = await two.fetch(offset=1000, length=500_000)
        assert two.target.read_bytes() == content[1000:501_000]
        assert fetched.sha256 == hashlib.sha256(content[1000:501_000]).hexdigest()
        assert (await two.fetch(offset=MEGABYTE - 3)).size == 3
        with pytest.raises(DownloadFailed, match="fewer than were asked for"):
            await two.fetch(offset=MEGABYTE - 3, length=4)


@pytest.mark.parametrize("file_id", ["../weights", "/etc/passwd", "other", "folder", "gone"])
async def test_only_what_lookup_allows_is_sent(tmp_path: Path, file_id: str) -> None:
    async with pair(tmp_path, 10) as (two, _):
        with pytest.raises(DownloadFailed, match="no such file, or does not give it"):
            await two.fetch(file_id)
        assert not two.target.exists()
        assert two.errors == []


async def test_another_file_than_expected_is_not_installed(tmp_path: Path) -> None:
    async with pair(tmp_path, 1000) as (two, _):
        two.target.parent.mkdir()
        two.target.write_text("as it was")
        with pytest.raises(DownloadFailed, match="it is another file"):
            await two.fetch(sha256="00" * 32)
        assert two.target.read_text() == "as it was"
        assert two.left() == []


async def test_a_file_that_is_too_large_is_refused_before_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair(tmp_path, 1000) as (two, _):
        with pytest.raises(DownloadFailed, match="at most 999 are taken"):
            await two.fetch(largest=999)
        usage = shutil.disk_usage(tmp_path)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10))
        with pytest.raises(StorageError, match=r"1000 bytes are needed in .*, 10 are free"):
            await two.fetch()
        assert not two.target.exists()


async def test_two_fetches_of_one_file_do_not_mix(tmp_path: Path) -> None:
    async with pair(tmp_path, 16 * MEGABYTE) as (two, content):
        begun = asyncio.Event()
        first = asyncio.create_task(two.fetch(progress=lambda *_: begun.set()))
        await begun.wait()
        with pytest.raises(DownloadFailed, match="being fetched already"):
            await two.fetch()
        await first
        assert two.target.read_bytes() == content


async def test_a_file_that_shrinks_while_it_is_sent_ends_the_transfer(tmp_path: Path) -> None:
    async with pair(tmp_path, 24 * MEGABYTE) as (two, _):
        with pytest.raises(LinkClosed):
            await two.fetch(progress=lambda done, _: (tmp_path / "weights").write_bytes(b""))
        await asyncio.sleep(0.05)
        assert any("became shorter" in str(error) for error in two.errors)
        assert not two.target.exists()


async def test_a_silent_node_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "STALL_SECONDS", 0.2)
    async with pair(tmp_path, 10) as (two, _):
        two.b.handler = None
        with pytest.raises(LinkClosed, match="said nothing"):
            await two.fetch()


async def test_requests_out_of_bounds_are_refused(tmp_path: Path) -> None:
    messages = [
        b"rubbish",
        transfer_messages.encode(transfer_messages.Start(offset=0, length=1)),
        transfer_messages.encode({"t": "ask", "id": "x" * 257}),
    ]
    async with pair(tmp_path, 10) as (two, _):
        for message in messages:
            channel = await two.a.connect(two.b, ChannelKind.TRANSFER)
            await channel.send(message)
            with pytest.raises(LinkClosed):
                await channel.receive()
        channel = await two.a.connect(two.b, ChannelKind.TRANSFER)
        await channel.send(transfer_messages.encode(transfer_messages.Ask(id="weights")))
        await channel.receive()
        await channel.send(transfer_messages.encode(transfer_messages.Start(offset=4, length=7)))
        with pytest.raises(LinkClosed):
            await channel.receive()
        await asyncio.sleep(0.05)
        assert [type(error) for error in two.errors] == [WireError] * 4


@given(st.binary(max_size=300))
def test_messages_are_understood_or_refused(data: bytes) -> None:
    with contextlib.suppress(WireError):
        transfer_messages.decode(data)
