"""A disk that is nearly full: old cuts of models give way to new ones, what is in use does not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from meshllm_core.errors import StorageError
from meshllm_core.models.cache import Cache
from meshllm_core.models.hub import Hub
from meshllm_core.models.package_stage import StageMaker, stage_of_file
from meshllm_core.models.resolve import DISK_MARGIN
from meshllm_core.models.stage_room import make_room
from meshllm_core.models.stage_store import received_path, record_received
from tests.models.packages import LAYERS, write_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny-F32.gguf")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "models")


def _held(cache: Cache) -> int:
    return sum(file.stat().st_size for file in cache.root.rglob("*.gguf"))


def _names(cache: Cache) -> list[str]:
    return sorted(file.name for file in cache.root.rglob("*.gguf"))


def _disk(cache: Cache, room: int) -> Callable[[Path], int]:
    """A disk of so many bytes, beside what has to stay free."""
    return lambda folder: DISK_MARGIN + room - _held(cache)


def _received(cache: Cache, name: str, size: int) -> Path:
    target = received_path(cache, name * 32, (0, 3))
    record_received(cache, target, name * 32, size, model=name, sender="Anna")
    target.write_bytes(bytes(size))
    return target


def test_cuts_of_one_model_do_not_fill_the_disk(model: Path, cache: Cache) -> None:
    size = model.stat().st_size
    maker = StageMaker(cache, Hub(), disk_free=_disk(cache, 2 * size))
    for cut in range(1, LAYERS):
        # As a coordinator does: its own stage first, then those that it sends.
        stages = [stage_of_file(model, start, end, maker).file for start, end in ((cut, LAYERS), (0, cut))]
        assert all(stage.is_file() for stage in stages), cut
    assert _held(cache) <= 2 * size


def test_while_there_is_room_every_cut_is_kept(model: Path, cache: Cache) -> None:
    maker = StageMaker(cache, Hub(), disk_free=_disk(cache, 1 << 30))
    for cut in (2, 3):
        stage_of_file(model, 0, cut, maker)
    assert _names(cache) == ["stage-000-002.gguf", "stage-000-003.gguf"]


def test_what_others_sent_gives_way_oldest_first_and_not_while_it_is_used(model: Path, cache: Cache) -> None:
    used, old, new = (_received(cache, name, 40_000) for name in ("aa", "bb", "cc"))
    target = received_path(cache, "dd" * 32, (0, 2))
    with cache.in_use((used,)):
        make_room(cache, target, 30_000, "The stage", _disk(cache, 120_000))
        assert [file.is_file() for file in (used, old, new)] == [True, False, True]
        with pytest.raises(StorageError, match="The stage does not fit on the disk"):
            make_room(cache, target, 100_000, "The stage", _disk(cache, 120_000))
        assert used.is_file()


def test_a_model_that_somebody_put_there_never_gives_way(cache: Cache) -> None:
    cache.root.mkdir()
    own = cache.root / "mine.gguf"
    own.write_bytes(bytes(40_000))
    with pytest.raises(StorageError):
        make_room(cache, received_path(cache, "dd" * 32, (0, 2)), 30_000, "It", _disk(cache, 50_000))
    assert own.is_file()
