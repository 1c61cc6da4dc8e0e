"""What travels along a chain of stages, and how its ends are set up.

The last stage drives: it owns the requests, sends token ids to the first stage, and gets hidden rows from
the stage before it. N stages cost N one-way trips a token. A unit is a part of the driver's step that is
computed at once: the decodes of many sequences, or one chunk of a prompt.
"""

from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from meshllm_core.engine.chain_spec import ChainSpec
from meshllm_core.errors import WireError
from meshllm_core.wire.codecs import Dtype, dtype_named
from meshllm_core.wire.stage_frames import StageFormat

Ids = NDArray[np.int32]

UNIT_LIMIT = 64 << 20
"""Bytes of a unit as it travels."""
TRIMS_LIMIT = 1024


def wire_dtype(spec: ChainSpec) -> Dtype:
    """The codec of a chain. Raises ConfigError for a label that nobody has."""
    return dtype_named(spec.dtype)


def form_of(spec: ChainSpec) -> StageFormat:
    """What frames between the stages of a chain must be."""
    return StageFormat(
        run=spec.run,
        width=spec.width,
        rows=spec.rows,
        sequences=spec.sequences,
        positions=spec.positions,
        dtypes=frozenset({wire_dtype(spec), Dtype.F32}),
        vocabulary=spec.vocabulary,
    )


class Unit(msgspec.Struct, frozen=True, array_like=True):
    """A part of a step on its way. To the first stage with token ids, to others with a frame of rows."""

    run: int
    number: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
    urgent: bool
    """Decodes; they are computed before chunks that wait."""
    trims: Annotated[bytes, msgspec.Meta(max_length=8 * TRIMS_LIMIT)] = b""
    """(sequence, position) pairs, u32: what lies from there on is void, also in units that still wait."""
    sequences: Annotated[bytes, msgspec.Meta(max_length=1 << 20)] = b""
    positions: Annotated[bytes, msgspec.Meta(max_length=1 << 20)] = b""
    tokens: Annotated[bytes, msgspec.Meta(max_length=1 << 20)] = b""
    """int32 each; for the first stage."""
    frame: Annotated[bytes, msgspec.Meta(max_length=UNIT_LIMIT)] = b""
    """For the others."""


class UnitHead(msgspec.Struct, frozen=True, array_like=True):
    """How a unit begins: all that is read of one that is only passed on."""

    run: int
    number: int
    urgent: bool


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Unit)
_head_decoder = msgspec.msgpack.Decoder(UnitHead)


def encode(unit: Unit) -> bytes:
    """As it travels."""
    return _encoder.encode(unit)


def decode(data: bytes | memoryview, run: int) -> Unit:
    """Raises WireError, its `param` naming the field, for what is no unit of this run."""
    try:
        unit = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise WireError(f"A unit that cannot be read: {error}.", param="unit") from None
    if unit.run != run:
        raise WireError(f"A unit of run {unit.run:x}; this is run {run:x}.", param="run")
    return unit


def head_of(data: bytes | memoryview) -> UnitHead | None:
    """Without copying its rows, in a microsecond; None for what is no unit."""
    try:
        return _head_decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None


def pairs(data: bytes) -> NDArray[np.uint32]:
    """Two numbers a row. Raises WireError for bytes that were cut."""
    if len(data) % 8:
        raise WireError("A list of numbers was cut.", param="length")
    return np.frombuffer(data, np.uint32).reshape(-1, 2)


def ids(data: bytes, field: str, count: int | None, below: int) -> Ids:
    """int32 numbers, each from 0 to `below`. Raises WireError naming the field."""
    if len(data) % 4 or (count is not None and len(data) != 4 * count) or not data:
        raise WireError(f"{len(data)} bytes of {field}s.", param=field)
    found = np.frombuffer(data, np.int32)
    if int(found.min()) < 0 or int(found.max()) >= below:
        raise WireError(f"A {field} that is not below {below}.", param=field)
    return found
