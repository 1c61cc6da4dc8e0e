"""Machines that fetch layers of one model: at a hub on loopback it is a plain file, and a package."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from meshllm_core.models import cursor
from meshllm_core.models.cache import Cache
from meshllm_core.models.hub import Hub
from meshllm_core.models.package_stage import StageMaker
from tests.models.packages import build, files_of, write_model
from tests.support.hub import LocalHub

PACKAGE = "owner/tiny-layers"
PLAIN = "owner/tiny-GGUF"
NAME = "tiny-F32.gguf"

Node = Callable[[str], StageMaker]
"""By its name: a machine with a cache and a token of its own."""


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
