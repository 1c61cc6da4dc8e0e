"""From what a person wrote to a model ready to load."""

import os
import threading
import time
from pathlib import Path

import pytest

from meshllm_core.errors import DownloadFailed, ModelFileInvalid, ModelNotFound, ModelTooLarge, StorageError
from meshllm_core.models import embedded
from meshllm_core.models.cache import Cache
from meshllm_core.models.catalog import CatalogEntry, catalog, entry_named, pick
from meshllm_core.models.hub import Hub
from meshllm_core.models.locate import locate
from meshllm_core.models.resolve import ResolvedModel, free_disk, resolve
from meshllm_core.paths import Paths
from tests.models.conftest import WriteGguf
from tests.models.test_inspect import write_split
from tests.support.hub import LocalHub

REPO = "owner/model-GGUF"
GIB = 1 << 30
NOBODY = Hub(endpoint="http://127.0.0.1:9", connect_timeout=1)


@pytest.fixture
def home_model(tmp_path: Path, tiny: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that carries a model; importing it would fail."""
    package = tmp_path / "site" / "pretended_model"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')\n")
    (package / "home.Q4_1.gguf").write_bytes(tiny)
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setattr(embedded, "PACKAGE", "pretended_model")
    return package / "home.Q4_1.gguf"


def test_a_file_resolves_to_itself(gguf: WriteGguf, paths: Paths) -> None:
    path = gguf("My Model.Q4_0.gguf")
    found = resolve(str(path), paths=paths, hub=NOBODY, memory_available=None)
    assert (found.id, found.files, found.note) == ("My Model.Q4_0", (path,), "")
    assert found.facts.architecture == "llama"


def test_any_part_of_a_split_set_resolves_to_all_of_it(tmp_path: Path, paths: Paths) -> None:
    files = write_split(tmp_path, 3)
    found = resolve(str(files[1]), paths=paths, hub=NOBODY, memory_available=None)
    assert found.id == "big" and found.files == tuple(files)


def test_a_wrong_path_says_what_is_beside_it(gguf: WriteGguf, paths: Paths, tmp_path: Path) -> None:
    gguf("right.gguf")
    with pytest.raises(ModelNotFound, match=r"There: right\.gguf"):
        resolve(str(tmp_path / "rihgt.gguf"), paths=paths, hub=NOBODY, memory_available=None)
    with pytest.raises(ModelNotFound, match="is a folder"):
        resolve(str(tmp_path), paths=paths, hub=NOBODY, memory_available=None)
    with pytest.raises(ModelNotFound, match=r"hf://owner/repo/m\.gguf"):
        resolve("owner/repo/m.gguf", paths=paths, hub=NOBODY, memory_available=None)


@pytest.mark.skipif(os.name != "posix", reason="pipes with a name")
def test_what_has_the_name_but_is_no_file_is_told_apart(
    gguf: WriteGguf, paths: Paths, tmp_path: Path
) -> None:
    for name in ("a.gguf", "b.gguf", "c.gguf", "right.gguf"):
        gguf(name)
    (tmp_path / "link.gguf").symlink_to(tmp_path / "gone.gguf")
    os.mkfifo(tmp_path / "pipe.gguf")
    for name, words in (
        ("link.gguf", r"is a link to .*gone\.gguf, which is not there"),
        ("pipe.gguf", "is not a file but a device or a pipe"),
        ("rihgt.gguf", r"There: right\.gguf"),
    ):
        with pytest.raises(ModelNotFound, match=words):
            resolve(str(tmp_path / name), paths=paths, hub=NOBODY, memory_available=None)


def test_the_embedded_model_is_found_without_importing_its_package(home_model: Path, paths: Paths) -> None:
    assert resolve("default", paths=paths, hub=NOBODY, memory_available=None).files == (home_model,)


def test_a_missing_embedded_model_is_named(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "PACKAGE", "no_such_package_here")
    with pytest.raises(ModelNotFound, match="not installed"):
        resolve("default", paths=paths, hub=NOBODY, memory_available=None)


def test_a_hub_model_is_downloaded_once(local_hub: LocalHub, hub: Hub, paths: Paths, tiny: bytes) -> None:
    local_hub.add(REPO, {"model-Q4_K_M.gguf": tiny})
    progress: list[tuple[int, int]] = []
    first = resolve(
        f"{REPO}:q4_k_m", paths=paths, hub=hub, memory_available=GIB,
        on_progress=lambda done, total: progress.append((done, total)),
    )  # fmt: skip
    assert first.id == "model-Q4_K_M" and first.files[0].read_bytes() == tiny
    assert progress[-1] == (len(tiny), len(tiny))
    local_hub.requests.clear()
    second = resolve(f"{REPO}:Q4_K_M", paths=paths, hub=hub, memory_available=GIB)
    assert second.files == first.files and local_hub.requests == []


def test_refresh_asks_again_and_fetches_only_what_changed(
    local_hub: LocalHub, hub: Hub, paths: Paths, tiny: bytes
) -> None:
    local_hub.add(REPO, {"model-Q4_K_M.gguf": tiny})
    first = resolve(f"{REPO}:Q4_K_M", paths=paths, hub=hub, memory_available=None)
    local_hub.add(REPO, {"model-Q4_K_M.gguf": tiny, "README.md": b"new"}, commit="b" * 40)
    same = resolve(f"{REPO}:Q4_K_M", paths=paths, hub=hub, memory_available=None, refresh=True)
    assert same.files == first.files and len(local_hub.content_requests()) == 1
    local_hub.add(REPO, {"model-Q4_K_M.gguf": tiny + b"\0" * 32}, commit="c" * 40)
    newer = resolve(f"{REPO}:Q4_K_M", paths=paths, hub=hub, memory_available=None, refresh=True)
    assert newer.files != first.files and newer.id == first.id
    assert resolve(f"{REPO}:Q4_K_M", paths=paths, hub=NOBODY, memory_available=None).files == newer.files


def test_a_split_model_of_the_hub_arrives_as_one(
    local_hub: LocalHub, hub: Hub, paths: Paths, tmp_path: Path
) -> None:
    parts = {f"sub/{path.name}": path.read_bytes() for path in write_split(tmp_path, 2)}
    local_hub.add(REPO, parts)
    progress: list[tuple[int, int]] = []
    found = resolve(
        f"hf://{REPO}/sub/big-00001-of-00002.gguf", paths=paths, hub=hub, memory_available=None,
        on_progress=lambda done, total: progress.append((done, total)),
    )  # fmt: skip
    assert found.id == "big" and len(found.files) == 2
    total = sum(map(len, parts.values()))
    assert progress[-1] == (total, total) and progress == sorted(progress)


def test_without_a_quantization_the_best_that_fits_is_taken(
    local_hub: LocalHub, hub: Hub, paths: Paths, tiny: bytes
) -> None:
    local_hub.add(
        REPO, {"m-Q2_K.gguf": tiny, "m-Q4_K_M.gguf": tiny + b"\0" * 32, "m-Q8_0.gguf": b"\0" * 90_000_000}
    )
    cache = Cache(paths.models)
    small = locate(REPO, cache=cache, hub=hub, memory_available=300 << 20)
    assert small.id == "m-Q4_K_M" and "best of 3" in small.note
    assert locate(REPO, cache=cache, hub=hub, memory_available=GIB).id == "m-Q8_0"
    assert locate(REPO, cache=cache, hub=hub, memory_available=None).id == "m-Q8_0"


def test_what_cannot_fit_is_refused_before_it_is_downloaded(
    local_hub: LocalHub, hub: Hub, paths: Paths
) -> None:
    local_hub.add(REPO, {"m-Q8_0.gguf": b"\0" * 3_000_000})
    for ref in (REPO, f"{REPO}:Q8_0"):
        with pytest.raises(ModelTooLarge, match="does not fit"):
            resolve(ref, paths=paths, hub=hub, memory_available=257 << 20)
    assert local_hub.content_requests() == []


def test_missing_quantizations_and_files_say_what_there_is(
    local_hub: LocalHub, hub: Hub, paths: Paths, tiny: bytes
) -> None:
    local_hub.add(REPO, {"m-Q8_0.gguf": tiny, "m-Q5_K_M.gguf": tiny})
    with pytest.raises(ModelNotFound, match="It has: Q5_K_M, Q8_0"):
        resolve(f"{REPO}:Q4_0", paths=paths, hub=hub, memory_available=None)
    with pytest.raises(ModelNotFound, match=r"no file other\.gguf"):
        resolve(f"hf://{REPO}/other.gguf", paths=paths, hub=hub, memory_available=None)
    local_hub.add("owner/plain", {"model.safetensors": b"1"})
    with pytest.raises(ModelNotFound, match="no GGUF"):
        resolve("owner/plain", paths=paths, hub=hub, memory_available=None)
    local_hub.add("owner/half", {"m-Q8_0-00001-of-00002.gguf": b"1"})
    with pytest.raises(ModelNotFound, match="Parts of m-Q8_0 are missing"):
        resolve("owner/half", paths=paths, hub=hub, memory_available=None)


def test_what_arrives_is_still_checked_to_be_a_model(local_hub: LocalHub, hub: Hub, paths: Paths) -> None:
    local_hub.add(REPO, {"m-Q8_0.gguf": b"<html>not a model</html>"})
    with pytest.raises(ModelFileInvalid, match="not a GGUF"):
        resolve(REPO, paths=paths, hub=hub, memory_available=None)


def test_a_full_disk_is_noticed_before_the_download(
    local_hub: LocalHub, hub: Hub, paths: Paths, tiny: bytes
) -> None:
    local_hub.add(REPO, {"m-Q8_0.gguf": tiny})
    with pytest.raises(StorageError, match="does not fit on the disk") as caught:
        resolve(REPO, paths=paths, hub=hub, memory_available=None, disk_free=lambda folder: 256 << 20)
    assert "prune" in caught.value.hint
    assert local_hub.content_requests() == []
    assert free_disk(paths.models) > 0


def test_a_cache_that_cannot_be_written_is_named(
    local_hub: LocalHub, hub: Hub, paths: Paths, tiny: bytes
) -> None:
    local_hub.add(REPO, {"m-Q8_0.gguf": tiny})
    # Rights do not stop the administrator, a file in the way stops everybody.
    paths.cache.parent.mkdir(parents=True)
    paths.cache.write_bytes(b"")
    with pytest.raises(StorageError, match="cannot be used") as caught:
        resolve(REPO, paths=paths, hub=hub, memory_available=None)
    assert "MESHLLM_HOME" in caught.value.hint


def test_a_read_only_cache_still_serves_what_is_in_it(
    local_hub: LocalHub, hub: Hub, paths: Paths, tiny: bytes
) -> None:
    local_hub.add(REPO, {"m-Q8_0.gguf": tiny})
    found = resolve(REPO, paths=paths, hub=hub, memory_available=None)
    found.files[0].parent.chmod(0o500)
    try:
        again = resolve(REPO, paths=paths, hub=NOBODY, memory_available=None)
    finally:
        found.files[0].parent.chmod(0o700)
    assert again.files == found.files


def test_two_downloads_of_one_model_wait_for_each_other(
    local_hub: LocalHub, hub: Hub, paths: Paths, tiny: bytes
) -> None:
    local_hub.add(REPO, {"m-Q8_0.gguf": tiny})
    local_hub.faults.chunk, local_hub.faults.seconds_per_chunk = 20_000, 0.05
    found: list[ResolvedModel] = []

    def one() -> None:
        found.append(resolve(REPO, paths=paths, hub=hub, memory_available=None))

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(found) == 2 and found[0].files == found[1].files
    assert len(local_hub.content_requests()) == 1


def test_waiting_for_another_download_can_be_cancelled(
    local_hub: LocalHub, hub: Hub, paths: Paths, tiny: bytes
) -> None:
    local_hub.add(REPO, {"m-Q8_0.gguf": tiny})
    local_hub.faults.chunk, local_hub.faults.seconds_per_chunk = 20_000, 0.3
    first = threading.Thread(
        target=resolve, args=(REPO,), kwargs={"paths": paths, "hub": hub, "memory_available": None}
    )
    first.start()
    time.sleep(0.4)
    with pytest.raises(DownloadFailed, match="cancelled"):
        resolve(REPO, paths=paths, hub=hub, memory_available=None, cancelled=lambda: True)
    first.join(20)


def test_the_catalogue_has_a_step_for_every_machine() -> None:
    steps = [pick(gib * GIB) for gib in (2, 4, 6, 8, 12, 16, 24, 32, 48, 96)]
    found = [entry for entry in steps if entry is not None]
    assert len({entry.id for entry in found}) == 10
    assert [entry.bytes for entry in found] == sorted(entry.bytes for entry in found)
    assert pick(256 << 20) is None
    for entry in catalog():
        assert entry.licence and entry.about and entry.repo.count("/") == 1
        assert entry_named(entry.id).ref.quant == entry.quant


@pytest.mark.parametrize("gib", [1, 2, 4, 8, 16, 64])
def test_a_pick_leaves_room(gib: int) -> None:
    entry = pick(gib * GIB)
    assert entry is not None and entry.memory_bytes <= 0.9 * gib * GIB


def _publish(local_hub: LocalHub, entry: CatalogEntry, data: bytes) -> None:
    local_hub.add(entry.repo, {f"{entry.id}-{entry.quant}.gguf": data})


def test_auto_fetches_the_best_that_fits(local_hub: LocalHub, hub: Hub, paths: Paths, tiny: bytes) -> None:
    best = pick(4 * GIB)
    assert best is not None
    _publish(local_hub, best, tiny)
    found = resolve("auto", paths=paths, hub=hub, memory_available=4 * GIB)
    assert found.id == f"{best.id}-{best.quant}"
    assert "best model that fits in 4.00 GiB" in found.note and "download" in found.note
    again = resolve("auto", paths=paths, hub=NOBODY, memory_available=4 * GIB)
    assert again.files == found.files and "here already" in again.note


def test_auto_without_a_hub_takes_the_best_that_is_here(
    local_hub: LocalHub, hub: Hub, paths: Paths, tiny: bytes, home_model: Path
) -> None:
    fallback = resolve("auto", paths=paths, hub=NOBODY, memory_available=8 * GIB)
    assert fallback.files == (home_model,)
    assert "cannot be fetched" in fallback.note and "comes with meshllm" in fallback.note
    smaller = pick(3 * GIB)
    assert smaller is not None
    _publish(local_hub, smaller, tiny)
    resolve(smaller.id, paths=paths, hub=hub, memory_available=None)
    found = resolve("auto", paths=paths, hub=NOBODY, memory_available=8 * GIB)
    assert found.id == f"{smaller.id}-{smaller.quant}" and "best model here" in found.note


def test_auto_on_a_tiny_machine_takes_the_embedded_model(paths: Paths, home_model: Path) -> None:
    found = resolve("auto", paths=paths, hub=NOBODY, memory_available=300 << 20)
    assert found.files == (home_model,) and "Only the model that comes with meshllm" in found.note
