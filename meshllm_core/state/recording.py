"""A recording of a node: a header, a snapshot, then events with times; one JSON document per line. Pure.

A snapshot stands also where events were missed, so that a reader never folds over a gap. Times are
seconds since the recording began.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from meshllm_core.errors import ConfigError
from meshllm_core.state.events import AnyEvent
from meshllm_core.state.snapshot import NodeSnapshot

FORMAT: Final = 1
FILE_LIMIT: Final = 256 << 20
"""Bytes of a recording."""
LINE_LIMIT: Final = 32 << 20
"""Bytes of one line; the largest is a snapshot of a mesh with thousands of members."""
FRAMES_LIMIT: Final = 1_000_000
"""Lines of a recording."""
HINT: Final = "A recording is made by `meshllm record FILE`."


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    meshllm_recording: int
    """FORMAT."""
    version: str
    """Of meshllm, when it was recorded."""
    at: float
    """When it began, seconds since the epoch."""
    redacted: bool = False
    """Names, addresses and ids are not the real ones."""


class SnapshotTaken(msgspec.Struct, frozen=True, kw_only=True, tag="snapshot", tag_field="kind"):
    """The whole node, as it was then."""

    after: float
    snapshot: NodeSnapshot


class EventHappened(msgspec.Struct, frozen=True, kw_only=True, tag="event", tag_field="kind"):
    """One event, which follows the line before without a gap."""

    after: float
    sequence: int
    event: AnyEvent


Frame = SnapshotTaken | EventHappened

_HEADER = msgspec.json.Decoder(Header)
_FRAME: msgspec.json.Decoder[Frame] = msgspec.json.Decoder(SnapshotTaken | EventHappened)


def encode(line: Header | Frame) -> bytes:
    """A line with its end."""
    return msgspec.json.encode(line) + b"\n"


def decode_header(raw: bytes) -> Header:
    """The first line. Raises ConfigError."""
    try:
        header = _HEADER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"line 1 is no header of a recording: {error}.", hint=HINT) from None
    if header.meshllm_recording != FORMAT:
        raise ConfigError(
            f"line 1: this is a recording of format {header.meshllm_recording}, and {FORMAT} is known here.",
            hint="Replay it with the version of meshllm that recorded it.",
        )
    return header


def decode_frame(raw: bytes, number: int) -> Frame:
    """A later line; `number` counts from 1. Raises ConfigError."""
    try:
        return _FRAME.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"line {number} is no event and no snapshot: {error}.", hint=HINT) from None


@dataclass
class Index:
    """Where each line of a checked recording is, and when; the lines themselves stay in the file."""

    header: Header
    times: "array[float]" = field(default_factory=lambda: array("d"))
    """`after` of each frame; never falls."""
    offsets: "array[int]" = field(default_factory=lambda: array("Q"))
    lengths: "array[int]" = field(default_factory=lambda: array("Q"))
    events: int = 0
    cut: bool = False
    """The last line has no end: whoever recorded was stopped while it was written. It is left out."""

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return self.times[-1] if self.times else 0.0

    def at(self, seconds: float) -> int:
        """How many frames have happened by then."""
        return bisect_right(self.times, seconds)


def index_lines(lines: Iterable[bytes]) -> Index:
    """Check every line and note its place. Lines longer than LINE_LIMIT must come cut, without an end.

    Raises ConfigError with the number of the first line that is wrong.
    """
    index: Index | None = None
    offset, sequence = 0, 0
    for number, raw in enumerate(lines, start=1):
        _check_size(raw, number, offset)
        if index is None:
            index = Index(decode_header(raw))
        elif not raw.endswith(b"\n"):
            index.cut = True
        else:
            frame = decode_frame(raw, number)
            sequence = _follows(frame, index, sequence, number)
            index.times.append(frame.after)
            index.offsets.append(offset)
            index.lengths.append(len(raw))
            index.events += isinstance(frame, EventHappened)
        offset += len(raw)
    if index is None:
        raise ConfigError("the file is empty.", hint=HINT)
    if not index.times:
        raise ConfigError("line 2 is missing: there is no snapshot to begin with.", hint=HINT)
    return index


def _check_size(raw: bytes, number: int, offset: int) -> None:
    if len(raw) >= LINE_LIMIT:
        raise ConfigError(f"line {number} is longer than {LINE_LIMIT >> 20} MiB.", hint=HINT)
    if number > FRAMES_LIMIT + 1:
        raise ConfigError(f"line {number}: there are more than {FRAMES_LIMIT:,} lines.", hint=HINT)
    if offset + len(raw) > FILE_LIMIT:
        raise ConfigError(f"line {number}: the file is larger than {FILE_LIMIT >> 20} MiB.", hint=HINT)


def _follows(frame: Frame, index: Index, sequence: int, number: int) -> int:
    """The frame's place in the node's log. Raises ConfigError where it cannot stand here."""
    if not frame.after >= index.seconds or frame.after == float("inf"):
        raise ConfigError(f"line {number}: its time lies before that of the line above.", hint=HINT)
    if isinstance(frame, SnapshotTaken):
        return frame.snapshot.sequence
    if not index.times:
        raise ConfigError(f"line {number}: an event stands before any snapshot.", hint=HINT)
    if frame.sequence != sequence + 1:
        raise ConfigError(
            f"line {number}: event {frame.sequence} does not follow {sequence}.",
            hint="Lines were taken out or put in.",
        )
    return frame.sequence
