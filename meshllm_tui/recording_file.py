"""A recording that is open: any moment of it, folded from the nearest one that is known. No Textual here."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from meshllm_core.errors import ConfigError
from meshllm_core.state.recording import LINE_LIMIT, Frame, Index, SnapshotTaken, decode_frame, index_lines
from meshllm_core.state.reduce import reduce
from meshllm_core.state.snapshot import NodeSnapshot

MARK_EVERY = 1000
"""Frames between two moments that are remembered."""


class Recording:
    """Gives frames and snapshots by their place. Moments that were passed are remembered now and then."""

    def __init__(self, file: BinaryIO, index: Index) -> None:
        self.index = index
        self._file = file
        self._marks: dict[int, NodeSnapshot] = {}

    def frame(self, place: int) -> Frame:
        """The frame at a place, counted from 0. Raises ConfigError when the file was changed meanwhile."""
        self._file.seek(self.index.offsets[place])
        return decode_frame(self._file.read(self.index.lengths[place]), place + 2)

    def next_state(self, before: NodeSnapshot, place: int) -> NodeSnapshot:
        """The snapshot after the frame at `place`, which follows on `before`."""
        frame = self.frame(place)
        after = frame.snapshot if isinstance(frame, SnapshotTaken) else reduce(before, frame.event)
        if place % MARK_EVERY == 0:
            self._marks[place] = after
        return after

    def state(self, count: int) -> NodeSnapshot:
        """The snapshot after the first `count` frames; before the first: the one it begins with."""
        last = max(count, 1) - 1
        mark = max((place for place in self._marks if place <= last), default=0)
        state = self._marks.get(mark) or self.next_state(NodeSnapshot(), 0)
        for place in range(mark + 1, last + 1):
            state = self.next_state(state, place)
        return state

    def state_at(self, seconds: float) -> NodeSnapshot:
        """The snapshot at a time."""
        return self.state(self.index.at(seconds))


@contextmanager
def open_recording(path: Path) -> Iterator[Recording]:
    """Opens and checks a recording. Raises ConfigError, naming the line that is wrong."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.", hint="Check its name.") from None
    with file:
        try:
            index = index_lines(iter(lambda: file.readline(LINE_LIMIT), b""))
        except ConfigError as error:
            raise ConfigError(f"{path}: {error.message}", hint=error.hint) from None
        except OSError as error:
            raise ConfigError(f"Cannot read {path}: {error.strerror}.", hint="Is it a file?") from None
        yield Recording(file, index)
