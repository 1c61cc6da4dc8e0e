"""Reading GGUF heads: whole files, damaged ones, and hostile ones."""

import struct
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meshllm_core.errors import ModelError, ModelFileInvalid, ModelNotFound
from meshllm_core.models.gguf_file import SkippedArray, read_head
from meshllm_core.models.inspect import inspect_model
from tests.models.conftest import WriteGguf


def test_the_real_model_is_read_quickly_and_exactly(real_model: Path) -> None:
    started = time.perf_counter()
    head = read_head(real_model)
    assert time.perf_counter() - started < 1.0
    assert head.values["general.architecture"] == "llama"
    assert head.values["tokenizer.ggml.tokens"] == SkippedArray(49152)
    assert len(head.tensors) == 272
    assert sum(tensor.nbytes for tensor in head.tensors) == 96_576_768
    assert head.data_offset + sum(-(-t.nbytes // 32) * 32 for t in head.tensors) == head.file_bytes


def test_values_of_every_kind_come_back(gguf: WriteGguf) -> None:
    head = read_head(gguf(some_flag=True, some_text="grüße", some_list=[3, 1, 2]))
    assert head.values["llama.some_flag"] is True
    assert head.values["llama.some_text"] == "grüße"
    assert head.values["llama.some_list"] == (3, 1, 2)
    assert head.values["tokenizer.ggml.scores"] == (0.0,) * 300
    assert head.tensors[0].name == "token_embd.weight"
    assert head.tensors[0].shape == (64, 300)


def test_a_vocabulary_larger_than_a_read_block_is_passed_over(tmp_path: Path) -> None:
    words = [b"w" * (index % 97) for index in range(60_000)]
    array = struct.pack("<IQ", 8, len(words)) + b"".join(struct.pack("<Q", len(w)) + w for w in words)
    key = b"tokenizer.ggml.tokens"
    after = b"after"
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, 2)
    data += struct.pack("<Q", len(key)) + key + struct.pack("<I", 9) + array
    data += struct.pack("<Q", len(after)) + after + struct.pack("<II", 4, 77)
    path = tmp_path / "vocabulary.gguf"
    path.write_bytes(data)
    head = read_head(path)
    assert head.values == {"tokenizer.ggml.tokens": SkippedArray(60_000), "after": 77}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not a GGUF"),
        (b"PK\x03\x04 a zip file", "not a GGUF"),
        (b"GGUF", "truncated"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1"),
        (b"GGUF" + struct.pack("<IQQ", 9, 0, 0), "version 9"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), "claims"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), "claims"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 40) + b"x" * 32, "claims to be"),
    ],
)
def test_what_is_not_a_whole_head_is_named(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(ModelFileInvalid, match=says) as caught:
        read_head(path)
    assert caught.value.hint


def test_a_cut_file_says_how_much_is_missing(gguf: WriteGguf) -> None:
    path = gguf()
    whole = path.read_bytes()
    path.write_bytes(whole[:-1000])
    with pytest.raises(ModelFileInvalid, match=r"truncated: 1000 of \d+ bytes are missing"):
        read_head(path)
    for length in (30, 300, 900, 5000):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileInvalid, match=r"truncated|than the file can hold|it claims"):
            read_head(path)


def test_an_unknown_tensor_type_is_named(gguf: WriteGguf) -> None:
    path = gguf()
    data = bytearray(path.read_bytes())
    at = data.index(b"token_embd.weight") + len(b"token_embd.weight") + 4 + 2 * 8
    data[at : at + 4] = struct.pack("<I", 199)
    path.write_bytes(data)
    with pytest.raises(ModelFileInvalid, match="type 199"):
        read_head(path)


def test_tensors_that_overlap_are_refused(gguf: WriteGguf) -> None:
    path = gguf()
    data = bytearray(path.read_bytes())
    at = data.index(b"blk.1.attn_q.weight") + len(b"blk.1.attn_q.weight") + 4 + 2 * 8 + 4
    data[at : at + 8] = struct.pack("<Q", 0)
    path.write_bytes(data)
    with pytest.raises(ModelFileInvalid, match=r"blk\.1\.attn_q\.weight"):
        read_head(path)


def test_missing_and_unreadable_paths_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"no\.gguf"):
        read_head(tmp_path / "no.gguf")
    with pytest.raises(ModelFileInvalid, match="cannot be read"):
        read_head(tmp_path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edits=st.lists(
        st.tuples(st.integers(0, 4000), st.binary(min_size=1, max_size=9)), min_size=1, max_size=4
    ),
    keep=st.floats(0.2, 1.0),
)
def test_damage_is_an_error_or_a_model_and_never_much_memory(
    tmp_path: Path, tiny: bytes, edits: list[tuple[int, bytes]], keep: float
) -> None:
    data = bytearray(tiny)
    for at, change in edits:
        data[at : at + len(change)] = change
    path = tmp_path / "mutated.gguf"
    path.write_bytes(data[: int(len(data) * keep)])
    tracemalloc.start()
    try:
        inspect_model(path)
    except ModelError as error:
        assert error.hint
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 8 << 20
