"""A stage fetches what its layers need and no more, from wherever the model is; nothing half installed."""

import dataclasses
import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from meshllm_core.errors import DownloadFailed, ModelFileInvalid
from meshllm_core.models.cache import Cache, downloading
from meshllm_core.models.package_build import build_package
from meshllm_core.models.package_fetch import prepare_stage
from meshllm_core.models.package_manifest import MANIFEST_NAME
from meshllm_core.models.package_probes import PROBES_NAME, GoldenProbes
from meshllm_core.models.package_stage import PreparedStage
from meshllm_core.models.resolve import resolve
from meshllm_core.models.storage import PARTIAL_SUFFIX
from meshllm_core.paths import Paths
from tests.models import packages
from tests.models.fetching.conftest import NAME, PACKAGE, PLAIN, Node
from tests.models.packages import LAYERS, WIDTH, build, files_of, tensors_of, write_model
from tests.support.hub import COMMIT, LocalHub


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
        # As a tensor or, where the stage looks rows up itself, behind the model.
        assert source["token_embd.weight"][1] in stage.file.read_bytes()
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


def test_of_layers_that_only_fill_up_nothing_but_the_heads_comes(
    local_hub: LocalHub, node: Node, tmp_path: Path
) -> None:
    """smollm3 counts its layers in fours: a stage from layer 2 on has two layers of zeros in front."""
    model = write_model(tmp_path / NAME, architecture="smollm3")
    local_hub.add(PLAIN, {NAME: model.read_bytes()})
    local_hub.add(PACKAGE, files_of(build(model, tmp_path / "package").folder))
    stages = [prepare_stage(ref, 2, 3, node("a")) for ref in (str(model), f"hf://{PACKAGE}", PLAIN)]
    assert stages[0].shape.window_start == 0
    expected = tensors_of(stages[0].file)
    assert not any(expected["blk.1.attn_q.weight"][1]) and any(expected["blk.2.attn_q.weight"][1])
    assert all(tensors_of(stage.file) == expected for stage in stages)
    whole = [path for _, path, part in local_hub.content_requests() if "layer-" in path and not part]
    assert not whole
    layer = stages[0].file.stat().st_size // 3
    assert max(stage.downloaded for stage in stages[1:]) < layer + 7 * 20_000


@pytest.mark.parametrize("ref", [f"hf://{PACKAGE}", f"hf://{PACKAGE}:main", PLAIN])
def test_what_is_here_needs_no_hub(published: LocalHub, node: Node, ref: str) -> None:
    first = prepare_stage(ref, 1, 3, node("a"))
    published.repositories.clear()
    published.requests.clear()
    again = prepare_stage(ref, 1, 3, node("a"))
    assert dataclasses.replace(first, downloaded=0) == again
    assert prepare_stage(ref, 2, 3, node("a")).downloaded == 0
    assert not published.requests


def test_a_newer_version_is_taken_when_asked_for(
    published: LocalHub, node: Node, model: Path, tmp_path: Path
) -> None:
    old = [prepare_stage(ref, 1, 2, node("a")) for ref in (f"hf://{PACKAGE}", PLAIN)]
    newer = write_model(tmp_path / NAME, tied=True)
    published.add(PLAIN, {NAME: newer.read_bytes()}, commit="9" * 40)
    published.add(PACKAGE, files_of(build(newer, tmp_path / "newer").folder), commit="9" * 40)
    for ref, before in zip((f"hf://{PACKAGE}", PLAIN), old, strict=True):
        assert prepare_stage(ref, 1, 2, node("a")).file == before.file
        fresh = prepare_stage(ref, 1, 2, node("a"), refresh=True)
        assert fresh.file != before.file and before.file.exists()
        assert prepare_stage(ref, 1, 2, node("a")).file == fresh.file


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


@pytest.mark.parametrize("ref", [f"hf://{PACKAGE}", PLAIN])
def test_progress_is_always_of_something(published: LocalHub, node: Node, ref: str) -> None:
    totals: list[int] = []
    maker = dataclasses.replace(node("a"), on_progress=lambda _, total: totals.append(total))
    for start, end in ((0, 2), (0, 3), (0, 2)):
        prepare_stage(ref, start, end, maker)
    assert totals and 0 not in totals


@pytest.mark.parametrize("ref", [f"hf://{PACKAGE}", PLAIN])
def test_two_at_once_share_one_download(published: LocalHub, node: Node, ref: str) -> None:
    alone = prepare_stage(ref, 0, 4, node("alone")).downloaded
    makers = [dataclasses.replace(node("a"), hub=node(name).hub) for name in ("a", "b")]
    with ThreadPoolExecutor(2) as pool:
        stages = list(pool.map(lambda maker: prepare_stage(ref, 0, 4, maker), makers))
    assert stages[0].file == stages[1].file
    assert sorted(stage.downloaded for stage in stages) == [0, alone]


def test_who_waits_for_another_process_is_told_once(node: Node, tmp_path: Path) -> None:
    told: list[str] = []
    tries = itertools.count()
    maker = dataclasses.replace(
        node("a"), on_wait=lambda: told.append("waits"), cancelled=lambda: next(tries) == 2
    )
    with downloading(tmp_path, wait=0) as held, pytest.raises(DownloadFailed, match="Waiting"):
        assert held
        with maker.holding(tmp_path):
            raise AssertionError
    assert told == ["waits"]


def test_probes_come_along(local_hub: LocalHub, node: Node, model: Path, tmp_path: Path) -> None:
    rows = {b: np.ones((2, WIDTH), np.float32) * b for b in range(LAYERS + 1)}
    probes = GoldenProbes((1, 2), rows, "test")
    folder = build_package(model, tmp_path / "probed", created_at=1, probes=lambda: probes).folder
    local_hub.add(PACKAGE, files_of(folder))
    stage = prepare_stage(f"hf://{PACKAGE}", 1, 2, node("a"))
    assert stage.probes is not None and stage.probes.read_bytes() == (folder / PROBES_NAME).read_bytes()
    assert prepare_stage(str(folder), 1, 2, node("a")).probes == folder / PROBES_NAME
    local_hub.repositories[PACKAGE].files[PROBES_NAME] = b"nothing of the kind" * 10
    spoiled = prepare_stage(f"hf://{PACKAGE}", 1, 2, node("b"))
    assert spoiled.probes is None and "probes" in spoiled.note


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
