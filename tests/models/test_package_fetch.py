"""A stage fetches what its layers need and no more, from wherever the model is; nothing half installed."""

import dataclasses
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meshllm_core.errors import (
    CutRefused,
    DownloadFailed,
    ModelError,
    ModelFileInvalid,
    ModelNotFound,
    StorageError,
)
from meshllm_core.models import cursor
from meshllm_core.models.cache import Cache
from meshllm_core.models.hub import Hub
from meshllm_core.models.package_build import build_package
from meshllm_core.models.package_fetch import prepare_stage
from meshllm_core.models.package_manifest import MANIFEST_NAME
from meshllm_core.models.package_probes import PROBES_NAME, GoldenProbes
from meshllm_core.models.package_stage import PreparedStage, StageMaker
from meshllm_core.models.resolve import resolve
from meshllm_core.models.storage import PARTIAL_SUFFIX
from meshllm_core.paths import Paths
from tests.models import packages
from tests.models.packages import LAYERS, WIDTH, build, change_manifest, files_of, tensors_of, write_model
from tests.support.hub import COMMIT, LocalHub

PACKAGE = "owner/tiny-layers"
PLAIN = "owner/tiny-GGUF"
NAME = "tiny-F32.gguf"


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads are read in blocks that are small beside a model of some hundred kilobytes."""
    monkeypatch.setattr(cursor, "BLOCK", 4096)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / NAME)


@pytest.fixture(scope="module")
def built(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(model, tmp_path_factory.mktemp("built") / "package").folder


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """A package that a test may change."""
    return Path(shutil.copytree(built, tmp_path / "package"))


@pytest.fixture
def published(local_hub: LocalHub, model: Path, built: Path) -> LocalHub:
    """The model as a plain file and as a package."""
    local_hub.add(PLAIN, {NAME: model.read_bytes(), "README.md": b"hello"})
    local_hub.add(PACKAGE, files_of(built))
    return local_hub


@pytest.fixture
def node(local_hub: LocalHub, tmp_path: Path) -> Callable[[str], StageMaker]:
    """A machine with a cache and a token of its own."""

    def make(name: str) -> StageMaker:
        hub = Hub(endpoint=local_hub.address, token=name, connect_timeout=2, read_timeout=2, retry_wait=0.01)
        return StageMaker(Cache(tmp_path / name), hub)

    return make


Node = Callable[[str], StageMaker]


def check(stage: PreparedStage, model: Path, start: int, end: int) -> None:
    """The stage's layers are the model's, renumbered, byte for byte."""
    source, made = tensors_of(model), tensors_of(stage.file)
    layers = {name for name in made if name.startswith("blk.")}
    assert len(layers) == 9 * (end - start)
    for name in layers:
        _, number, rest = name.split(".", 2)
        assert made[name] == source[f"blk.{int(number) + start}.{rest}"]
    assert made["output_norm.weight"] == source["output_norm.weight"]
    assert made["rope_freqs.weight"] == source["rope_freqs.weight"]
    if start == 0:
        assert made["token_embd.weight"] == source["token_embd.weight"]
    if end == LAYERS and "output.weight" in source:
        assert made["output.weight"] == source["output.weight"]
    assert (stage.shape.start, stage.shape.end) == (start, end)


def layers_asked_for(hub: LocalHub) -> set[str]:
    return {path.rpartition("/")[2] for _, path, _ in hub.content_requests() if "layer-" in path}


def test_two_machines_fetch_their_layers_of_a_package(published: LocalHub, node: Node, model: Path) -> None:
    for name, start, end in (("front", 0, 2), ("back", 2, LAYERS)):
        published.requests.clear()
        stage = prepare_stage(f"hf://{PACKAGE}@{COMMIT}", start, end, node(name))
        check(stage, model, start, end)
        assert layers_asked_for(published) == {f"layer-{layer:03d}.gguf" for layer in range(start, end)}
        assert stage.identity == packages.sha256(published.repositories[PACKAGE].files[MANIFEST_NAME])
        manifest = len(published.repositories[PACKAGE].files[MANIFEST_NAME])
        assert stage.downloaded == published.served[name] - manifest
    assert published.served["front"] < 0.55 * model.stat().st_size


def test_two_machines_fetch_their_layers_of_a_plain_file(
    published: LocalHub, node: Node, model: Path
) -> None:
    total = 0
    for name, start, end in (("front", 0, 2), ("back", 2, LAYERS)):
        stage = prepare_stage(f"{PLAIN}:F32@{COMMIT}", start, end, node(name))
        check(stage, model, start, end)
        assert stage.downloaded == published.served[name]
        total += stage.downloaded
    assert published.served["front"] < 0.45 * model.stat().st_size
    # Both need the head; of the weights hardly anything comes twice.
    assert total < model.stat().st_size + 60_000


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("start", "end"), [(0, 3), (2, 4), (4, LAYERS), (0, LAYERS)])
def test_a_stage_is_the_same_wherever_it_came_from(
    local_hub: LocalHub, node: Node, tmp_path: Path, start: int, end: int, tied: bool
) -> None:
    model = write_model(tmp_path / NAME, tied=tied)
    folder = build(model, tmp_path / "package").folder
    local_hub.add(PLAIN, {NAME: model.read_bytes()})
    local_hub.add(PACKAGE, files_of(folder))
    sources = (str(model), str(folder), PLAIN, f"hf://{PACKAGE}")
    stages = [prepare_stage(source, start, end, node("any")) for source in sources]
    check(stages[0], model, start, end)
    expected = tensors_of(stages[0].file)
    assert all(tensors_of(stage.file) == expected for stage in stages[1:])
    assert len({stage.shape for stage in stages}) == 1


def test_a_split_set_at_the_hub_is_read_by_ranges(
    local_hub: LocalHub, node: Node, model: Path, tmp_path: Path
) -> None:
    import gguf

    reader = gguf.GGUFReader(model)
    files, half = {}, len(reader.tensors) // 2
    for number, tensors in enumerate((reader.tensors[:half], reader.tensors[half:])):
        path = tmp_path / f"set-F32-0000{number + 1}-of-00002.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        if number == 0:
            for field in ("block_count", "context_length", "embedding_length"):
                writer.add_uint32(f"llama.{field}", int(reader.fields[f"llama.{field}"].contents()))
        writer.add_uint16("split.count", 2)
        for tensor in tensors:
            writer.add_tensor(tensor.name, tensor.data)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        files[path.name] = path.read_bytes()
    local_hub.add(PLAIN, files)
    stage = prepare_stage(PLAIN, 2, 4, node("any"))
    check(stage, model, 2, 4)
    assert stage.downloaded < 0.6 * model.stat().st_size


@pytest.mark.parametrize("ref", [f"hf://{PACKAGE}", f"hf://{PACKAGE}:main", PLAIN])
def test_what_is_here_needs_no_hub(published: LocalHub, node: Node, ref: str) -> None:
    first = prepare_stage(ref, 1, 3, node("a"))
    published.repositories.clear()
    published.requests.clear()
    again = prepare_stage(ref, 1, 3, node("a"))
    assert dataclasses.replace(first, downloaded=0) == again
    assert prepare_stage(ref, 2, 3, node("a")).downloaded == 0
    assert not published.requests


def test_another_range_fetches_only_what_is_new(published: LocalHub, node: Node, model: Path) -> None:
    prepare_stage(f"hf://{PACKAGE}", 0, 3, node("a"))
    prepare_stage(PLAIN, 0, 3, node("b"))
    published.requests.clear()
    published.served.clear()
    check(prepare_stage(f"hf://{PACKAGE}", 2, 5, node("a")), model, 2, 5)
    assert layers_asked_for(published) == {"layer-003.gguf", "layer-004.gguf"}
    check(prepare_stage(PLAIN, 2, 5, node("b")), model, 2, 5)
    assert published.served["b"] < 0.4 * model.stat().st_size


def test_a_whole_model_that_is_here_is_cut_where_it_is(
    published: LocalHub, node: Node, model: Path, paths: Paths
) -> None:
    maker = dataclasses.replace(node("a"), cache=Cache(paths.models))
    resolve(f"{PLAIN}:F32", paths=paths, hub=maker.hub, memory_available=None)
    published.served.clear()
    check(prepare_stage(f"{PLAIN}:F32", 1, 4, maker), model, 1, 4)
    assert published.served["a"] == 0


def test_an_interrupted_download_goes_on(published: LocalHub, node: Node, model: Path) -> None:
    published.faults.chunk = 20_000
    done: list[int] = []
    maker = dataclasses.replace(
        node("a"), on_progress=lambda here, _: done.append(here), cancelled=lambda: sum(done) > 300_000
    )
    with pytest.raises(DownloadFailed, match="cancelled"):
        prepare_stage(f"hf://{PACKAGE}", 0, LAYERS, maker)
    whole = sorted(path.name for path in maker.cache.root.rglob("layer-*.gguf"))
    part = [path for path in maker.cache.root.rglob(f"*{PARTIAL_SUFFIX}") if path.stat().st_size]
    assert whole and not list(maker.cache.root.rglob("stage-*"))
    first = published.served["a"]
    published.requests.clear()
    check(prepare_stage(f"hf://{PACKAGE}", 0, LAYERS, node("a")), model, 0, LAYERS)
    assert layers_asked_for(published).isdisjoint(whole)
    resumed = [r for r in published.content_requests() if r[2] and not r[2].startswith("bytes=0-")]
    assert bool(part) == bool(resumed)
    everything = sum(map(len, published.repositories[PACKAGE].files.values()))
    assert published.served["a"] - first < everything


def test_probes_come_along(local_hub: LocalHub, node: Node, model: Path, tmp_path: Path) -> None:
    rows = {b: np.ones((2, WIDTH), np.float32) * b for b in range(LAYERS + 1)}
    probes = GoldenProbes((1, 2), rows, "test")
    folder = build_package(model, tmp_path / "probed", created_at=1, probes=probes).folder
    local_hub.add(PACKAGE, files_of(folder))
    stage = prepare_stage(f"hf://{PACKAGE}", 1, 2, node("a"))
    assert stage.probes is not None and stage.probes.read_bytes() == (folder / PROBES_NAME).read_bytes()
    assert prepare_stage(str(folder), 1, 2, node("a")).probes == folder / PROBES_NAME
    local_hub.repositories[PACKAGE].files[PROBES_NAME] = b"nothing of the kind" * 10
    spoiled = prepare_stage(f"hf://{PACKAGE}", 1, 2, node("b"))
    assert spoiled.probes is None and "probes" in spoiled.note


# What is refused --------------------------------------------------------------------------------


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


# The cache --------------------------------------------------------------------------------------


def test_layers_are_listed_and_removed_unless_in_use(published: LocalHub, node: Node) -> None:
    maker = node("a")
    stage = prepare_stage(f"hf://{PACKAGE}@{COMMIT}", 1, 3, maker)
    cache = maker.cache
    (listed,) = cache.models()
    assert (listed.kind, listed.id, listed.ref) == ("layers", "tiny-F32", f"hf://{PACKAGE}")
    assert listed.files == (stage.file,) and not listed.complete
    assert stage.file.stat().st_size < listed.bytes_here
    assert cache.stale() == ()
    assert cache.find_source(PACKAGE, "", "main", "") is None
    with cache.in_use((stage.file,)):
        assert cache.models()[0].used_by == (os.getpid(),)
        assert cache.prune(cache.models()).kept_in_use == cache.models()
    assert stage.file.exists()
    assert cache.prune(cache.models()).removed == (listed,)
    assert cache.models() == () and not stage.file.exists()


def test_a_package_is_not_loaded_as_a_model(published: LocalHub, node: Node, paths: Paths) -> None:
    with pytest.raises(ModelFileInvalid, match="package of layers"):
        resolve(f"hf://{PACKAGE}", paths=paths, hub=node("a").hub, memory_available=None)
