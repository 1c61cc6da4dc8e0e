"""The models on this disk: which there are, and removing one that nothing uses."""

from pathlib import Path

import pytest

from meshllm_core.errors import DownloadFailed, ModelNotFound, StorageError
from meshllm_core.models.cache import Cache, downloading
from meshllm_core.models.embedded import embedded_model
from meshllm_core.models.hub import Hub
from meshllm_core.models.library import delete, discard, kept_models
from meshllm_core.models.resolve import resolve
from meshllm_core.paths import Paths
from tests.support.hub import LocalHub

REPO = "owner/tiny-GGUF"


@pytest.fixture
def cache(paths: Paths, local_hub: LocalHub, tiny: bytes) -> Cache:
    """Holds a whole model of the hub and two loose files of one folder."""
    local_hub.add(REPO, {"tiny-Q4_K_M.gguf": tiny, "tiny-Q8_0.gguf": tiny})
    resolve(f"{REPO}:Q4_K_M", paths=paths, hub=Hub(endpoint=local_hub.address), memory_available=None)
    for name in ("one.gguf", "two.gguf"):
        (paths.models / name).write_bytes(tiny)
    return Cache(paths.models)


def keys(cache: Cache) -> dict[str, str]:
    """Key of each model by its name."""
    return {model.id: model.key for model in kept_models(cache)}


def test_all_models_have_a_key_of_their_own(cache: Cache) -> None:
    models = kept_models(cache)
    assert len({model.key for model in models}) == len(models) == 4
    assert models[0].comes_with and models[0].ref == "default"
    by_id = {model.id: model for model in models}
    assert by_id["tiny-Q4_K_M"].ref == f"{REPO}:Q4_K_M"
    assert by_id["one"].key == "one.gguf"


def test_one_of_two_loose_files_is_deleted(cache: Cache, paths: Paths) -> None:
    assert delete(cache, keys(cache)["one"]).bytes_here > 0
    assert sorted(path.name for path in paths.models.glob("*.gguf")) == ["two.gguf"]
    assert "tiny-Q4_K_M" in keys(cache)


def test_a_model_of_the_hub_goes_with_its_folder(cache: Cache, paths: Paths) -> None:
    delete(cache, keys(cache)["tiny-Q4_K_M"])
    assert not (paths.models / "owner").exists()
    with pytest.raises(ModelNotFound, match="no model"):
        delete(cache, "owner/tiny-GGUF/gone")


def test_what_is_in_use_stays(cache: Cache) -> None:
    model = next(model for model in cache.models() if model.id == "tiny-Q4_K_M")
    with cache.in_use(model.files), pytest.raises(StorageError, match="in use by process"):
        delete(cache, keys(cache)["tiny-Q4_K_M"])
    with downloading(model.folder, wait=0) as held, pytest.raises(StorageError, match="being downloaded"):
        assert held
        delete(cache, keys(cache)["tiny-Q4_K_M"])
    assert model.files[0].exists()


def test_what_comes_with_meshllm_stays(cache: Cache) -> None:
    with pytest.raises(StorageError, match="part of meshllm's installation"):
        delete(cache, "default")
    assert embedded_model().exists()


@pytest.mark.parametrize("key", ["../outside.gguf", "/etc/hosts", "owner", "", "one.gguf/../two.gguf"])
def test_a_key_reaches_nothing_else(cache: Cache, paths: Paths, key: str) -> None:
    outside: Path = paths.models.parent / "outside.gguf"
    outside.write_bytes(b"mine")
    with pytest.raises(ModelNotFound):
        delete(cache, key)
    assert outside.exists() and len(kept_models(cache)) == 4


def test_only_what_is_not_whole_is_discarded(cache: Cache, paths: Paths, local_hub: LocalHub) -> None:
    whole = next(model for model in cache.models() if model.id == "tiny-Q4_K_M")
    assert discard(cache, whole.folder) == 0
    local_hub.faults.cut_at = 0.5
    hub = Hub(endpoint=local_hub.address, retry_wait=0.001)
    local_hub.faults.refusals = [403]
    with pytest.raises(DownloadFailed):
        resolve(f"{REPO}:Q8_0", paths=paths, hub=hub, memory_available=None)
    partial = next(model for model in cache.models() if model.id == "tiny-Q8_0")
    assert not partial.complete
    with downloading(partial.folder, wait=0):
        assert discard(cache, partial.folder) == 0
    discard(cache, partial.folder)
    assert not partial.folder.exists() and whole.folder.exists()
