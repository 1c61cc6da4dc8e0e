"""The parts of a hub's file that are on this disk; what is missing comes when it is read.

model.gguf.spans       the parts, one behind the other, in the order in which they came
model.gguf.spans.json  which parts they are; written after their bytes, so that no part is listed in vain
"""

import contextlib
import itertools
import os
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from meshllm_core.errors import DownloadFailed
from meshllm_core.models.quants import RemoteFile
from meshllm_core.models.ranges import Ranges
from meshllm_core.models.stage_file import StageFile
from meshllm_core.models.stage_source import SourceFile
from meshllm_core.models.storage import storing
from meshllm_core.models.transfer import Report

SPANS_SUFFIX = ".spans"
MAX_HEAD_BYTES = 256 << 20
"""Most that is fetched to read a head: real ones have some megabytes."""
PART = 64 << 20
"""Longest part that is asked for at once."""
KEPT = 8 << 20
"""After so many bytes they are listed: as much is lost when the program is killed."""
NEAR = 64 << 10
"""Parts that are no further apart are fetched as one: a request costs more than the bytes between."""
_MAX_INDEX_BYTES = 16 << 20

Span = tuple[int, int]
"""First byte, and one past the last."""


class _Part(msgspec.Struct, frozen=True):
    first: int
    end: int


class _Index(msgspec.Struct, frozen=True):
    size: int
    parts: tuple[_Part, ...]


class PartialFile:
    """One file; used by one process at a time, which holds the folder's lock."""

    def __init__(self, ranges: Ranges, base: Path) -> None:
        """`base` is the path that the whole file would have."""
        self.ranges = ranges
        self.remote: RemoteFile = ranges.file
        self._data, self._index = span_files(base)
        self._parts = list(self._known())
        self._read_through = 0
        self.file = SourceFile(base.name, self.remote.size, self.read)

    def read(self, offset: int, length: int) -> bytes:
        """Exactly those bytes, fetched if they are not here. Raises DownloadFailed, StorageError."""
        if length == 0:
            return b""
        gaps = self.missing([(offset, offset + length)])
        if gaps:
            self._read_through += sum(end - first for first, end in gaps)
            if self._read_through > MAX_HEAD_BYTES:
                raise DownloadFailed(
                    f"{self.remote.path} cannot be read in parts: its head is longer than {MAX_HEAD_BYTES} "
                    "bytes.",
                    hint="It is damaged or not a model: use another one.",
                )
            self.fetch(gaps)
        with storing(self._data.parent), self._data.open("rb") as stream:
            return b"".join(self._pieces(stream, offset, offset + length))

    def _pieces(self, stream: BinaryIO, first: int, end: int) -> Iterable[bytes]:
        starts, at = self._starts(), 0
        placed = sorted(
            (part.first, part.end, start) for part, start in zip(self._parts, starts, strict=True)
        )
        at = bisect_right(placed, (first, 1 << 63, 0)) - 1
        while first < end:
            begin, stop, start = placed[at]
            count = min(end, stop) - first
            stream.seek(start + first - begin)
            yield stream.read(count)
            first, at = first + count, at + 1

    def missing(self, spans: Iterable[Span]) -> list[Span]:
        """What of `spans` is not here, in order, without overlaps."""
        here = sorted((part.first, part.end) for part in self._parts)
        found: list[Span] = []
        for first, end in _merged(spans, 0):
            for known_first, known_end in here:
                if known_end <= first or known_first >= end:
                    continue
                if known_first > first:
                    found.append((first, known_first))
                first = min(end, known_end)
            if first < end:
                found.append((first, end))
        return found

    def fetch(
        self,
        spans: Iterable[Span],
        *,
        on_progress: Callable[[int], None] = lambda done: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Fetches what of `spans` is not here; `on_progress` gets the bytes of it that have come.

        Raises DownloadFailed, HubUnreachable, StorageError; whole parts stay.
        """
        done, report = 0, Report(on_progress)
        for first, end in self.missing(_merged(self.missing(spans), NEAR)):
            for start in range(first, end, PART):
                stop = min(end, start + PART)
                # Closed at once, however this ends: what has come is listed then.
                with contextlib.closing(self._fetch_part(start, stop, cancelled)) as chunks:
                    for chunk_bytes in chunks:
                        done += chunk_bytes
                        report(done)
        report(done, force=True)

    def _fetch_part(self, first: int, end: int, cancelled: Callable[[], bool]) -> Generator[int]:
        """Yields the lengths of what comes; however it ends, that is listed."""
        kept = sum(part.end - part.first for part in self._parts)
        with storing(self._data.parent):
            self._data.parent.mkdir(parents=True, exist_ok=True)
            with self._data.open("ab") as stream:
                # What a killed program left behind the last listed part is not known to be whole.
                stream.truncate(kept)
                listed = at = first
                try:
                    for chunk in self.ranges.stream(first, end - first, cancelled=cancelled):
                        stream.write(chunk)
                        at += len(chunk)
                        if at - listed >= KEPT:
                            self._list(stream, listed, at)
                            listed = at
                        yield len(chunk)
                finally:
                    self._list(stream, listed, at)

    def _list(self, stream: BinaryIO, first: int, end: int) -> None:
        """Makes the bytes [first, end) of the file, the last that were written, known to the next start."""
        if first == end:
            return
        stream.flush()
        os.fsync(stream.fileno())
        if self._parts and self._parts[-1].end == first:
            first = self._parts.pop().first
        self._parts.append(_Part(first, end))
        fresh = self._index.with_name(self._index.name + ".new")
        fresh.write_bytes(msgspec.json.encode(_Index(self.remote.size, tuple(self._parts))))
        fresh.replace(self._index)

    def _starts(self) -> list[int]:
        """Where each part begins in the data file."""
        starts, at = [], 0
        for part in self._parts:
            starts.append(at)
            at += part.end - part.first
        return starts

    def _known(self) -> tuple[_Part, ...]:
        """The parts that the index lists, if it is one of this file and they are as they were written."""
        try:
            if self._index.stat().st_size > _MAX_INDEX_BYTES:
                return ()
            index = msgspec.json.decode(self._index.read_bytes(), type=_Index)
            here = self._data.stat().st_size
        except (OSError, msgspec.DecodeError, RecursionError):
            return ()
        ordered = sorted((part.first, part.end) for part in index.parts)
        apart = all(a[1] <= b[0] for a, b in itertools.pairwise(ordered))
        inside = all(0 <= first < end <= self.remote.size for first, end in ordered)
        whole = sum(end - first for first, end in ordered) <= here
        return index.parts if index.size == self.remote.size and apart and inside and whole else ()


def span_files(base: Path) -> tuple[Path, Path]:
    """Where the parts of a file are kept, and which they are; `base` is the path of the whole."""
    return base.with_name(base.name + SPANS_SUFFIX), base.with_name(base.name + SPANS_SUFFIX + ".json")


def pieces_of(plan: StageFile, part: PartialFile) -> list[Span]:
    """The bytes of one file that a stage is made from."""
    found = [tensor.piece for tensor in plan.copied if tensor.piece and tensor.piece.file == part.file]
    return [(p.offset, p.offset + (p.count - 1) * p.stride + p.length) for p in found]


def fetch_pieces(
    plan: StageFile,
    parts: Sequence[PartialFile],
    *,
    on_progress: Callable[[int, int], None],
    cancelled: Callable[[], bool],
) -> None:
    """Fetches what a stage needs and is not here. `on_progress` gets bytes that have come, and in all."""
    wanted = [(part, part.missing(pieces_of(plan, part))) for part in parts]
    total, before = sum(end - first for _, spans in wanted for first, end in spans), 0
    for part, spans in wanted:
        if not spans:
            continue

        def report(done: int, before: int = before) -> None:
            on_progress(min(total, before + done), total)

        part.fetch(spans, on_progress=report, cancelled=cancelled)
        before += sum(end - first for first, end in spans)


def _merged(spans: Iterable[Span], gap: int) -> list[Span]:
    """In order, and one where they overlap or are at most `gap` bytes apart."""
    found: list[Span] = []
    for first, end in sorted(span for span in spans if span[0] < span[1]):
        if found and first <= found[-1][1] + gap:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return found
