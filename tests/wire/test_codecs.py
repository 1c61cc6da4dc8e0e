"""Codecs: golden bytes, agreement with slow and plain formulas, hostile bytes, values out of range."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from meshllm_core.errors import ConfigError, EngineError, WireError
from meshllm_core.wire import limits
from meshllm_core.wire.codecs import CODECS, Dtype, codec_for, dtype_named

Rows = NDArray[np.float32]
WIDTHS = [1, 3, 5, 31, 32, 33, 100, 576, 640, 4544, 8192]
LARGEST = float(np.finfo(np.float32).max)


def encode(dtype: Dtype, rows: Rows) -> bytes:
    codec = codec_for(dtype, rows.shape[1])
    out = np.empty(codec.size(len(rows)), np.uint8)
    assert codec.encode(rows, out)
    return out.tobytes()


def decode(dtype: Dtype, data: bytes, width: int, rows: int) -> Rows:
    out = np.full((rows, width), np.nan, np.float32)
    codec_for(dtype, width).decode(np.frombuffer(data, np.uint8), out)
    return out


def hidden(rows: int, width: int, seed: int = 0) -> Rows:
    """Like a hidden state: values around 1 and a few channels that are thousands of times larger."""
    rng = np.random.default_rng(seed)
    made = rng.standard_normal((rows, width)).astype(np.float32)
    made[:, rng.integers(0, width, 3)] *= 5000
    return made


def row_q8(row: list[float]) -> tuple[np.float32, list[int]]:
    """The reference's formula, a value at a time, in single precision."""
    top = max((abs(np.float32(x)) for x in row), default=np.float32(0))
    scale = np.float32(1) if top == 0 else np.float32(top / np.float32(127))
    values = []
    for x in row:
        with np.errstate(all="ignore"):
            quotient = float(np.float32(x) / scale)
        if quotient != quotient:
            values.append(0)
            continue
        size = min(abs(quotient), 127.0)
        values.append(int((1 if quotient >= 0 else -1) * int(size + 0.5)))
    return scale, values


@pytest.mark.parametrize("dtype", list(Dtype))
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [0, 1, 2, 45])
def test_round_trip_keeps_the_rows(dtype: Dtype, width: int, count: int) -> None:
    rows = hidden(count, width)
    data = encode(dtype, rows)
    back = decode(dtype, data, width, count)
    top = np.abs(rows).max(axis=1, keepdims=True, initial=0)
    bound = {
        Dtype.F32: np.zeros_like(rows),
        Dtype.F16: np.abs(rows) * 2.0**-11 + 2.0**-25,
        Dtype.BF16: np.abs(rows) * 2.0**-8,
        Dtype.Q8: np.broadcast_to(top / 254 * 1.0001, rows.shape),
        # Four exact values take the three huge channels and one more: what is left is around 1.
        Dtype.Q8X: np.full_like(rows, 6 / 254),
    }[dtype]
    assert (np.abs(back - rows) <= bound).all()
    assert len(data) == CODECS[dtype].size_of(count, width)


@pytest.mark.parametrize(("dtype", "size"), [("f32", 8192), ("f16", 4096), ("bf16", 4096), ("q8", 2052)])
def test_sizes_are_those_of_the_reference(dtype: str, size: int) -> None:
    assert codec_for(dtype_named(dtype), 2048).size(1) == size


def test_q8x_takes_about_55_percent_of_f16() -> None:
    assert codec_for(Dtype.Q8X, 2048).size(1) == 2048 + 2048 // 16 + 24


def test_golden_bytes() -> None:
    rows = np.array([[1.0, -2.0, 0.5, 0.0], [0.0, 0.0, -0.0, 0.0]], np.float32)
    assert encode(Dtype.F32, rows).hex() == "0000803f000000c00000003f00000000" + "0000000000000000" + (
        "0000008000000000"
    )
    assert encode(Dtype.F16, rows).hex() == "003c00c000380000" + "0000000000800000"
    assert encode(Dtype.BF16, rows).hex() == "803f00c0003f0000" + "0000000000800000"
    # Scales 2/127 and 1, then 63.5 -> 64, -127, 31.75 -> 32, 0.
    assert encode(Dtype.Q8, rows).hex() == "0402813c0000803f" + "40812000" + "00000000"


def test_golden_bytes_of_q8x() -> None:
    row = np.zeros((1, 64), np.float32)
    row[0, [5, 6, 7, 8]] = [1000, -2000, 3000, -4000]  # exact
    row[0, [0, 2]] = [127.0, -63.5]  # block 0
    row[0, [1, 3]] = [2.0, 1.0]  # block 1
    data = encode(Dtype.Q8X, row)
    exact = np.frombuffer(data, "<f4", 4)
    channels = np.frombuffer(data, "<u2", 4, 16 + 4)
    assert dict(zip(channels.tolist(), exact.tolist(), strict=True)) == {
        5: 1000.0, 6: -2000.0, 7: 3000.0, 8: -4000.0,
    }  # fmt: skip
    # 127/127 = 1, and 2/127 rounded up to eight bits.
    assert np.frombuffer(data, "<u2", 2, 16).tolist() == [0x3F80, 0x3C82]
    values = np.frombuffer(data, np.int8, 64, 16 + 4 + 8)
    assert values[:9].tolist() == [127, 126, -64, 63, 0, 0, 0, 0, 0]
    assert not values[9:].any()


FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
ORDINARY = st.floats(-65_504, 65_504, width=32)


@given(st.lists(FINITE, min_size=1, max_size=80))
def test_q8_is_the_reference_to_the_byte(values: list[float]) -> None:
    scale, expected = row_q8(values)
    if float(scale) > LARGEST / 128:
        return
    data = encode(Dtype.Q8, np.array([values], np.float32))
    assert np.frombuffer(data, "<f4", 1)[0] == scale
    assert np.frombuffer(data, np.int8, offset=4).tolist() == expected


def test_q8_rounds_halves_away_from_zero_and_nothing_else() -> None:
    below = np.nextafter(np.float32(0.5), np.float32(0))
    row = np.array([[127.0, 0.5, -0.5, below, -below, 1.5, -2.5, 126.5]], np.float32)
    assert np.frombuffer(encode(Dtype.Q8, row), np.int8, offset=4).tolist() == [
        127, 1, -1, 0, 0, 2, -3, 127,
    ]  # fmt: skip


@pytest.mark.parametrize("tiny", [1e-45, 3e-45, 1e-43, 2e-41])
def test_q8_of_rows_whose_scale_underflows(tiny: float) -> None:
    row = [tiny, -tiny, 0.0, tiny / 2]
    data = encode(Dtype.Q8, np.array([row, [0.0] * 4, [1.0] * 4], np.float32))
    scale, expected = row_q8(row)
    assert np.frombuffer(data, "<f4", 3).tolist() == [scale, 1.0, np.float32(1 / 127)]
    assert np.frombuffer(data, np.int8, offset=12).tolist() == [*expected, 0, 0, 0, 0, 127, 127, 127, 127]


@given(st.lists(ORDINARY, min_size=1, max_size=64))
def test_f16_is_ieee_half_precision(values: list[float]) -> None:
    rows = np.array([values], np.float32)
    data = encode(Dtype.F16, rows)
    assert data == rows.astype("<f2").tobytes()
    assert decode(Dtype.F16, data, len(values), 1).tobytes() == rows.astype("<f2").astype("<f4").tobytes()


def test_f16_all_halves_and_all_ties_between_them() -> None:
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    middles = (halves[:-1] + halves[1:]) / 2
    near = np.concatenate([np.nextafter(middles, np.float32(s)) for s in (-1, 1e9)])
    for rows in (halves, middles, near.astype(np.float32)):
        both: Rows = np.stack([rows, -rows]).astype(np.float32)
        assert encode(Dtype.F16, both) == both.astype("<f2").tobytes()


@given(st.lists(FINITE, min_size=1, max_size=64))
def test_bf16_rounds_to_the_nearest_even(values: list[float]) -> None:
    rows = np.array([values], np.float32)
    codec = codec_for(Dtype.BF16, len(values))
    out = np.empty(codec.size(1), np.uint8)
    if not codec.encode(rows, out):
        assert np.abs(rows).max() >= 3.39e38
        return
    for bits, got in zip(rows.view(np.uint32)[0].tolist(), out.view("<u2").tolist(), strict=True):
        rest, floor = bits & 0xFFFF, bits >> 16
        assert got == floor + (rest > 0x8000 or (rest == 0x8000 and floor & 1))


def test_bf16_ties_go_to_the_even_neighbour() -> None:
    rows = np.array([[0x3F80_8000, 0x3F81_8000, 0xBF80_8000, 0x3F80_8001, 0x3F81_7FFF]], np.uint32)
    data = encode(Dtype.BF16, rows.view(np.float32))
    assert np.frombuffer(data, "<u2").tolist() == [0x3F80, 0x3F82, 0xBF80, 0x3F81, 0x3F81]


@settings(max_examples=200)
@given(st.integers(1, 200), st.integers(1, 5), st.data())
def test_q8x_keeps_the_largest_and_bounds_the_rest(width: int, count: int, data: st.DataObject) -> None:
    values = data.draw(st.lists(ORDINARY, min_size=width * count, max_size=width * count))
    rows = np.array(values, np.float32).reshape(count, width)
    back = decode(Dtype.Q8X, encode(Dtype.Q8X, rows), width, count)
    order = np.sort(np.abs(rows), axis=1)[:, ::-1]
    fifth = order[:, min(4, width - 1) : min(4, width - 1) + 1]
    assert (np.abs(back - rows) <= fifth / 127 / 2 * 1.02 + 2.0**-100).all()
    assert (np.abs(back - rows)[np.abs(rows) > fifth] == 0).all()


@pytest.mark.parametrize("dtype", list(Dtype))
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (39, 8191), (20, 17)])
def test_what_is_not_finite_is_not_sent(dtype: Dtype, bad: float, place: tuple[int, int]) -> None:
    rows = hidden(40, 8192)
    rows[place] = bad
    codec = codec_for(dtype, 8192)
    with pytest.raises(EngineError, match=f"row {place[0]} "):
        codec.encode(rows, np.empty(codec.size(40), np.uint8))


@pytest.mark.parametrize(
    ("dtype", "value", "fits"),
    [
        (Dtype.F16, 65_519.996, True), (Dtype.F16, 65_520.0, False), (Dtype.F16, -70_000.0, False),
        (Dtype.BF16, 3.389e38, True), (Dtype.BF16, LARGEST, False),
        (Dtype.Q8, 1e38, True), (Dtype.Q8, LARGEST, False),
        (Dtype.Q8X, 1e38, True), (Dtype.Q8X, LARGEST, False), (Dtype.F32, LARGEST, True),
    ],
)  # fmt: skip
def test_values_out_of_range_are_told(dtype: Dtype, value: float, fits: bool) -> None:
    rows = np.full((3, 64), value, np.float32)
    codec = codec_for(dtype, 64)
    out = np.empty(codec.size(3), np.uint8)
    assert codec.encode(rows, out) is fits
    if fits:
        assert np.isfinite(decode(dtype, out.tobytes(), 64, 3)).all()


def test_q8x_carries_single_values_of_any_size() -> None:
    rows = np.ones((1, 64), np.float32)
    rows[0, 7] = LARGEST
    assert decode(Dtype.Q8X, encode(Dtype.Q8X, rows), 64, 1)[0, 7] == LARGEST


@settings(max_examples=300)
@given(st.sampled_from(list(Dtype)), st.integers(1, 70), st.integers(1, 3), st.randoms(use_true_random=False))
def test_any_bytes_are_finite_rows_or_refused(dtype: Dtype, width: int, rows: int, random: object) -> None:
    size = CODECS[dtype].size_of(rows, width)
    data = random.randbytes(size)  # type: ignore[attr-defined]
    try:
        out = decode(dtype, data, width, rows)
    except WireError as error:
        assert error.param == "rows"
        return
    assert np.isfinite(out).all()


@pytest.mark.parametrize(
    ("dtype", "spoiled"),
    [
        (Dtype.F32, {0: b"\0\0\x80\x7f"}), (Dtype.F32, {0: b"\0\0\xc0\xff"}),
        (Dtype.F16, {6: b"\x00\x7c"}), (Dtype.F16, {6: b"\x01\xfe"}),
        (Dtype.BF16, {6: b"\x80\x7f"}), (Dtype.BF16, {6: b"\x80\xff"}),
        (Dtype.Q8, {0: b"\0\0\x80\x7f"}), (Dtype.Q8, {0: b"\0\0\xc0\x7f"}), (Dtype.Q8, {0: b"\0\0\x80\xbf"}),
        (Dtype.Q8, {0: b"\xff\xff\x7f\x7f"}),
        (Dtype.Q8X, {0: b"\0\0\xc0\x7f"}), (Dtype.Q8X, {16: b"\x00\x7c"}), (Dtype.Q8X, {16: b"\x80\xbf"}),
        (Dtype.Q8X, {20: b"\x40\x00"}),
    ],
)  # fmt: skip
def test_bytes_that_no_encoder_writes_are_refused(dtype: Dtype, spoiled: dict[int, bytes]) -> None:
    data = bytearray(encode(dtype, np.ones((1, 64), np.float32)))
    for place, put in spoiled.items():
        data[place : place + len(put)] = put
    with pytest.raises(WireError, match=dtype.label):
        decode(dtype, bytes(data), 64, 1)


@pytest.mark.parametrize("dtype", list(Dtype))
def test_lengths_and_shapes_are_checked(dtype: Dtype) -> None:
    codec = codec_for(dtype, 64)
    rows = np.ones((2, 64), np.float32)
    with pytest.raises(WireError, match="2 rows of 64"):
        codec.decode(np.zeros(codec.size(2) - 1, np.uint8), rows)
    with pytest.raises(WireError, match=r"\(2, 32\)"):
        codec.encode(rows[:, ::2].copy(), np.zeros(codec.size(2), np.uint8))
    with pytest.raises(WireError, match="one after another"):
        codec.encode(np.ones((2, 128), np.float32)[:, ::2], np.zeros(codec.size(2), np.uint8))


@pytest.mark.parametrize("width", [0, -1, limits.STAGE_WIDTH + 1])
def test_no_codec_for_an_absurd_width(width: int) -> None:
    with pytest.raises(WireError, match=str(width)):
        codec_for(Dtype.F16, width)


def test_a_codec_may_be_used_again_with_fewer_rows() -> None:
    codec = codec_for(Dtype.Q8X, 100)
    for count in (50, 1, 7, 50):
        rows = hidden(count, 100, seed=count)
        out = np.empty(codec.size(count), np.uint8)
        assert codec.encode(rows, out)
        assert out.tobytes() == encode(Dtype.Q8X, rows)


def test_names() -> None:
    assert [dtype_named(name) for name in ("f32", "f16", "q8", "bf16", "q8x")] == list(Dtype)
    with pytest.raises(ConfigError, match="q9"):
        dtype_named("q9")
