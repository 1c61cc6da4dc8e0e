"""`meshllm record`: what a node tells, written down for a bug report or a test."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import typer

from meshllm_core import __version__
from meshllm_core.api.client import ManagementClient
from meshllm_core.cli.connect import ask
from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.options import AsJson, Console
from meshllm_core.cli.output import emit, emit_json
from meshllm_core.cli.text import counted, duration
from meshllm_core.errors import ConfigError, NodeError
from meshllm_core.log import mask
from meshllm_core.state.recording import (
    FILE_LIMIT,
    FORMAT,
    FRAMES_LIMIT,
    EventHappened,
    Frame,
    Header,
    SnapshotTaken,
    encode,
)
from meshllm_core.state.redaction import Redactor

RETRY_SECONDS = 1.0

File = Annotated[Path, typer.Argument(metavar="FILE", help="Where it is written; for you alone to read.")]
Seconds = Annotated[
    float, typer.Option("--seconds", min=0, help="How long; without, until Ctrl+C or until the node ends.")
]
Redact = Annotated[
    bool, typer.Option("--redact", help="Replace names, addresses and ids; models and hardware stay.")
]
Force = Annotated[bool, typer.Option("--force", help="Write over a file that is there.")]


def record(
    file: File,
    seconds: Seconds = 0.0,
    redact: Redact = False,
    force: Force = False,
    as_json: AsJson = False,
    console: Console = "",
) -> None:
    """Record what happens on the node; `meshllm replay` shows it on the same screens."""
    recorder = Recorder(Redactor(os.urandom(32)).frame if redact else lambda frame: frame, redact)
    try:
        ask(lambda client: recorder.run(client, file, force, seconds), console=console)
    except KeyboardInterrupt:
        # The usual way to end it: all that was heard is in the file.
        if not recorder.written:
            raise
    told = {
        "file": str(file),
        "events": recorder.events,
        "seconds": round(recorder.seconds, 3),
        "bytes": recorder.written,
        "redacted": redact,
        "ended": recorder.ended,
    }
    if as_json:
        emit_json(told)
    else:
        words = f"{counted(recorder.events, 'event')} in {duration(recorder.seconds)}"
        emit(f"{file}: {words}, {recorder.written:,} bytes. It ended: {recorder.ended}.")


@dataclass
class Recorder:
    """Writes one recording."""

    change: Callable[[Frame], Frame]
    """What is done to each frame before it is written."""
    redacted: bool = False
    events: int = 0
    frames: int = 0
    written: int = 0
    """Bytes."""
    seconds: float = 0.0
    ended: str = "stopped by Ctrl+C"

    async def run(self, client: ManagementClient, file: Path, force: bool, seconds: float) -> None:
        """Until the time is over, the node ends or the recording is full. Raises ConfigError, NodeError."""
        snapshot = await client.snapshot()
        begun = time.monotonic()
        with _create(file, force) as out:
            say(f"Recording to {file}; Ctrl+C ends it.")
            header = Header(
                meshllm_recording=FORMAT, version=__version__, at=time.time(), redacted=self.redacted
            )
            self._put(out, encode(header))
            self._frame(out, SnapshotTaken(after=0.0, snapshot=snapshot))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds or None):
                    await self._follow(client, out, snapshot.sequence, begun)
                return
            self.seconds, self.ended = time.monotonic() - begun, "the time is over"

    async def _follow(self, client: ManagementClient, out: BinaryIO, sequence: int, begun: float) -> None:
        while True:
            try:
                stream = client.events(sequence)
                async with contextlib.aclosing(stream):
                    async for logged in stream:
                        if logged.sequence != sequence + 1:
                            break
                        sequence = logged.sequence
                        after = time.monotonic() - begun
                        happened = EventHappened(after=after, sequence=sequence, event=logged.event)
                        if not self._frame(out, happened):
                            return
                # The place in the log is not known any more, or the node closes its streams and ends.
                snapshot = await client.snapshot()
            except NodeError as error:
                self.ended = f"the node ended: {error.message}"
                return
            if snapshot.sequence != sequence:
                sequence = snapshot.sequence
                taken = SnapshotTaken(after=time.monotonic() - begun, snapshot=snapshot)
                if not self._frame(out, taken):
                    return
            await asyncio.sleep(RETRY_SECONDS)

    def _frame(self, out: BinaryIO, frame: Frame) -> bool:
        """False when the recording is full."""
        line = encode(masked(self.change(frame)))
        if self.written + len(line) > FILE_LIMIT or self.frames >= FRAMES_LIMIT:
            self.ended = "the recording is as large as one may be"
            return False
        self._put(out, line)
        self.frames += 1
        self.events += isinstance(frame, EventHappened)
        self.seconds = frame.after
        return True

    def _put(self, out: BinaryIO, line: bytes) -> None:
        try:
            out.write(line)
            out.flush()
        except OSError as error:
            raise NodeError(
                f"Cannot write the recording: {error.strerror}.", hint="Is the disk full?"
            ) from None
        self.written += len(line)


def masked(frame: Frame) -> Frame:
    """The frame with whatever looks like a secret taken out of its texts."""
    plain = msgspec.to_builtins(frame)
    return msgspec.convert(_masked(plain), type(frame))


def _masked(value: object) -> object:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {key: _masked(each) for key, each in value.items()}
    return [_masked(each) for each in value] if isinstance(value, list | tuple) else value


def _create(file: Path, force: bool) -> BinaryIO:
    """The open file, readable by its owner only. Raises ConfigError."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if force else os.O_EXCL)
    try:
        return os.fdopen(os.open(file, flags, 0o600), "wb")
    except FileExistsError:
        raise ConfigError(
            f"{file} is there already.", hint="Choose another name, or add --force.", param="FILE"
        ) from None
    except OSError as error:
        raise ConfigError(f"Cannot write {file}: {error.strerror}.", hint="Choose another place.") from None
