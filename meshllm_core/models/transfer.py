"""Fetches one file over HTTP: resumes, checks, and puts it in place whole or not at all."""

import hashlib
import math
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import BinaryIO, Protocol

import httpx2

from meshllm_core.errors import DownloadFailed
from meshllm_core.models.quants import RemoteFile
from meshllm_core.models.storage import PARTIAL_SUFFIX, storing
from meshllm_core.models.units import printable

Progress = Callable[[int], None]
"""Gets the bytes of the file that are here."""

WINDOW = 16 << 30
"""Bytes asked for at once: the hub's front end refuses answers beyond 50 GB."""
PROGRESS_EVERY = 0.25
"""Seconds between two reports."""
TRIES = 5
"""Tries in a row that may end without a new byte."""
MAX_WAIT = 8.0
"""Seconds between two tries at most, where the hub does not ask for more."""
MAX_ASKED = 120.0
"""Seconds of patience that a hub is granted; the person is told if it wants more."""

_READ = 1 << 20
CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


class NoNewBytes(Exception):
    """A try ended early, for a reason that may pass."""

    def __init__(self, what: str, asked: float = 0.0) -> None:
        """`asked`: seconds that the hub wants to have passed before the next try."""
        super().__init__(what)
        self.asked = asked


@dataclass(frozen=True)
class Transfer:
    """Where a file comes from."""

    client: httpx2.Client
    url: str
    headers: dict[str, str]
    check: Callable[[httpx2.Response], None]
    """Raises the hub's own errors for a refusal."""
    timeout: httpx2.Timeout
    retry_wait: float

    def run(
        self, file: RemoteFile, target: Path, *, on_progress: Progress, cancelled: Callable[[], bool]
    ) -> None:
        """Fetches `file` to `target`. A partial file stays unless its content turns out wrong."""
        partial = target.with_name(target.name + PARTIAL_SUFFIX)
        with storing(target.parent):
            target.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("ab+") as stream:
                digest = self._fill(file, stream, Report(on_progress), cancelled)
                stream.flush()
                os.fsync(stream.fileno())
            if digest != (file.sha256 or file.git_sha1 or digest):
                partial.unlink()
                raise DownloadFailed(
                    f"{file.path} arrived damaged: its hash is not what the hub names. It was removed.",
                    hint="Try again; if it happens twice, the network or a proxy changes the data.",
                )
            partial.replace(target)

    def _fill(
        self, file: RemoteFile, stream: BinaryIO, report: "Report", cancelled: Callable[[], bool]
    ) -> str:
        """Appends what is missing; returns the hash of the whole."""
        done = stream.seek(0, os.SEEK_END)
        if done > file.size:
            done = stream.truncate(0)
        digest = _hash_of(file, stream, done, cancelled)
        report(done, force=True)
        failures, furthest = 0, done
        while done < file.size:
            try:
                for chunk in self._chunks(file, done):
                    stop_if(cancelled, file)
                    if chunk is None:
                        # The server does not resume: from the beginning, then.
                        done = stream.truncate(0)
                        digest = _new_hash(file)
                        continue
                    stream.write(chunk)
                    digest.update(chunk)
                    done += len(chunk)
                    report(done)
            except (httpx2.TransportError, NoNewBytes) as error:
                failures = 1 if done > furthest else failures + 1
                furthest = max(furthest, done)
                if failures >= TRIES:
                    raise DownloadFailed(
                        f"The download of {file.path} stopped at {done} of {file.size} bytes: "
                        f"{reason_of(error)}.",
                        hint="Run the command again to go on from there.",
                    ) from error
                wait(pause(error, failures, self.retry_wait), cancelled, file)
        report(done, force=True)
        return digest.hexdigest()

    def _chunks(self, file: RemoteFile, start: int) -> Iterator[bytes | None]:
        """Bytes from `start` on, up to a window's end; None first if they come from the beginning instead."""
        end = min(start + WINDOW, file.size) - 1
        headers = {**self.headers, "Range": f"bytes={start}-{end}"}
        with self.client.stream("GET", self.url, headers=headers, timeout=self.timeout) as response:
            stop_passing(file, response)
            if response.status_code == 416:
                raise damaged(file, "the hub has a shorter one")
            self.check(response)
            same_file(file, response)
            left = end + 1 - start
            if response.status_code == 200:
                if start:
                    yield None
                left = file.size
            elif not _starts_at(response, start):
                raise damaged(file, "the hub sent another part of it than was asked for")
            for chunk in response.iter_bytes():
                if len(chunk) > left:
                    raise damaged(file, "the hub sent more bytes than it announced")
                left -= len(chunk)
                yield chunk
            if left:
                raise NoNewBytes("the connection ended early")


class Report:
    """Hands progress on, four times a second at most."""

    def __init__(self, on_progress: Progress) -> None:
        self._on_progress = on_progress
        self._last = 0.0

    def __call__(self, done: int, *, force: bool = False) -> None:
        now = time.monotonic()
        if force or now - self._last >= PROGRESS_EVERY:
            self._last = now
            self._on_progress(done)


def _new_hash(file: RemoteFile) -> _Hash:
    if file.sha256 or not file.git_sha1:
        return hashlib.sha256()
    # Git names a small file by the SHA-1 of a header and its content; here it guards against accidents only.
    digest = hashlib.sha1(usedforsecurity=False)
    digest.update(b"blob %d\0" % file.size)
    return digest


def _hash_of(file: RemoteFile, stream: BinaryIO, size: int, cancelled: Callable[[], bool]) -> _Hash:
    digest = _new_hash(file)
    stream.seek(0)
    while size and (block := stream.read(min(_READ, size))):
        stop_if(cancelled, file)
        digest.update(block)
        size -= len(block)
    stream.seek(0, os.SEEK_END)
    return digest


def stop_if(cancelled: Callable[[], bool], file: RemoteFile) -> None:
    """Raises DownloadFailed when the download is no longer wanted."""
    if cancelled():
        raise DownloadFailed(
            f"The download of {file.path} was cancelled.", hint="Start it again to go on from there."
        )


def stop_passing(file: RemoteFile, response: httpx2.Response) -> None:
    """Raises NoNewBytes for a refusal that may pass; DownloadFailed when that takes too long."""
    status = response.status_code
    if status not in (408, 429, 500, 502, 503, 504):
        return
    asked = _asked(response.headers.get("Retry-After", ""))
    if asked > MAX_ASKED:
        minutes = math.ceil(asked / 60)
        time_asked = f"{minutes} minutes" if minutes < 600 else "for hours"
        raise DownloadFailed(
            f"{file.path} cannot be downloaded now: the hub answered {status} and asks to wait {time_asked}.",
            hint="Run the command again then: it goes on from where it stopped.",
        )
    raise NoNewBytes(f"the hub answered {status}", asked)


def _asked(text: str) -> float:
    """Seconds of a Retry-After, which is a number or a date; 0 for anything else."""
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        when = parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, when - time.time())


def reason_of(error: Exception) -> str:
    """The library's words, to stand before a full stop."""
    return printable(str(error)).rstrip(".") or type(error).__name__


def pause(error: Exception, failures: int, first: float) -> float:
    """Seconds before the next try: doubled with each that brought no byte, and not less than was asked."""
    asked = error.asked if isinstance(error, NoNewBytes) else 0.0
    return max(asked, min(MAX_WAIT, first * 2.0 ** (failures - 1)))


def wait(seconds: float, cancelled: Callable[[], bool], file: RemoteFile) -> None:
    """Sleeps, unless the download is no longer wanted."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        stop_if(cancelled, file)
        time.sleep(min(0.1, left))


def _starts_at(response: httpx2.Response, start: int) -> bool:
    found = CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    return response.status_code == 206 and found is not None and int(found[1]) == start


def same_file(file: RemoteFile, response: httpx2.Response) -> None:
    """Compares the content's name before gigabytes are fetched for nothing."""
    for answer in (*response.history, response):
        linked = answer.headers.get("X-Linked-Etag", "").removeprefix("W/").strip('"').lower()
        if file.sha256 and re.fullmatch(r"[0-9a-f]{64}", linked) and linked != file.sha256:
            raise damaged(file, "the hub now holds another version")


def damaged(file: RemoteFile, what: str) -> DownloadFailed:
    """An error that names the file."""
    return DownloadFailed(f"{file.path} cannot be downloaded: {what}.", hint="Start the download again.")
