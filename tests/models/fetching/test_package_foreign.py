"""Packages that others made: what `verify` calls sound loads at every range, and what does not is named."""

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from meshllm_core.errors import ModelError
from meshllm_core.models.package_fetch import prepare_stage
from meshllm_core.models.package_folder import open_package, verify_package
from meshllm_core.models.package_model import describe_package
from tests.models.fetching.conftest import PACKAGE, Node
from tests.models.foreign_packages import LAYERS, ForeignPackage, key_values, write_gguf
from tests.models.packages import build, files_of, tensors_of
from tests.support.hub import LocalHub

RANGES = [(first, end) for first in range(LAYERS) for end in range(first + 1, LAYERS + 1)]
SPLIT_NAMES = {layer: f"layers/part-{layer + 1:05d}-of-00009.gguf" for layer in range(LAYERS)}
ONE_NAME = {layer: f"layers/{layer}/weights.gguf" for layer in range(LAYERS)}


def found_wrong(folder: Path) -> str:
    """What `verify` says."""
    try:
        return " ".join(problem for _, problem in verify_package(open_package(folder)) if problem)
    except ModelError as error:
        return error.message


@pytest.mark.parametrize(
    ("more", "paths"),
    [
        ({}, {}),
        ({}, {1: "läyers/层 1.gguf"}),
        ({}, SPLIT_NAMES),
        ({}, ONE_NAME),
        ({"rope__freq_base": float("nan")}, {}),
        ({"rope__factors": [float("nan")] * 3}, {}),
    ],
    ids=["plain", "unicode", "names of a split set", "one name in many folders", "nan", "nans"],
)
def test_what_the_format_allows_is_sound_and_loads(
    tmp_path: Path, node: Node, local_hub: LocalHub, more: dict[str, object], paths: dict[int, str]
) -> None:
    package = ForeignPackage(tmp_path / "package", key_values(**more), paths)
    folder = package.finish()
    assert found_wrong(folder) == ""
    assert describe_package(open_package(folder)).facts.layers == LAYERS
    local_hub.add(PACKAGE, files_of(folder))
    for source, name in ((str(folder), "a"), (f"hf://{PACKAGE}", "b")):
        for first, end in RANGES:
            stage = prepare_stage(source, first, end, node(name))
            held = tensors_of(stage.file)
            for name_, _, content in package.tensors:
                number = name_.split(".")[1] if name_.startswith("blk.") else ""
                if number and first <= int(number) < end:
                    local = name_.replace(f"blk.{number}.", f"blk.{int(number) - first}.")
                    assert held[local][1] == content


def _manifest(**changes: object) -> Callable[[ForeignPackage], None]:
    return lambda package: package.manifest.update(changes)


def _without_own(part: str) -> Callable[[ForeignPackage], None]:
    """The fragment holds only what every fragment holds."""

    def harm(package: ForeignPackage) -> None:
        metadata = package.manifest["shared"]["metadata"]
        data = (package.folder / metadata["path"]).read_bytes()
        held = [tensor for tensor in package.tensors if tensor[0] == "rope_freqs.weight"]
        if part.isdecimal():
            artifact = package.manifest["layers"][int(part)]
        else:
            artifact = package.manifest["shared"][part]
        artifact.update(package.put(artifact["path"], data, held))

    return harm


def _other_shape(package: ForeignPackage) -> None:
    package.tensors = [
        (name, (4,), content[:16]) if name == "rope_freqs.weight" else (name, shape, content)
        for name, shape, content in package.tensors
    ]
    artifact = package.manifest["layers"][1]
    artifact.update(package.add(artifact["path"], "1", 1001, (1, 2)))


def _big_endian(package: ForeignPackage) -> None:
    artifact = package.manifest["layers"][1]
    data = (package.folder / artifact["path"]).read_bytes()
    held = [tensor for tensor in package.tensors if tensor[0].startswith(("blk.1.", "rope"))]
    artifact.update(package.put(artifact["path"], data[:4] + struct.pack(">I", 3) + data[8:], held))


@pytest.mark.parametrize(
    ("more", "harm", "words"),
    [
        ({"block_count": 30}, _manifest(), "say 30 layers, its manifest 4"),
        ({"block_count": 3}, _manifest(), "say 3 layers, its manifest 4"),
        ({}, _without_own("output"), "no tensor of output"),
        ({}, _without_own("embeddings"), "no tensor of embeddings"),
        ({}, _without_own("1"), "no tensor of layer-001"),
        ({}, _other_shape, "rope_freqs.weight"),
        ({}, _big_endian, "big-endian"),
        ({}, _manifest(layer_count=4.0), "layer_count"),
        ({}, _manifest(layers=json.loads("[" * 900 + "]" * 900)), "Expected|recursion"),
    ],
)
def test_what_cannot_be_used_is_named_by_all_and_leaves_nothing(
    tmp_path: Path,
    node: Node,
    local_hub: LocalHub,
    more: dict[str, object],
    harm: Callable[[ForeignPackage], None],
    words: str,
) -> None:
    package = ForeignPackage(tmp_path / "package", key_values(**more))
    harm(package)
    folder = package.finish()
    assert any(word in found_wrong(folder) for word in words.split("|"))
    local_hub.add(PACKAGE, files_of(folder))
    for source, name in ((str(folder), "a"), (f"hf://{PACKAGE}", "b")):
        for first, end in ((0, LAYERS), (10, 20)):
            with pytest.raises(ModelError) as caught:
                prepare_stage(source, first, end, node(name))
            assert end > LAYERS or any(word in caught.value.message for word in words.split("|"))
        assert not list(tmp_path.rglob("stage-*"))


def test_a_snapshot_of_the_hubs_own_cache_loads_and_other_links_do_not(tmp_path: Path, node: Node) -> None:
    repository = tmp_path / "models--owner--model"
    folder = ForeignPackage(repository / "snapshots" / "abc", key_values()).finish()
    (repository / "blobs").mkdir()
    for number, file in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        blob = file.rename(repository / "blobs" / str(number))
        file.symlink_to(os.path.relpath(blob, file.parent))
    assert found_wrong(folder) == ""
    assert prepare_stage(str(folder), 1, 3, node("a")).file.is_file()
    outside = (repository / "blobs").rename(tmp_path / "elsewhere")
    (repository / "blobs").symlink_to(outside)
    assert found_wrong(folder) == ""
    layer = folder / "layers" / "layer-002.gguf"
    target = layer.resolve().rename(tmp_path / "layer")
    layer.unlink()
    layer.symlink_to(target)
    with pytest.raises(ModelError, match=r"layer-002\.gguf is or goes through a link") as caught:
        prepare_stage(str(folder), 2, 3, node("a"))
    assert "hf://" in caught.value.hint


def test_our_builder_writes_what_the_format_says_byte_for_byte(tmp_path: Path) -> None:
    foreign = ForeignPackage(tmp_path / "foreign", key_values())
    model = tmp_path / "model.gguf"
    model.write_bytes(write_gguf(key_values(), foreign.tensors))
    built = build(model, tmp_path / "built").folder
    ours, theirs = files_of(built), files_of(foreign.finish())
    assert ours.keys() == theirs.keys()
    assert [path for path in theirs if path.endswith(".gguf") and ours[path] != theirs[path]] == []
    said, known = json.loads(ours["model-package.json"]), foreign.manifest
    assert (said["shared"], said["layers"]) == (known["shared"], known["layers"])
    assert set(known) - set(said) == {"generation"}
