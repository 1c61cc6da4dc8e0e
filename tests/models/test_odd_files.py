"""Files that no converter writes: a sentence for each, never a fault of ours, never something left out."""

import itertools
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from meshllm_core.errors import ModelError, ModelFileInvalid
from meshllm_core.models.ggml_types import TENSOR_TYPES, UNPACKED
from meshllm_core.models.package_build import build_package
from meshllm_core.models.package_folder import open_package, verify_package
from meshllm_core.models.stage_file import plan_stage_file
from meshllm_core.models.stage_lookup import EmbeddingLookup
from meshllm_core.models.stage_rules import StageRules
from meshllm_core.models.stage_source import local_files, open_source
from meshllm_core.models.stage_writer import write_stage_file
from tests.models.foreign_packages import LAYERS, Tensor, entry, key_values, tensors, write_gguf

Change = Callable[[list[Tensor]], list[Tensor]]


def make_stages(model: Path) -> int:
    """Writes the stage of every range of layers; how many there are."""
    rules = StageRules(open_source(local_files(model)))
    ranges = list(itertools.combinations(range(rules.layers + 1), 2))
    for start, end in ranges:
        write_stage_file(plan_stage_file(rules, start, end), model.with_name("stage.gguf"))
    return len(ranges)


def _shaped(name: str, *shape: int) -> Change:
    count = 1
    for size in shape:
        count *= size
    return lambda held: [(n, shape, bytes(4 * count)) if n == name else (n, s, c) for n, s, c in held]


def _more(name: str) -> Change:
    return lambda held: [*held, (name, (2,), bytes(8))]


@pytest.mark.parametrize("name", ["token_embd.weight", "output.weight"])
@pytest.mark.parametrize("shape", [(), (32,), (32, 0), (0, 40), (32, 2, 0)])
def test_tables_without_rows_are_refused_by_name(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(write_gguf(key_values(), _shaped(name, *shape)(tensors())))
    with pytest.raises(ModelFileInvalid, match=name):
        make_stages(model)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_more("blk.4.attn_q.weight"), "belongs to none of its 4 layers"),
        (_more("blk.007.attn_q.weight"), "belongs to none of its 4 layers"),
        (_more("blk.\u0661.attn_q.weight"), "belongs to none of its 4 layers"),
        (_more("blk.999999999999999.x"), "belongs to none of its 4 layers"),
        (_more("blk.1.attn_norm.weight"), "is there twice"),
        (_more("blk.1.\ufffd"), "is not UTF-8"),
    ],
)
def test_tensors_that_would_be_left_out_or_renamed_are_refused(
    tmp_path: Path, change: Change, words: str
) -> None:
    model = tmp_path / "model.gguf"
    data = write_gguf(key_values(), change(tensors()))
    # What stands for undecodable bytes is put back to such bytes; the length stays.
    model.write_bytes(data.replace("\ufffd".encode(), b"\xff\xfe\xfd"))
    with pytest.raises(ModelFileInvalid, match=words):
        make_stages(model)
    with pytest.raises(ModelFileInvalid, match=words):
        build_package(model, tmp_path / "package", created_at=1)
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]


@pytest.mark.parametrize(
    ("more", "change"),
    [
        ({}, list[Tensor]),
        ({}, lambda held: [tensor for tensor in held if tensor[0] != "token_embd.weight"]),
        ({}, lambda held: [tensor for tensor in held if not tensor[0].startswith("output")]),
        ({"nextn_predict_layers": 1}, list[Tensor]),
        ({"nextn_predict_layers": LAYERS}, list[Tensor]),
        ({"block_count": LAYERS + 1}, list[Tensor]),
        ({"block_count": True}, list[Tensor]),
    ],
)
def test_what_is_packaged_is_sound(tmp_path: Path, more: dict[str, object], change: Change) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(write_gguf(key_values(**more), change(tensors())))
    try:
        built = build_package(model, tmp_path / "package", created_at=1)
    except ModelError:
        assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]
    else:
        assert not [problem for _, problem in verify_package(open_package(built.folder)) if problem]


@pytest.mark.parametrize("alignment", [1, 8, 64, 4096])
@pytest.mark.parametrize("version", [2, 3])
def test_any_alignment_and_either_version(tmp_path: Path, alignment: int, version: int) -> None:
    entries = [*key_values(), _alignment(alignment)]
    model = tmp_path / "model.gguf"
    model.write_bytes(write_gguf(entries, tensors(), version=version, alignment=alignment))
    assert make_stages(model) == LAYERS * (LAYERS + 1) // 2
    built = build_package(model, tmp_path / "package", created_at=1)
    assert not [problem for _, problem in verify_package(open_package(built.folder)) if problem]


def _alignment(value: int) -> bytes:
    return struct.pack("<Q", 17) + b"general.alignment" + struct.pack("<II", 4, value)


@pytest.mark.parametrize("code", TENSOR_TYPES)
def test_embeddings_of_any_type_are_looked_up_or_stay_with_the_first_stage(tmp_path: Path, code: int) -> None:
    kind, width, rows = TENSOR_TYPES[code], 256, 40
    table = ("token_embd.weight", (width, rows), bytes(width // kind.block * kind.size * rows))
    others = [tensor for tensor in tensors() if tensor[0] != "token_embd.weight"]
    model, types = tmp_path / "model.gguf", {"token_embd.weight": code}
    model.write_bytes(write_gguf(key_values(embedding_length=width), [table, *others], types=types))
    plan = plan_stage_file(StageRules(open_source(local_files(model))), 0, 2)
    stage = write_stage_file(plan, tmp_path / "stage.gguf")
    held = next(tensor for tensor in plan.tensors if tensor.name == "token_embd.weight")
    assert (held.piece is None, plan.shape.tokens) == ((True, "rows") if plan.tail else (False, "true"))
    if plan.tail:
        lookup = EmbeddingLookup(stage, width)
        assert lookup.rows(np.array([0, rows - 1], np.int32)).shape == (2, width)
        lookup.close()
    assert bool(plan.tail) == (kind.name in UNPACKED)


@pytest.mark.parametrize(("first", "rest"), [(slice(5), slice(6, None)), (slice(6), slice(5, None))])
def test_a_split_set_with_a_tensor_too_few_or_too_many_is_refused(
    tmp_path: Path, first: slice, rest: slice
) -> None:
    held = tensors()
    counts = [entry("split.count", 2), entry("split.tensors.count", len(held))]
    parts = [[*key_values(), *counts], [entry("general.architecture", "llama"), *counts]]
    for number, (entries, part) in enumerate(zip(parts, (held[first], held[rest]), strict=True)):
        (tmp_path / f"model-0000{number + 1}-of-00002.gguf").write_bytes(write_gguf(entries, part))
    with pytest.raises(ModelFileInvalid, match="tensors together instead of"):
        make_stages(tmp_path / "model-00002-of-00002.gguf")
