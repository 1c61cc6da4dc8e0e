"""What is on disk is what is listed; what is in use stays."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock

from meshllm_core.errors import StorageError
from meshllm_core.models.cache import LOCK_NAME, SOURCE_NAME, Cache, downloading
from meshllm_core.models.hub import Hub
from meshllm_core.models.marks import in_use, users_of
from meshllm_core.models.quants import RemoteFile, RemoteModel
from meshllm_core.models.resolve import resolve
from meshllm_core.paths import Paths
from tests.models.conftest import WriteGguf
from tests.support.hub import LocalHub

REPO = "owner/model-GGUF"


@pytest.fixture
def cache(paths: Paths, local_hub: LocalHub, hub: Hub, tiny: bytes) -> Cache:
    """One whole model."""
    local_hub.add(REPO, {"model-Q4_K_M.gguf": tiny, "model-Q8_0.gguf": tiny + b"\0" * 64})
    resolve(f"{REPO}:Q4_K_M", paths=paths, hub=hub, memory_available=None)
    return Cache(paths.models)


def test_an_absent_folder_is_an_empty_cache(tmp_path: Path) -> None:
    assert Cache(tmp_path / "nothing").models() == ()


def test_a_whole_model_is_listed_with_its_source(cache: Cache, tiny: bytes) -> None:
    (model,) = cache.models()
    assert (model.id, model.repo, model.quant) == ("model-Q4_K_M", REPO, "Q4_K_M")
    assert model.complete and model.bytes_here == model.bytes_total == len(tiny)
    assert model.ref == f"{REPO}:Q4_K_M"
    assert model.used_by == ()
    for name in ("model-q4_k_m", REPO, f"{REPO}:q4_k_m"):
        assert cache.find(name) == (model,)


def test_a_partial_download_is_listed_as_such(cache: Cache) -> None:
    files = (
        RemoteFile("big-Q5_0-00001-of-00002.gguf", 100, "a" * 64),
        RemoteFile("big-Q5_0-00002-of-00002.gguf", 50, "b" * 64),
    )
    folder = cache.record(REPO, "main", "c" * 40, RemoteModel("Q5_0", files))
    (folder / "big-Q5_0-00001-of-00002.gguf").write_bytes(b"x" * 100)
    (folder / "big-Q5_0-00002-of-00002.gguf.part").write_bytes(b"x" * 20)
    (partial,) = cache.find("big-Q5_0")
    assert not partial.complete
    assert (partial.bytes_here, partial.bytes_total) == (120, 150)
    assert cache.find_source(REPO, "Q5_0", "main", "") is None


def test_files_that_somebody_copied_are_listed_too(cache: Cache, tiny: bytes) -> None:
    (cache.root / "mine-Q8_0.gguf").write_bytes(tiny)
    (cache.root / "half-00001-of-00002.gguf").write_bytes(tiny)
    (mine,) = cache.find("mine-Q8_0")
    assert mine.complete and mine.quant == "Q8_0" and mine.ref == str(cache.root / "mine-Q8_0.gguf")
    assert not cache.find("half")[0].complete


@pytest.mark.parametrize("record", [b"{broken", b"", b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"])
def test_a_damaged_record_hides_nothing_and_breaks_nothing(cache: Cache, record: bytes) -> None:
    (model,) = cache.models()
    (model.folder / SOURCE_NAME).write_bytes(record)
    (again,) = cache.models()
    assert again.files == model.files and again.repo == ""


def test_prune_removes_what_is_named_and_its_empty_folders(cache: Cache) -> None:
    models = cache.models()
    dry = cache.prune(models, dry_run=True)
    assert dry.removed == models and dry.bytes_freed == models[0].bytes_here
    assert cache.models() == models
    done = cache.prune(models)
    assert done.removed == models and cache.models() == ()
    assert list(cache.root.iterdir()) == []


def test_what_a_process_uses_is_kept(cache: Cache) -> None:
    models = cache.models()
    with in_use(models[0].files):
        assert users_of(models[0].folder) == (os.getpid(),)
        assert cache.prune(models).kept_in_use == models
        with pytest.raises(StorageError, match="in use"):
            cache.remove(models[0])
        assert cache.models()[0].used_by == (os.getpid(),)
    assert users_of(models[0].folder) == ()
    assert cache.prune(models).removed == models


def test_only_files_of_the_cache_are_marked(cache: Cache, gguf: WriteGguf) -> None:
    outside = gguf("outside.gguf")
    (model,) = cache.models()
    with cache.in_use((*model.files, outside)):
        assert users_of(model.folder) == (os.getpid(),)
        assert users_of(outside.parent) == ()


def test_stale_is_what_is_partial_or_has_a_newer_version(
    cache: Cache, local_hub: LocalHub, hub: Hub, paths: Paths, tiny: bytes
) -> None:
    assert cache.stale() == ()
    (old,) = cache.models()
    os.utime(old.folder / SOURCE_NAME, (1_000_000, 1_000_000))
    local_hub.add(REPO, {"model-Q4_K_M.gguf": tiny + b"\0" * 32})
    resolve(f"{REPO}:Q4_K_M", paths=paths, hub=hub, memory_available=None, refresh=True)
    partial = cache.record(
        REPO, "main", "c" * 40, RemoteModel("Q5_0", (RemoteFile("m.gguf", 100, "a" * 64),))
    )
    assert {model.folder for model in cache.stale()} == {old.folder, partial}


def test_the_mark_of_a_dead_process_does_not_count(cache: Cache) -> None:
    (model,) = cache.models()
    code = (
        "import os, sys, pathlib; from meshllm_core.models.marks import in_use\n"
        "manager = in_use((pathlib.Path(sys.argv[1]),)); manager.__enter__(); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(model.files[0])], check=False, timeout=30)
    assert list(model.folder.glob(".in-use-*"))
    assert users_of(model.folder) == ()
    assert not list(model.folder.glob(".in-use-*"))


def test_a_mark_of_a_reused_process_id_does_not_count(cache: Cache) -> None:
    (model,) = cache.models()
    (model.folder / f".in-use-{os.getpid()}-1000-abcd").touch()
    assert users_of(model.folder) == ()


def test_marking_a_folder_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    with in_use((tmp_path / "nowhere" / "model.gguf",)):
        pass


def test_a_download_under_way_is_not_pruned(cache: Cache) -> None:
    models = cache.models()
    with FileLock(models[0].folder / LOCK_NAME):
        code = (
            "import sys, pathlib; from meshllm_core.models.cache import Cache\n"
            "cache = Cache(pathlib.Path(sys.argv[1]))\n"
            "sys.exit(len(cache.prune(cache.models()).removed))"
        )
        done = subprocess.run([sys.executable, "-c", code, str(cache.root)], check=False, timeout=30)
        assert done.returncode == 0
    assert cache.models() == models


def test_a_lock_that_is_held_is_said(tmp_path: Path) -> None:
    with FileLock(tmp_path / LOCK_NAME), downloading(tmp_path, wait=0.05) as held:
        assert not held
    with downloading(tmp_path, wait=0.05) as held:
        assert held


def test_find_source_knows_revisions_and_files(cache: Cache) -> None:
    assert cache.find_source("OWNER/Model-gguf", "", "main", "") is not None
    assert cache.find_source(REPO, "", "0123456", "") is not None
    assert cache.find_source(REPO, "", "v2", "") is None
    assert cache.find_source(REPO, "Q8_0", "main", "") is None
    assert cache.find_source(REPO, "", "main", "sub/model-Q4_K_M.gguf") is not None
    assert cache.find_source(REPO, "", "main", "other.gguf") is None


def test_a_file_outside_the_cache_is_not_listed(cache: Cache, gguf: WriteGguf) -> None:
    gguf("outside.gguf")
    assert len(cache.models()) == 1


def test_downloads_that_begin_in_the_same_moment_record_one_whole_source(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    model = RemoteModel("Q8_0", (RemoteFile("m-Q8_0.gguf", 10, "a" * 64),))
    together = threading.Barrier(8)

    def record(number: int) -> Path:
        together.wait()
        return cache.record("owner/m-GGUF", f"v{number}", f"{number}" * 40, model)

    with ThreadPoolExecutor(8) as pool:
        for _round in range(20):
            folders = set(pool.map(record, range(8)))
    (folder,) = folders
    assert {path.name for path in folder.iterdir()} == {SOURCE_NAME}
    assert len(cache.models()) == 1
