"""Files between nodes, over a TRANSFER channel: asked for by an id, never by a path.

Where the channel is TLS, all of it happens on the loop for transfers; the disk is left to threads in any
case. A fetch goes on from where an earlier one of the same file ended.
"""

import asyncio
import contextlib
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from filelock import FileLock, Timeout

from meshllm_core.errors import DownloadFailed, LinkClosed, StorageError, WireError
from meshllm_core.transport.link import Channel
from meshllm_core.transport.tls_bulk import BulkChannel
from meshllm_core.transport.transfer_messages import (
    FRAME_BYTES,
    ID_CHARACTERS,
    Ask,
    Message,
    Offer,
    Refused,
    Start,
    Sum,
    decode,
    encode,
)

T = TypeVar("T")
M = TypeVar("M", bound=Message)

Lookup = Callable[[str], Path | None]
Progress = Callable[[int, int], None]
"""Bytes that are there and bytes that there will be."""

STALL_SECONDS = 30.0
"""So long the other side may say nothing."""
PROGRESS_SECONDS = 0.1
LARGEST = 1 << 42
"""Bytes of a file that are fetched at most unless told otherwise."""

_HASHED_AT_ONCE = 8 << 20


@dataclass(frozen=True)
class Fetched:
    """A file that was fetched whole."""

    path: Path
    size: int
    sha256: str
    """In hex, of all that is in the file."""
    resumed: int
    """Bytes that were there from an earlier try."""


async def serve_file(channel: Channel, lookup: Lookup) -> int:
    """Answers one request on a channel that a peer opened; `lookup` says which ids it may have.

    Returns how many bytes were sent. Raises LinkClosed, WireError; StorageError when reading fails.
    `lookup` is called in a thread.
    """
    if isinstance(channel, BulkChannel):
        return await channel.bulk.run(_serve(channel.inner, lookup))
    return await _serve(channel, lookup)


async def fetch_file(
    channel: Channel,
    file_id: str,
    target: Path,
    *,
    sha256: str = "",
    offset: int = 0,
    length: int | None = None,
    largest: int = LARGEST,
    progress: Progress | None = None,
) -> Fetched:
    """Fetches `length` bytes from `offset` of the file `file_id` into `target`, which appears whole.

    The channel is used up. `sha256` (hex) is what the fetched bytes must have; `progress` is called on the
    caller's loop. When this is cancelled or fails, what has arrived is kept for the next try.
    Raises DownloadFailed, StorageError, LinkClosed, WireError.
    """
    request = _Request(file_id, target, sha256.lower(), offset, length, largest)
    if isinstance(channel, BulkChannel):
        loop = asyncio.get_running_loop()
        report = progress

        def told(done: int, total: int) -> None:
            if report is not None:
                loop.call_soon_threadsafe(report, done, total)

        return await channel.bulk.run(_fetch(channel.inner, request, told))
    return await _fetch(channel, request, progress or _silent)


@dataclass(frozen=True)
class _Request:
    file_id: str
    target: Path
    sha256: str
    offset: int
    length: int | None
    largest: int

    def partial(self, tag: bytes) -> Path:
        """Where it arrives: another place for each file, version and range."""
        what = f"{self.file_id}\0{self.offset}\0{self.length}\0{tag.hex()}".encode()
        name = hashlib.blake2s(what, digest_size=8).hexdigest()
        return self.target.with_name(f".{self.target.name}.{name}.part")


async def _serve(channel: Channel, lookup: Lookup) -> int:
    async with _given_up_on_error(channel):
        channel.limit = FRAME_BYTES
        asked = await _message(channel, Ask)
        path = await asyncio.to_thread(lookup, asked.id)
        file = await asyncio.to_thread(_opened, path) if path is not None else None
        if file is None:
            await channel.send(encode(Refused(text="it has no such file, or does not give it to others")))
            await _farewell(channel)
            return 0
        with file:
            size, tag = await asyncio.to_thread(_facts, file)
            await channel.send(encode(Offer(size=size, tag=tag)))
            start = await _message(channel, Start)
            if start.offset + start.length > size:
                raise WireError(f"Bytes {start.offset}+{start.length} of a file of {size} were asked for.")
            await _send(channel, file, start)
        await _farewell(channel)
        return start.length


async def _send(channel: Channel, file: BinaryIO, start: Start) -> None:
    digest = hashlib.sha256()

    def read(count: int) -> bytes:
        data = file.read(count)
        digest.update(data)
        return data

    await asyncio.to_thread(file.seek, start.offset)
    left = start.length
    while left:
        data = await _on_disk(read, min(left, FRAME_BYTES))
        if not data:
            raise StorageError(f"{file.name} became shorter while it was sent.")
        await channel.send(data)
        left -= len(data)
    await channel.send(encode(Sum(sha256=digest.digest())))


async def _fetch(channel: Channel, request: _Request, progress: Progress) -> Fetched:
    async with _given_up_on_error(channel):
        channel.limit = FRAME_BYTES
        if not 0 < len(request.file_id) <= ID_CHARACTERS:
            raise DownloadFailed(f"A file's id has 1 to {ID_CHARACTERS} characters.")
        await channel.send(encode(Ask(id=request.file_id)))
        offer: Offer | Refused = await _message(channel, Offer, Refused)
        if isinstance(offer, Refused):
            await _farewell(channel)
            raise DownloadFailed(f"The node does not send {request.file_id}: {offer.text}.")
        total = offer.size - request.offset if request.length is None else request.length
        if total < 0 or request.offset + total > offer.size:
            raise DownloadFailed(f"{request.file_id} has {offer.size} bytes, fewer than were asked for.")
        if total > request.largest:
            raise DownloadFailed(
                f"{request.file_id} has {total} bytes; at most {request.largest} are taken here."
            )
        async with _partial_file(request, offer.tag, total) as (partial, file):
            digest = hashlib.sha256()
            there = await _hash_existing(file, digest, total)
            await channel.send(encode(Start(offset=request.offset + there, length=total - there)))
            await _receive(channel, file, digest, there, total, progress)
            await _farewell(channel)
            await _on_disk(_install, partial, file, request, digest.hexdigest())
        return Fetched(request.target, total, digest.hexdigest(), there)


async def _receive(
    channel: Channel, file: BinaryIO, digest: Any, there: int, total: int, progress: Progress
) -> None:
    sent = hashlib.sha256()

    def write(data: bytes) -> None:
        file.write(data)
        digest.update(data)
        if there:
            sent.update(data)

    loop = asyncio.get_running_loop()
    done, told = there, 0.0
    progress(done, total)
    while done < total:
        data = await _next(channel)
        if len(data) > total - done:
            raise WireError("The node sent more than it was asked for.")
        await _on_disk(write, data)
        done += len(data)
        if done == total or loop.time() - told > PROGRESS_SECONDS:
            told = loop.time()
            progress(done, total)
    check = await _message(channel, Sum)
    if check.sha256 != (sent if there else digest).digest():
        raise DownloadFailed("What arrived is not what the node says that it sent.", hint="Fetch it again.")


@contextlib.asynccontextmanager
async def _partial_file(request: _Request, tag: bytes, total: int) -> AsyncIterator[tuple[Path, BinaryIO]]:
    """What has arrived so far, open for more, and held by nobody else."""
    partial = request.partial(tag)
    lock = FileLock(f"{partial}.lock", timeout=0, thread_local=False)
    try:
        file = await _on_disk(_open_partial, partial, lock, total)
    except Timeout:
        raise DownloadFailed(
            f"{request.target.name} is being fetched already.", hint="Wait until that is done."
        ) from None
    try:
        with file:
            yield partial, file
    finally:
        _release(lock)


def _release(lock: FileLock) -> None:
    with contextlib.suppress(OSError):
        # Windows does not delete what is open; there filelock does it.
        Path(lock.lock_file).unlink()
    lock.release()


def _open_partial(partial: Path, lock: FileLock, total: int) -> BinaryIO:
    partial.parent.mkdir(parents=True, exist_ok=True)
    lock.acquire()
    file = partial.open("a+b")
    free = shutil.disk_usage(partial.parent).free
    if total - file.tell() > free:
        file.close()
        lock.release()
        raise StorageError(
            f"{total} bytes are needed in {partial.parent}, {free} are free.", hint="Free some space."
        )
    return file


async def _hash_existing(file: BinaryIO, digest: Any, total: int) -> int:
    """Puts what is there already into the digest; returns how much that is."""

    def begin() -> None:
        if file.seek(0, os.SEEK_END) > total:
            file.truncate(0)
        file.seek(0)

    def more() -> int:
        data = file.read(_HASHED_AT_ONCE)
        digest.update(data)
        return len(data)

    await _on_disk(begin)
    there = 0
    while count := await _on_disk(more):
        there += count
    return there


def _install(partial: Path, file: BinaryIO, request: _Request, found: str) -> None:
    file.flush()
    if request.sha256 and found != request.sha256:
        partial.unlink()
        raise DownloadFailed(
            f"{request.file_id} has the SHA-256 {found}, not {request.sha256}: it is another file.",
            hint="Fetch it from another node.",
        )
    partial.replace(request.target)


def _opened(path: Path) -> BinaryIO | None:
    """The file; None for what is no file, or cannot be read."""
    try:
        return path.open("rb") if path.is_file() else None
    except OSError:
        return None


def _facts(file: BinaryIO) -> tuple[int, bytes]:
    """Its size, and a tag that changes when it does."""
    stat = os.fstat(file.fileno())
    what = f"{stat.st_size} {stat.st_mtime_ns}".encode()
    return stat.st_size, hashlib.blake2s(what, digest_size=8).digest()


async def _on_disk(work: Callable[..., T], *arguments: Any) -> T:
    """Runs `work` in a thread, to its end even when this is cancelled. Raises StorageError for OSError."""
    doing = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        # The file must not be closed under the thread that writes it.
        await asyncio.wait([doing])
        raise
    except Timeout:
        raise
    except OSError as error:
        raise StorageError(
            f"A transfer cannot go on: {error.strerror or error}.", hint="Look at the disk's free space."
        ) from error


async def _next(channel: Channel) -> bytes:
    """The next frame of a side that has not finished."""
    try:
        async with asyncio.timeout(STALL_SECONDS):
            frame = await channel.receive()
    except TimeoutError:
        raise LinkClosed(f"The other node said nothing for {STALL_SECONDS:.0f} s.") from None
    if not frame:
        raise WireError("The other node ended a transfer in the middle.")
    return frame


async def _message(channel: Channel, *kinds: type[M]) -> M:
    message = decode(await _next(channel))
    if not isinstance(message, kinds):
        raise WireError(f"The other node sent a {type(message).__name__} out of turn.")
    return message


async def _farewell(channel: Channel) -> None:
    """Both sides finish, so that the connection serves again."""
    await channel.finish()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STALL_SECONDS):
            await channel.receive()


@contextlib.asynccontextmanager
async def _given_up_on_error(channel: Channel) -> AsyncIterator[None]:
    try:
        yield
    finally:
        # After both sides have finished this does nothing.
        channel.abort()


def _silent(done: int, total: int) -> None:
    """Nobody wants to know."""
    del done, total
