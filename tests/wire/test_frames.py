"""Frames: whatever way the bytes are cut, the same frames come out; a length that is too large is refused."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.errors import WireError
from meshllm_core.wire.frames import FrameReader, frame


@given(st.lists(st.binary(max_size=64), max_size=8), st.lists(st.integers(0, 500), max_size=12))
def test_any_cut_gives_the_same_frames(bodies: list[bytes], cuts: list[int]) -> None:
    data = b"".join(frame(body) for body in bodies)
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    reader = FrameReader(64)
    read = [f for start, end in itertools.pairwise(places) for f in reader.feed(data[start:end])]
    assert read == bodies
    assert reader.pending == 0


@pytest.mark.parametrize("length", [65, 1 << 16, (1 << 32) - 1])
def test_a_length_over_the_limit_is_refused_by_its_header(length: int) -> None:
    reader = FrameReader(64)
    with pytest.raises(WireError, match=str(length)):
        reader.feed(length.to_bytes(4, "big"))
    assert reader.pending == 0


def test_the_limit_may_be_raised() -> None:
    reader = FrameReader(4)
    assert reader.feed(frame(b"four")) == [b"four"]
    reader.limit = 5
    assert reader.feed(frame(b"fives")) == [b"fives"]
