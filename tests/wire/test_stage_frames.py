"""Stage frames: golden bytes, round trips, and every field wrong in turn, named."""

import itertools
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshllm_core.errors import EngineError, WireError
from meshllm_core.wire import limits
from meshllm_core.wire.codecs import Dtype
from meshllm_core.wire.stage_frames import (
    HEADER,
    MAX_DEADLINE,
    NOTHING,
    Flag,
    StageFormat,
    StageFrameReader,
    StageFrameWriter,
)

FORM = StageFormat(
    run=0x1122334455667788, width=4, rows=8, sequences=16, positions=100,
    dtypes=frozenset({Dtype.F16, Dtype.F32}),
)  # fmt: skip
WITH_TOKENS = replace(FORM, vocabulary=1000)
ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


def written(form: StageFormat = FORM, **more: Any) -> bytes:
    defaults: dict[str, Any] = {"rows": ROWS, "sequences": [5, 5, 5], "positions": [7, 8, 9]}
    return StageFrameWriter(form, Dtype.F16).write(**(defaults | more))


def test_golden_bytes_of_a_chunk_of_one_sequence() -> None:
    data = written(ask=Flag.ASK_LAST, deadline_ms=1500)
    assert data[:32].hex() == (
        "4d534631" "01" "04" "0300" "8877665544332211" "05000000" "07000000" "04000000" "dc050000"
    )  # fmt: skip
    assert data[32:] == ROWS.astype("<f2").tobytes()


def test_golden_bytes_of_a_batch_with_tokens() -> None:
    data = written(
        WITH_TOKENS, sequences=[3, 1, 2], positions=[9, 0, 99], tokens=[7, 8, 999], ask=Flag.ASK_EVERY
    )
    assert data[:32].hex() == (
        "4d534631" "01" "0b" "0300" "8877665544332211" "00000000" "00000000" "04000000" "00000000"
    )  # fmt: skip
    assert struct.unpack_from("<9I", data, 32) == (3, 1, 2, 9, 0, 99, 7, 8, 999)
    assert data[32 + 36 :] == ROWS.astype("<f2").tobytes()


@settings(max_examples=200)
@given(st.data())
def test_round_trip(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 8))
    dtype = data.draw(st.sampled_from(list(Dtype)))
    many = data.draw(st.booleans())
    form = StageFormat(
        run=data.draw(st.integers(1, 2**64 - 1)), width=data.draw(st.integers(1, 70)), rows=8, sequences=16,
        positions=100, dtypes=frozenset({dtype, Dtype.F32}), vocabulary=data.draw(st.sampled_from([0, 50])),
    )  # fmt: skip
    if many:
        sequences = data.draw(st.lists(st.integers(0, 15), min_size=count, max_size=count, unique=True))
        positions = data.draw(st.lists(st.integers(0, 99), min_size=count, max_size=count))
    else:
        start = data.draw(st.integers(0, 100 - count))
        sequences, positions = [data.draw(st.integers(0, 15))] * count, list(range(start, start + count))
    tokens = data.draw(st.lists(st.integers(0, 49), min_size=count, max_size=count))
    ask = data.draw(st.sampled_from([NOTHING, Flag.ASK_LAST, Flag.ASK_EVERY]))
    deadline = data.draw(st.integers(0, MAX_DEADLINE))
    rows = np.random.default_rng(count).standard_normal((count, form.width)).astype(np.float32)
    raw = StageFrameWriter(form, dtype).write(
        rows, sequences, positions, tokens=tokens if form.vocabulary else None, ask=ask, deadline_ms=deadline
    )
    assert len(raw) <= form.frame_bytes
    frame = StageFrameReader(form).read(raw)
    assert (frame.sequences.tolist(), frame.positions.tolist()) == (sequences, positions)
    assert (frame.tokens is None) if not form.vocabulary else (frame.tokens.tolist() == tokens)  # type: ignore[union-attr]
    assert (frame.ask, frame.deadline_ms, frame.dtype) == (ask, deadline, dtype)
    assert np.abs(frame.rows - rows).max() <= np.abs(rows).max() / 127


def test_consecutive_positions_need_no_table() -> None:
    assert len(written()) == 32 + 24
    assert len(written(sequences=[1, 2, 3])) == 32 + 24 + 24


HEAD = dict(zip(["magic", "dtype", "flags", "rows", "run", "sequence", "position", "width", "deadline"],
                HEADER.unpack_from(written()), strict=True))  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("magic", b"MSF2"), ("magic", b"GGUF"),
        ("dtype", 250), ("dtype", int(Dtype.Q8)), ("dtype", 255),
        ("flags", 16), ("flags", 0xFF), ("flags", 12), ("token", 1),
        ("rows", 0), ("rows", 9), ("rows", 65_535),
        ("run", 0), ("run", HEAD["run"] + 1),
        ("sequence", 16), ("sequence", 2**32 - 1),
        ("position", 98), ("position", 2**32 - 1), ("position", 2**31),
        ("width", 0), ("width", 3), ("width", 2**32 - 1),
    ],
)  # fmt: skip
def test_each_field_is_refused_by_name(field: str, value: Any) -> None:
    head = HEAD | {"flags" if field == "token" else field: value}
    with pytest.raises(WireError) as caught:
        StageFrameReader(FORM).read(HEADER.pack(*head.values()) + written()[32:])
    assert caught.value.param == field
    assert field in caught.value.message or field in ("magic", "flags", "token")


def test_the_last_position_of_a_chunk_counts() -> None:
    read = StageFrameReader(FORM).read
    fits = HEAD | {"position": 97}
    assert read(HEADER.pack(*fits.values()) + written()[32:]).positions.tolist() == [97, 98, 99]
    with pytest.raises(WireError, match="positions to 100; there are 100"):
        read(HEADER.pack(*(HEAD | {"position": 98}).values()) + written()[32:])


@pytest.mark.parametrize(
    ("tables", "param"),
    [
        ((1, 2, 1, 0, 0, 0), "sequence"), ((1, 2, 16, 0, 0, 0), "sequence"), ((5, 5, 5, 7, 8, 9), "sequence"),
        ((1, 2, 3, 0, 0, 100), "position"), ((1, 2, 3, 2**32 - 1, 0, 0), "position"),
    ],
)  # fmt: skip
def test_each_number_of_a_batch_is_checked(tables: tuple[int, ...], param: str) -> None:
    data = written(sequences=[1, 2, 3])
    with pytest.raises(WireError) as caught:
        StageFrameReader(FORM).read(data[:32] + struct.pack("<6I", *tables) + data[56:])
    assert caught.value.param == param


@pytest.mark.parametrize(("offset", "param"), [(16, "sequence"), (20, "position")])
def test_a_batch_has_no_number_in_front(offset: int, param: str) -> None:
    data = bytearray(written(sequences=[1, 2, 3]))
    data[offset] = 1
    with pytest.raises(WireError) as caught:
        StageFrameReader(FORM).read(bytes(data))
    assert caught.value.param == param


def test_tokens_are_there_when_they_are_needed_and_only_then() -> None:
    plain, with_tokens = written(), written(WITH_TOKENS, tokens=[1, 2, 3])
    for form, data in ((WITH_TOKENS, plain), (FORM, with_tokens)):
        with pytest.raises(WireError) as caught:
            StageFrameReader(form).read(data)
        assert caught.value.param == "token"
    with pytest.raises(WireError) as caught:
        StageFrameReader(WITH_TOKENS).read(
            with_tokens[:32] + struct.pack("<3I", 1, 2, 1000) + with_tokens[44:]
        )
    assert caught.value.param == "token"


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 55, 57, 500])
def test_every_other_length_is_refused(length: int) -> None:
    with pytest.raises(WireError) as caught:
        StageFrameReader(FORM).read((written() + bytes(500))[:length])
    assert caught.value.param == "length"


def test_values_that_are_not_finite_are_refused() -> None:
    data = bytearray(written())
    data[-2:] = b"\x00\x7c"
    with pytest.raises(WireError) as caught:
        StageFrameReader(FORM).read(bytes(data))
    assert caught.value.param == "rows"
    rows = ROWS.copy()
    rows[2, 1] = np.nan
    with pytest.raises(EngineError, match="row 2 "):
        written(rows=rows)


@settings(max_examples=500)
@given(st.binary(max_size=120), st.booleans())
def test_any_bytes_are_a_frame_or_a_wire_error(noise: bytes, keep_head: bool) -> None:
    data = written()[:32] + noise if keep_head else noise
    try:
        frame = StageFrameReader(FORM).read(data)
    except WireError as error:
        assert error.param
        return
    assert np.isfinite(frame.rows).all()


@settings(max_examples=500)
@given(st.integers(0, 100), st.integers(0, 255), st.booleans())
def test_one_byte_changed_is_still_a_whole_frame_or_refused(place: int, value: int, many: bool) -> None:
    data = bytearray(written(WITH_TOKENS, sequences=[1, 2, 3] if many else [5, 5, 5], tokens=[1, 2, 3]))
    data[place % len(data)] = value
    try:
        frame = StageFrameReader(WITH_TOKENS).read(bytes(data))
    except WireError:
        return
    assert frame.rows.shape == (3, 4)
    assert np.isfinite(frame.rows).all()
    assert int(frame.sequences.max()) < 16
    assert int(frame.positions.max()) < 100


def test_out_of_range_rows_go_as_the_wider_dtype_and_are_counted() -> None:
    writer, reader = StageFrameWriter(FORM, Dtype.F16), StageFrameReader(FORM)
    huge = ROWS * np.float32(1e5)
    assert reader.read(writer.write(ROWS, [0] * 3, [0, 1, 2])).dtype is Dtype.F16
    assert writer.widened == 0
    frame = reader.read(writer.write(huge, [0] * 3, [3, 4, 5]))
    assert (frame.dtype, writer.widened) == (Dtype.F32, 1)
    assert (frame.rows == huge).all()
    assert reader.read(writer.write(ROWS, [0] * 3, [6, 7, 8])).dtype is Dtype.F16


def test_widening_to_bf16_when_that_was_agreed_on() -> None:
    form = replace(FORM, dtypes=frozenset({Dtype.F16, Dtype.BF16}))
    writer = StageFrameWriter(form, Dtype.F16, wider=Dtype.BF16)
    assert StageFrameReader(form).read(writer.write(ROWS * np.float32(1e5), [0] * 3, [0, 1, 2])).dtype is (
        Dtype.BF16
    )
    with pytest.raises(EngineError, match="too large for bf16"):
        writer.write(np.full((1, 4), np.finfo(np.float32).max), [0], [0])
    with pytest.raises(WireError, match="not agreed"):
        StageFrameWriter(form, Dtype.F16)


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"sequences": [1, 1, 2]}, "sequence"), ({"sequences": [16] * 3}, "sequence"),
        ({"sequences": [1, 2]}, "sequence"), ({"positions": [7, 8, 100]}, "position"),
        ({"positions": [7, 9, 10]}, "sequence"), ({"tokens": [1, 2, 3]}, "token"),
        ({"rows": ROWS[:0], "sequences": [], "positions": []}, "rows"),
        ({"rows": np.ones((9, 4), np.float32), "sequences": [0] * 9, "positions": range(9)}, "rows"),
        ({"rows": np.ones((3, 5), np.float32)}, "width"),
    ],
)  # fmt: skip
def test_a_frame_that_nobody_would_take_is_not_written(wrong: dict[str, Any], param: str) -> None:
    with pytest.raises(WireError) as caught:
        written(**wrong)
    assert caught.value.param == param


def test_deadlines_are_kept_within_the_field() -> None:
    deadlines = [-5, 0, 1, MAX_DEADLINE, MAX_DEADLINE + 1]
    read = [StageFrameReader(FORM).read(written(deadline_ms=ms)).deadline_ms for ms in deadlines]
    assert read == [0, 0, 1, MAX_DEADLINE, MAX_DEADLINE]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("run", 0), ("run", 1 << 64), ("width", 0), ("width", limits.STAGE_WIDTH + 1), ("rows", 0),
        ("rows", limits.STAGE_ROWS + 1), ("sequences", limits.STAGE_SEQUENCES + 1), ("positions", 0),
    ],
)  # fmt: skip
def test_absurd_formats_are_refused(field: str, value: int) -> None:
    with pytest.raises(WireError) as caught:
        replace(FORM, **{field: value})  # type: ignore[arg-type]
    assert caught.value.param == field


def test_a_format_whose_frames_are_too_large_is_refused() -> None:
    with pytest.raises(WireError, match="smaller chunks"):
        replace(FORM, width=limits.STAGE_WIDTH, rows=limits.STAGE_ROWS)


def test_a_writer_makes_frames_of_any_size_in_turn() -> None:
    writer, reader = StageFrameWriter(FORM, Dtype.F16), StageFrameReader(FORM)
    for count, start in itertools.product((1, 8, 3), (0, 50)):
        rows = np.full((count, 4), count + start, np.float32)
        frame = reader.read(writer.write(rows, [1] * count, range(start, start + count)))
        assert (frame.rows == rows).all()
