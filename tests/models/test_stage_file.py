"""The stage's file: bytes of the source, holes for zeros, sources of every kind, damaged ones."""

import shutil
import struct
from pathlib import Path

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshllm_core.errors import MeshError, ModelFileInvalid, StorageError
from meshllm_core.models.gguf_file import read_head
from meshllm_core.models.stage_entries import SHAPE_KEY, array_entry, sliced_entry
from meshllm_core.models.stage_file import plan_stage_file
from meshllm_core.models.stage_rules import StageRules
from meshllm_core.models.stage_source import SourceFile, local_files, open_source
from meshllm_core.models.stage_writer import write_stage_file
from tests.stages.chain import rules_of, write_stages
from tests.support.default_model import require_default_model
from tests.support.tiny_architectures import write_tiny


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("llama") / "model.gguf", "llama")


def _tensors(path: Path) -> dict[str, bytes]:
    return {tensor.name: tensor.data.tobytes() for tensor in gguf.GGUFReader(path).tensors}


def test_tensors_are_copied_byte_for_byte_and_renumbered(llama: Path, tmp_path: Path) -> None:
    first, last = (_tensors(path) for path in write_stages(llama, [3], tmp_path))
    whole = _tensors(llama)
    for name, data in whole.items():
        if name.startswith("blk."):
            layer, _, rest = name.removeprefix("blk.").partition(".")
            stage, at = (first, int(layer)) if int(layer) < 3 else (last, int(layer) - 3)
            assert stage[f"blk.{at}.{rest}"] == data
    assert last["output.weight"] == whole["output.weight"]
    for name in ("output.weight", "token_embd.weight"):
        assert not any(first[name]) and len(first[name]) == 8 * 64 * 4


def test_a_real_model_keeps_its_tokenizer_only_where_it_reads_out(tmp_path: Path) -> None:
    source = require_default_model()
    first, middle, last = (read_head(path) for path in write_stages(source, [10, 20], tmp_path))
    whole = read_head(source)
    assert last.values["tokenizer.ggml.tokens"] == whole.values["tokenizer.ggml.tokens"]
    assert middle.values["tokenizer.ggml.model"] == "none"
    assert "tokenizer.ggml.tokens" not in middle.values
    assert first.values["llama.vocab_size"] == 8
    assert middle.values["llama.vocab_size"] == 8
    assert (middle.values["llama.block_count"], whole.values["llama.block_count"]) == (10, 30)
    assert SHAPE_KEY in middle.values
    # The middle third is a third of the layers, and nothing else.
    layers = sum(t.nbytes for t in whole.tensors if t.name.startswith("blk."))
    assert sum(t.nbytes for t in middle.tensors) < layers / 3 + 20_000


def test_zeros_are_holes(tmp_path: Path) -> None:
    source = write_tiny(tmp_path / "model.gguf", "minicpm3")
    (_, last) = write_stages(source, [7], tmp_path)
    status = last.stat()
    assert status.st_blocks * 512 < status.st_size / 2


def test_a_split_set_gives_the_same_stage(llama: Path, tmp_path: Path) -> None:
    parts = _split(llama, tmp_path)
    target = write_stage_file(plan_stage_file(rules_of(parts[1]), 2, 5), tmp_path / "a.gguf")
    expected = write_stage_file(plan_stage_file(rules_of(llama), 2, 5), tmp_path / "b.gguf")
    assert _tensors(target) == _tensors(expected)
    assert not any(key.startswith("split.") for key in read_head(target).values)


def _split(path: Path, folder: Path) -> list[Path]:
    """The model in two files of half its tensors each."""
    reader = gguf.GGUFReader(path)
    halves = reader.tensors[: len(reader.tensors) // 2], reader.tensors[len(reader.tensors) // 2 :]
    names = []
    for number, tensors in enumerate(halves):
        names.append(folder / f"part-{number + 1:05d}-of-00002.gguf")
        writer = gguf.GGUFWriter(names[-1], "llama")
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", 2)
        if number == 0:
            for key, value in read_head(path).values.items():
                if key.startswith("llama.") and isinstance(value, int | float):
                    add = writer.add_uint32 if isinstance(value, int) else writer.add_float32
                    add(key, value)
            writer.add_tokenizer_model("none")
        for tensor in tensors:
            writer.add_tensor(tensor.name, tensor.data)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return names


def test_only_what_a_stage_needs_is_read(llama: Path, tmp_path: Path) -> None:
    (local,) = local_files(llama)
    asked: list[tuple[int, int]] = []

    def read(offset: int, length: int) -> bytes:
        asked.append((offset, length))
        return local.read(offset, length)

    rules = StageRules(open_source([SourceFile("far.gguf", local.size, read)]))
    asked.clear()
    stage = plan_stage_file(rules, 3, 4)
    write_stage_file(stage, tmp_path / "stage.gguf")
    weights = sum(length for _, length in asked) - sum(map(len, stage.entries))
    assert stage.copied_bytes - 4096 < weights < stage.copied_bytes + 4096 < local.size / 4


def test_a_source_with_a_missing_layer_is_refused(llama: Path) -> None:
    source = open_source(local_files(llama))
    kept = {name: tensor for name, tensor in source.tensors.items() if not name.startswith("blk.4.")}
    object.__setattr__(source, "tensors", kept)
    with pytest.raises(ModelFileInvalid, match="layer 4 is missing"):
        plan_stage_file(StageRules(source), 2, 6)


def test_a_full_disk_is_told_before_anything_is_written(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(StorageError, match="and 1000 bytes are free"):
        write_stages(llama, [4], tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_source_that_fails_leaves_nothing_behind(llama: Path, tmp_path: Path) -> None:
    (local,) = local_files(llama)

    def read(offset: int, length: int) -> bytes:
        if offset > local.size // 2:
            raise ModelFileInvalid("The source went away.")
        return local.read(offset, length)

    rules = StageRules(open_source([SourceFile("far.gguf", local.size, read)]))
    with pytest.raises(ModelFileInvalid, match="went away"):
        write_stage_file(plan_stage_file(rules, 0, 8), tmp_path / "stage.gguf")
    assert not list(tmp_path.iterdir())


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_damaged_head_never_does_more_than_refuse(llama: Path, data: st.DataObject) -> None:
    whole = bytearray(llama.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, 6000))] = data.draw(st.integers(0, 255))
    file = SourceFile("bad.gguf", len(whole), lambda offset, length: bytes(whole[offset : offset + length]))
    try:
        rules = StageRules(open_source([file]))
        plan_stage_file(rules, 0, min(3, rules.layers))
    except MeshError as error:
        assert str(error)


@given(values=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40), data=st.data())
def test_an_array_is_sliced_in_its_bytes(values: list[int], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(values) - 1))
    last = data.draw(st.integers(first + 1, len(values)))
    assert sliced_entry(array_entry("a.b", values), first, last) == array_entry("a.b", values[first:last])


def test_per_layer_arrays_that_are_too_short_are_refused(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "model.gguf", "spark2_5")
    data = path.read_bytes()
    at = data.index(b"spark2_5.block_count") + len(b"spark2_5.block_count") + 4
    path.write_bytes(data[:at] + struct.pack("<I", 20) + data[at + 4 :])
    with pytest.raises(ModelFileInvalid, match="does not have one"):
        plan_stage_file(rules_of(path), 0, 4)
