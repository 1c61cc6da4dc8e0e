"""What a stage is not made from: refused by name, before anything is half installed."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meshllm_core.errors import (
    CutRefused,
    DownloadFailed,
    ModelError,
    ModelFileInvalid,
    ModelNotFound,
    StorageError,
)
from meshllm_core.models.package_fetch import prepare_stage
from meshllm_core.models.package_stage import StageMaker
from tests.models import packages
from tests.models.fetching.conftest import PACKAGE, PLAIN, Node
from tests.models.packages import LAYERS, change_manifest, files_of
from tests.support.hub import LocalHub


def nothing_installed(maker: StageMaker) -> bool:
    """No stage, no layer under its final name."""
    found = {path.name for path in maker.cache.root.rglob("*.gguf")}
    return not any(name.startswith(("stage-", "layer-", "output")) for name in found)


def test_a_corrupt_fragment_is_not_installed(published: LocalHub, node: Node) -> None:
    maker = node("a")
    published.faults.corrupt = True
    with pytest.raises(DownloadFailed, match="arrived damaged"):
        prepare_stage(f"hf://{PACKAGE}", 0, 2, maker)
    assert not maker.cache.root.exists()
    published.faults.corrupt = False
    prepare_stage(f"hf://{PACKAGE}", 0, 1, maker)
    published.faults.corrupt = True
    with pytest.raises(DownloadFailed, match=r"layers/layer-004.gguf arrived damaged"):
        prepare_stage(f"hf://{PACKAGE}", 4, 5, maker)
    names = {path.name for path in maker.cache.root.rglob("*.gguf*")}
    assert not any("004" in name for name in names)


def _shorter(files: dict[str, bytes]) -> None:
    files["layers/layer-001.gguf"] = files["layers/layer-001.gguf"][:-32]


def _longer(files: dict[str, bytes]) -> None:
    files["layers/layer-001.gguf"] += bytes(1 << 16)


def _other(files: dict[str, bytes]) -> None:
    files["layers/layer-001.gguf"] = bytes(len(files["layers/layer-001.gguf"]))


def _absent(files: dict[str, bytes]) -> None:
    del files["layers/layer-001.gguf"]


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (_shorter, "bytes there instead of"),
        (_longer, "bytes there instead of"),
        (_other, "another SHA-256"),
        (_absent, "not there"),
    ],
)
def test_a_repository_that_lacks_what_its_manifest_lists(
    published: LocalHub, node: Node, harm: Callable[[dict[str, bytes]], None], words: str
) -> None:
    harm(published.repositories[PACKAGE].files)
    maker = node("a")
    with pytest.raises(DownloadFailed, match=words) as caught:
        prepare_stage(f"hf://{PACKAGE}", 0, 2, maker)
    assert "layers/layer-001.gguf" in caught.value.message
    assert nothing_installed(maker) and maker.cache.models() == ()


@pytest.mark.parametrize("fault", ["extra_bytes", "content_range"])
def test_a_hub_that_sends_something_else(published: LocalHub, node: Node, fault: str) -> None:
    setattr(published.faults, fault, 64 if fault == "extra_bytes" else "bytes 5-{end}/{total}")
    maker = node("a")
    for ref in (f"hf://{PACKAGE}", PLAIN):
        with pytest.raises(ModelError):
            prepare_stage(ref, 0, 2, maker)
    assert nothing_installed(maker)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(schema_version=2),
        lambda m: m.update(layer_count=10**9),
        lambda m: m["layers"].pop(3),
        lambda m: m["layers"].append(m["layers"][3]),
        lambda m: m["layers"][3].update(path="../../../outside.gguf"),
        lambda m: m["layers"][3].update(path="/outside.gguf"),
    ],
)
def test_a_manifest_that_cannot_be_used_installs_nothing(
    published: LocalHub, node: Node, folder: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    change_manifest(folder, change)
    published.add(PACKAGE, files_of(folder))
    maker = node("a")
    with pytest.raises(ModelFileInvalid, match=PACKAGE):
        prepare_stage(f"hf://{PACKAGE}", 0, 2, maker)
    assert not maker.cache.root.exists()


def test_a_fragment_with_another_layer_in_it_is_refused(
    published: LocalHub, node: Node, folder: Path
) -> None:
    data = (folder / "layers/layer-003.gguf").read_bytes()
    (folder / "layers/layer-002.gguf").write_bytes(data)
    facts = {"artifact_bytes": len(data), "sha256": packages.sha256(data)}
    change_manifest(folder, lambda m: m["layers"][2].update(facts))
    published.add(PACKAGE, files_of(folder))
    maker = node("a")
    with pytest.raises(ModelFileInvalid, match=r"does not belong to layer-002\.gguf"):
        prepare_stage(f"hf://{PACKAGE}", 2, 3, maker)
    assert not list(maker.cache.root.rglob("stage-*"))


def test_a_damaged_package_in_a_folder_is_refused(node: Node, folder: Path) -> None:
    path = folder / "layers/layer-002.gguf"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    with pytest.raises(ModelFileInvalid, match=r"layers/layer-002\.gguf is damaged"):
        prepare_stage(str(folder), 1, 3, node("a"))
    check_others = prepare_stage(str(folder), 3, 5, node("a"))
    assert check_others.file.is_file()


@pytest.mark.parametrize("ref", [f"hf://{PACKAGE}", PLAIN])
def test_the_disk_is_looked_at_first(published: LocalHub, node: Node, ref: str) -> None:
    maker = dataclasses.replace(node("a"), disk_free=lambda folder: (256 << 20) + 400_000)
    with pytest.raises(StorageError, match=r"stage-000-005\.gguf .*does not fit on the disk"):
        prepare_stage(ref, 0, 5, maker)
    assert nothing_installed(maker)
    assert published.served["a"] < 80_000


@pytest.mark.parametrize(
    ("ref", "error"),
    [
        ("hf://owner/nothing", ModelNotFound),
        (f"hf://{PACKAGE}@{'f' * 40}", ModelNotFound),
        ("./nothing.gguf", ModelNotFound),
        ("auto", ModelNotFound),
        (f"{PLAIN}:Q4_K_M", ModelNotFound),
    ],
)
def test_sources_that_are_not_there(
    published: LocalHub, node: Node, ref: str, error: type[ModelError]
) -> None:
    with pytest.raises(error):
        prepare_stage(ref, 0, 1, node("a"))


@pytest.mark.parametrize("layers", [(0, LAYERS + 1), (3, 3), (-1, 2), (0, 10**9)])
def test_layers_that_the_model_does_not_have(
    published: LocalHub, node: Node, layers: tuple[int, int]
) -> None:
    for ref in (f"hf://{PACKAGE}", PLAIN):
        with pytest.raises(CutRefused, match=f"{LAYERS} layers"):
            prepare_stage(ref, *layers, node("a"))
