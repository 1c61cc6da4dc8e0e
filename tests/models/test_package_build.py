"""A package is the model, cut: nothing lost, nothing twice, readable by everybody, checked throughout."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import pytest

from meshllm_core.errors import ConfigError, ModelError, ModelFileInvalid, StorageError
from meshllm_core.models.gguf_file import read_head
from meshllm_core.models.package_build import Origin, build_package
from meshllm_core.models.package_folder import open_package, verify_package
from meshllm_core.models.package_fragment import role_of
from meshllm_core.models.package_manifest import MANIFEST_NAME, identity
from tests.models import packages
from tests.models.packages import LAYERS, build, change_manifest, files_of, tensors_of, write_model

ADDED = {
    "general.alignment",
    *(
        f"skippy.slice.{name}"
        for name in ("stage_index", "layer_start", "layer_end", "include_embeddings", "include_output")
    ),
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny-F32.gguf")


@pytest.fixture
def package(model: Path, tmp_path: Path) -> Path:
    return build(model, tmp_path / "package").folder


def problems(folder: Path) -> dict[str, str]:
    return {path: problem for path, problem in verify_package(open_package(folder)) if problem}


def test_every_tensor_is_in_its_fragment_byte_for_byte(model: Path, package: Path) -> None:
    source = tensors_of(model)
    seen: list[str] = []
    for path in package.rglob("*.gguf"):
        for name, content in tensors_of(path).items():
            assert content == source[name]
            seen.append(name)
    shared = {name for name in source if role_of(name) is None}
    assert shared == {"rope_freqs.weight"}
    assert {name: seen.count(name) for name in source} == {
        name: LAYERS + 3 if name in shared else 1 for name in source
    }


def test_every_fragment_holds_the_key_values_of_the_source(model: Path, package: Path) -> None:
    source = gguf.GGUFReader(model)
    for path in package.rglob("*.gguf"):
        head, reader = read_head(path), gguf.GGUFReader(path)
        assert head.version == 3
        assert head.values.keys() - read_head(model).values.keys() == ADDED
        for key in read_head(model).values:
            assert reader.fields[key].contents() == source.fields[key].contents()


@pytest.mark.parametrize(
    ("path", "slice_"),
    [
        ("shared/metadata.gguf", (0, 0, 0, False, False)),
        ("shared/embeddings.gguf", (1, 0, 0, True, False)),
        ("shared/output.gguf", (2, LAYERS, LAYERS, False, True)),
        ("layers/layer-004.gguf", (1004, 4, 5, False, False)),
    ],
)
def test_a_fragment_says_which_part_it_is(package: Path, path: str, slice_: tuple[object, ...]) -> None:
    values = read_head(package / path).values
    names = ("stage_index", "layer_start", "layer_end", "include_embeddings", "include_output")
    assert tuple(values[f"skippy.slice.{name}"] for name in names) == slice_


def test_the_manifest_lists_what_is_there(model: Path, tmp_path: Path) -> None:
    origin = Origin("tiny", "owner/tiny-GGUF", "c" * 40)
    built = build_package(model, tmp_path / "p", created_at=7, origin=origin)
    data = (tmp_path / "p" / MANIFEST_NAME).read_bytes()
    document = json.loads(data)
    assert (document["schema_version"], document["format"]) == (1, "layer-package")
    assert (document["model_id"], document["layer_count"], document["activation_width"]) == (
        "tiny",
        LAYERS,
        64,
    )
    assert document["source_model"]["sha256"] == packages.sha256(model.read_bytes())
    assert (document["source_model"]["repo"], document["created_at_unix_secs"]) == ("owner/tiny-GGUF", 7)
    assert [layer["layer_index"] for layer in document["layers"]] == list(range(LAYERS))
    assert built.identity == identity(data) == packages.sha256(data)
    for artifact in [*document["shared"].values(), *document["layers"]]:
        content = (tmp_path / "p" / artifact["path"]).read_bytes()
        assert (len(content), packages.sha256(content)) == (artifact["artifact_bytes"], artifact["sha256"])
    assert built.bytes_total == sum(len(content) for content in files_of(tmp_path / "p").values())


def test_two_builds_are_the_same_and_sound(model: Path, package: Path, tmp_path: Path) -> None:
    assert files_of(build(model, tmp_path / "again").folder) == files_of(package)
    assert [entry for entry in verify_package(open_package(package)) if entry[1]] == []
    assert len(list(verify_package(open_package(package)))) == LAYERS + 3


def test_a_split_set_gives_the_same_tensors(model: Path, package: Path, tmp_path: Path) -> None:
    reader = gguf.GGUFReader(model)
    half = len(reader.tensors) // 2
    for number, tensors in enumerate((reader.tensors[:half], reader.tensors[half:])):
        writer = gguf.GGUFWriter(tmp_path / f"set-0000{number + 1}-of-00002.gguf", "llama")
        if number == 0:
            writer.add_block_count(LAYERS)
            writer.add_context_length(512)
            writer.add_embedding_length(64)
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", 2)
        writer.add_int32("split.tensors.count", len(reader.tensors))
        for tensor in tensors:
            writer.add_tensor(tensor.name, tensor.data)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    built = build(tmp_path / "set-00002-of-00002.gguf", tmp_path / "from-set")
    for path in package.rglob("*.gguf"):
        other = built.folder / path.relative_to(package)
        assert tensors_of(other) == tensors_of(path)
        assert not any(key.startswith("split.") for key in read_head(other).values)
    assert len(built.manifest.source_model.files) == 2


def test_nothing_appears_when_a_build_fails(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(tmp_path.iterdir())
    with pytest.raises(StorageError, match="does not fit on the disk") as caught:
        build_package(model, tmp_path / "p", created_at=1, disk_free=lambda folder: 1 << 20)
    assert "another disk" in caught.value.hint and "MESHLLM_HOME" not in caught.value.hint

    def stop(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_package(model, tmp_path / "p", created_at=1, on_progress=stop)
    assert set(tmp_path.iterdir()) == before
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "mine").touch()
    with pytest.raises(ConfigError, match="exists already"):
        build(model, tmp_path / "p")


def test_of_two_at_once_the_second_finds_it_there(model: Path, tmp_path: Path) -> None:
    def meanwhile(done: int, total: int) -> None:
        if not (tmp_path / "p").exists():
            build(model, tmp_path / "p")

    with pytest.raises(ConfigError, match="exists already"):
        build_package(model, tmp_path / "p", created_at=1, on_progress=meanwhile)
    assert {path.name for path in tmp_path.iterdir()} <= {"p", model.name}
    assert not [problem for _, problem in verify_package(open_package(tmp_path / "p")) if problem]


def test_golden_probes_are_made_when_nothing_else_is_in_the_way(model: Path, tmp_path: Path) -> None:
    def never() -> None:
        raise AssertionError

    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "mine").touch()
    with pytest.raises(ConfigError, match="exists already"):
        build_package(model, tmp_path / "p", created_at=1, probes=never)
    with pytest.raises(StorageError, match="does not fit"):
        build_package(model, tmp_path / "q", created_at=1, probes=never, disk_free=lambda folder: 1 << 20)


def test_what_takes_long_is_reported(model: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    built = build_package(
        model,
        tmp_path / "p",
        created_at=1,
        on_hashed=lambda done, total: seen.append(("hashed", done, total)),
        on_progress=lambda done, total: seen.append(("written", done, total)),
    )
    size = model.stat().st_size
    assert [entry for entry in seen if entry[0] == "hashed"][-1] == ("hashed", size, size)
    assert seen[-1][0] == "written" and seen[-1][1] == seen[-1][2] <= built.bytes_total
    assert built.manifest.source_model.sha256 == packages.sha256(model.read_bytes())


def test_a_model_with_a_layer_missing_is_not_packaged(model: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(model.read_bytes().replace(b"blk.3.", b"blk.2_"))
    with pytest.raises(ModelError, match=r"no tensors of layer 3"):
        build(broken, tmp_path / "p")


def _write(path: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        (folder / path).write_bytes(change((folder / path).read_bytes()))

    return apply


def _swap(folder: Path) -> None:
    """A whole, rightly hashed fragment of another layer."""
    data = (folder / "layers/layer-003.gguf").read_bytes()
    (folder / "layers/layer-002.gguf").write_bytes(data)
    change_manifest(
        folder,
        lambda m: m["layers"].__setitem__(
            2, {**m["layers"][3], "layer_index": 2, "path": "layers/layer-002.gguf"}
        ),
    )


def _link(folder: Path) -> None:
    path = folder / "layers/layer-002.gguf"
    path.rename(folder.parent / "elsewhere.gguf")
    path.symlink_to(folder.parent / "elsewhere.gguf")


@pytest.mark.parametrize(
    ("harm", "path", "words"),
    [
        (
            _write("layers/layer-002.gguf", lambda d: d[:-1] + bytes([d[-1] ^ 1])),
            "layers/layer-002.gguf",
            "SHA-256",
        ),
        (_write("layers/layer-002.gguf", lambda d: d[:-4]), "layers/layer-002.gguf", "instead of"),
        (_write("shared/output.gguf", lambda d: d + b"\0"), "shared/output.gguf", "instead of"),
        (lambda folder: (folder / "layers/layer-002.gguf").unlink(), "layers/layer-002.gguf", "missing"),
        (_link, "layers/layer-002.gguf", "link"),
        (_swap, "layers/layer-002.gguf", "does not belong to layer-002"),
    ],
)
def test_a_damaged_fragment_is_named(
    package: Path, harm: Callable[[Path], None], path: str, words: str
) -> None:
    harm(package)
    found = problems(package)
    assert list(found) == [path]
    assert words in found[path]


def test_a_fragment_of_another_model_is_named(package: Path, tmp_path: Path) -> None:
    other = write_model(tmp_path / "other.gguf", layers=LAYERS + 1)
    strange = build(other, tmp_path / "strange").folder
    data = (strange / "layers/layer-001.gguf").read_bytes()
    (package / "layers/layer-001.gguf").write_bytes(data)

    def adopt(manifest: dict[str, Any]) -> None:
        manifest["layers"][1] |= {"artifact_bytes": len(data), "sha256": packages.sha256(data)}

    change_manifest(package, adopt)
    assert "another model" in problems(package)["layers/layer-001.gguf"]


def test_a_fragment_with_other_counts_than_declared_is_named(package: Path) -> None:
    change_manifest(package, lambda m: m["layers"][0].__setitem__("tensor_count", 3))
    assert "tensors instead of 3" in problems(package)["layers/layer-000.gguf"]


def test_a_folder_that_is_no_package(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=MANIFEST_NAME):
        open_package(tmp_path)
    (tmp_path / MANIFEST_NAME).write_bytes(b" " * (16 << 20) + b"{}")
    with pytest.raises(ModelFileInvalid, match="too long"):
        open_package(tmp_path)
