"""Stage frames: rows of hidden state on their way from one stage to the next.

A frame holds 1..n consecutive positions of one sequence, or one position of each of many sequences. Prefill
chunks, decode steps, batches and verify windows differ in nothing else. A stage that is ahead of a frame's
position trims itself: there is no message for rollback.

Little-endian, 32 bytes, then what the flags announce, then the rows as their codec writes them:

    magic      4s   "MSF1"
    dtype      u8   see `Dtype`
    flags      u8   1: tokens follow; 2: many sequences; 4: a token is asked of the last row; 8: of every row
    rows       u16
    run        u64  which assignment of stages this belongs to
    sequence   u32  0 with flag 2
    position   u32  of the first row; 0 with flag 2
    width      u32  values per row
    deadline   u32  milliseconds that are left for it, as it was sent; 0: none
    [flag 2]   rows x (sequence u32), rows x (position u32)
    [flag 1]   rows x (token u32)
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntFlag

import numpy as np
from numpy.typing import NDArray

from meshllm_core.errors import EngineError, WireError
from meshllm_core.wire import limits
from meshllm_core.wire.codecs import CODECS, Codec, Dtype, codec_for
from meshllm_core.wire.codecs.base import Bytes, Rows

MAGIC = b"MSF1"
HEADER = struct.Struct("<4sBBHQIIII")
MAX_DEADLINE = (1 << 32) - 1

Numbers = NDArray[np.uint32]


class Flag(IntFlag):
    """Bits of the header."""

    TOKENS = 1
    MANY = 2
    ASK_LAST = 4
    ASK_EVERY = 8


_KNOWN_FLAGS = int(Flag.TOKENS | Flag.MANY | Flag.ASK_LAST | Flag.ASK_EVERY)
_ASK = Flag.ASK_LAST | Flag.ASK_EVERY
NOTHING = Flag(0)
"""No token is asked of any row."""


@dataclass(frozen=True)
class StageFormat:
    """What the frames of one topology run must be. Agreed on before the first; nothing else is taken."""

    run: int
    width: int
    """Values per row."""
    rows: int
    """Most rows of a frame."""
    sequences: int
    """Sequences are numbered below this."""
    positions: int
    """Positions are numbered below this: the context of each sequence."""
    dtypes: frozenset[Dtype]
    """What may arrive: the dtype of the plan, and the one it is widened to."""
    vocabulary: int = 0
    """Token ids are numbered below this; 0 when stages after the first need no tokens."""

    def __post_init__(self) -> None:
        """Raises WireError for a format that is over the limits of this program."""
        for field, value, most in (
            ("run", self.run, (1 << 64) - 1),
            ("width", self.width, limits.STAGE_WIDTH),
            ("rows", self.rows, limits.STAGE_ROWS),
            ("sequences", self.sequences, limits.STAGE_SEQUENCES),
            ("positions", self.positions, 1 << 31),
        ):
            if not 1 <= value <= most:
                raise WireError(f"Stages cannot agree on {field} {value}: 1 to {most}.", param=field)
        if self.frame_bytes > limits.STAGE_FRAME:
            raise WireError(
                f"{self.rows} rows of {self.width} values take {self.frame_bytes} bytes; a frame has "
                f"{limits.STAGE_FRAME} at most.",
                hint="Cut the prefill into smaller chunks.",
                param="rows",
            )

    @property
    def frame_bytes(self) -> int:
        """The largest frame of this format: the limit for the channel that it arrives by."""
        return (
            HEADER.size
            + self.rows * 12
            + max(CODECS[dtype].size_of(self.rows, self.width) for dtype in self.dtypes)
        )


@dataclass(frozen=True, eq=False)
class StageFrame:
    """A frame, read and checked."""

    rows: Rows
    """(n, width) float32."""
    sequences: Numbers
    """(n,): the sequence of each row."""
    positions: Numbers
    """(n,): its position in the sequence."""
    tokens: Numbers | None
    """(n,): the token at that position, where stages need it."""
    ask: Flag
    """Which rows a token is asked of: none (0), ASK_LAST or ASK_EVERY."""
    deadline_ms: int
    """Milliseconds that were left when it was sent; 0 for no deadline."""
    dtype: Dtype


class StageFrameWriter:
    """Rows to frames. Owns scratch memory: one thread at a time."""

    def __init__(self, form: StageFormat, dtype: Dtype, *, wider: Dtype = Dtype.F32) -> None:
        """`wider` is what a frame is sent as when a value is beyond the range of `dtype`.

        Raises WireError when the format allows one of them not, or when `wider` has no larger range.
        """
        if not {dtype, wider} <= form.dtypes or wider not in (Dtype.F32, Dtype.BF16):
            raise WireError(
                f"Frames as {dtype.label}, widened to {wider.label}, were not agreed on.", param="dtype"
            )
        self._form = form
        self._codec = codec_for(dtype, form.width)
        self._wider = codec_for(wider, form.width)
        self._bytes = np.empty(self._codec.size(form.rows), np.uint8)
        self.widened = 0
        """Frames that went as the wider dtype because a value was out of range."""

    def write(
        self,
        rows: Rows,
        sequences: Sequence[int] | Numbers,
        positions: Sequence[int] | Numbers,
        *,
        tokens: Sequence[int] | Numbers | None = None,
        ask: Flag = NOTHING,
        deadline_ms: int = 0,
    ) -> bytes:
        """A frame of `rows`, (n, width) float32, with the sequence and the position of each.

        Either one sequence at consecutive positions, or each row of another sequence. Raises EngineError
        when a value is not finite, WireError when the rest is not what the format says.
        """
        count = len(rows)
        _check_count(self._form, count)
        of, at = np.asarray(sequences, np.uint32), np.asarray(positions, np.uint32)
        _check_numbers("sequence", of, count, self._form.sequences)
        _check_numbers("position", at, count, self._form.positions)
        flags, first, tables = ask, (int(of[0]), int(at[0])), b""
        if count > 1 and not (np.all(of == of[0]) and np.all(np.diff(at) == 1)):
            _check_distinct(of)
            flags, first, tables = flags | Flag.MANY, (0, 0), of.tobytes() + at.tobytes()
        if (tokens is not None) != bool(self._form.vocabulary):
            raise _tokens_wrong(self._form)
        if tokens is not None:
            ids = np.asarray(tokens, np.uint32)
            _check_numbers("token", ids, count, self._form.vocabulary)
            flags, tables = flags | Flag.TOKENS, tables + ids.tobytes()
        dtype, payload = self._encode(rows)
        deadline = min(max(deadline_ms, 0), MAX_DEADLINE)
        head = HEADER.pack(MAGIC, dtype, flags, count, self._form.run, *first, self._form.width, deadline)
        return b"".join((head, tables, payload.data))

    def _encode(self, rows: Rows) -> tuple[Dtype, Bytes]:
        rows = np.ascontiguousarray(rows, np.float32)
        payload = self._bytes[: self._codec.size(len(rows))]
        if self._codec.encode(rows, payload):
            return self._codec.dtype, payload
        self.widened += 1
        payload = np.empty(self._wider.size(len(rows)), np.uint8)
        if not self._wider.encode(rows, payload):
            raise EngineError(
                f"The engine computed a value too large for {self._wider.dtype.label}.",
                hint="Split the model with `--wire-dtype f32`.",
            )
        return self._wider.dtype, payload


class StageFrameReader:
    """Frames to rows. Nothing of a frame is allocated before every field of it was checked."""

    def __init__(self, form: StageFormat) -> None:
        """`form` is what the frames must be."""
        self._form = form
        self._codecs: dict[int, Codec] = {dtype: codec_for(dtype, form.width) for dtype in form.dtypes}

    def read(self, data: bytes) -> StageFrame:
        """The frame. Raises WireError; its `param` is the field that is wrong, for counting."""
        codec, flags, count, first, deadline = self._read_header(data)
        offset, tables = HEADER.size, []
        for _ in range(2 * bool(flags & Flag.MANY) + bool(flags & Flag.TOKENS)):
            tables.append(np.frombuffer(data, np.uint32, count, offset))
            offset += 4 * count
        if flags & Flag.MANY:
            sequences, positions = tables[:2]
            _check_distinct(sequences)
            _check_numbers("sequence", sequences, count, self._form.sequences)
            _check_numbers("position", positions, count, self._form.positions)
        else:
            sequences = np.full(count, first[0], np.uint32)
            positions = np.arange(first[1], first[1] + count, dtype=np.uint32)
        tokens = tables[-1] if flags & Flag.TOKENS else None
        if tokens is not None:
            _check_numbers("token", tokens, count, self._form.vocabulary)
        rows = np.empty((count, self._form.width), np.float32)
        codec.decode(np.frombuffer(data, np.uint8, offset=offset), rows)
        return StageFrame(rows, sequences, positions, tokens, flags & _ASK, deadline, codec.dtype)

    def _read_header(self, data: bytes) -> tuple[Codec, Flag, int, tuple[int, int], int]:
        """Codec, flags, rows, (sequence, position) of the first row, deadline."""
        if len(data) < HEADER.size:
            raise _wrong("length", f"{len(data)} bytes, less than its header")
        magic, dtype, bits, count, run, sequence, position, width, deadline = HEADER.unpack_from(data)
        form = self._form
        if magic != MAGIC:
            raise _wrong("magic", f"{magic!r} in front")
        if run != form.run:
            raise _wrong("run", f"run {run:016x}; this stage is of run {form.run:016x}")
        codec = self._codecs.get(dtype)
        if codec is None:
            agreed = ", ".join(sorted(one.label for one in form.dtypes))
            raise _wrong("dtype", f"dtype {dtype}; agreed on: {agreed}")
        if bits & ~_KNOWN_FLAGS or bits & _ASK == _ASK:
            raise _wrong("flags", f"flags {bits:#x}")
        if width != form.width:
            raise _wrong("width", f"a width of {width} values; the model's is {form.width}")
        _check_count(form, count)
        flags = Flag(bits)
        if bool(flags & Flag.TOKENS) != bool(form.vocabulary):
            raise _tokens_wrong(form)
        many = bool(flags & Flag.MANY)
        if many and (sequence or position):
            raise _wrong("sequence" if sequence else "position", "a number in front of many sequences")
        if not many:
            if sequence >= form.sequences:
                raise _wrong("sequence", f"sequence {sequence}; they end below {form.sequences}")
            if position + count > form.positions:
                raise _wrong("position", f"positions to {position + count - 1}; there are {form.positions}")
        tables = 4 * count * (2 * many + bool(flags & Flag.TOKENS))
        expected = HEADER.size + tables + codec.size(count)
        if len(data) != expected:
            raise _wrong("length", f"{len(data)} bytes; its header says {expected}")
        return codec, flags, count, (sequence, position), deadline


def _wrong(field: str, what: str) -> WireError:
    return WireError(f"A stage frame has {what}.", param=field)


def _tokens_wrong(form: StageFormat) -> WireError:
    need = "needs the token of each row" if form.vocabulary else "takes no tokens"
    return WireError(f"A stage frame has the wrong contents: this stage {need}.", param="token")


def _check_count(form: StageFormat, count: int) -> None:
    if not 1 <= count <= form.rows:
        raise _wrong("rows", f"{count} rows; 1 to {form.rows} were agreed on")


def _check_numbers(field: str, numbers: Numbers, count: int, below: int) -> None:
    if numbers.shape != (count,):
        raise _wrong(field, f"{numbers.size} numbers of a {field} for {count} rows")
    largest = int(numbers.max())
    if largest >= below:
        raise _wrong(field, f"{field} {largest}; they end below {below}")


def _check_distinct(sequences: Numbers) -> None:
    if len(set(sequences.tolist())) != len(sequences):
        raise _wrong("sequence", "a sequence twice, and not at consecutive positions")
