"""`meshllm models`: downloads from a hub on loopback, what is listed, what is removed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from meshllm_core.errors import ExitCode
from meshllm_core.models.embedded import embedded_model
from meshllm_core.paths import Paths
from tests.cli.conftest import Result, write_config
from tests.support.hub import LocalHub, serve_hub

Run = Callable[..., Result]
REPO = "owner/tiny-GGUF"
FILE = "tiny-Q4_1.gguf"


@pytest.fixture
def hub(paths: Paths) -> Iterator[LocalHub]:
    with serve_hub() as served:
        served.add(REPO, {FILE: embedded_model().read_bytes(), "README.md": b"hello"})
        write_config(paths, f'hub_endpoint = "{served.address}"')
        yield served


def test_show_asks_the_hub_for_what_is_not_here(meshllm: Run, hub: LocalHub) -> None:
    shown = meshllm("models", "show", REPO, "--json").document
    assert (shown["id"], shown["here"]) == ("tiny-Q4_1", False)
    assert shown["download_bytes"] == embedded_model().stat().st_size


def test_download_list_and_prune(meshllm: Run, hub: LocalHub, paths: Paths) -> None:
    done = meshllm("models", "download", f"{REPO}:Q4_1")
    assert done.code == 0, done.err
    (file,) = done.out.splitlines()
    assert Path(file).read_bytes() == embedded_model().read_bytes()
    assert "100 %" in done.err
    assert meshllm("models", "show", "tiny-Q4_1", "--json").document["architecture"] == "llama"
    listed = {model["id"]: model for model in meshllm("models", "list", "--json").document["models"]}
    assert listed["tiny-Q4_1"]["ref"] == f"{REPO}:Q4_1"
    assert listed["tiny-Q4_1"]["complete"] is True
    assert meshllm("models", "prune").out == ""
    tried = meshllm("models", "prune", "tiny-Q4_1", "--dry-run")
    assert "would be removed" in tried.out
    assert Path(file).exists()
    assert meshllm("models", "prune", "--all", "--json").document["bytes_freed"] >= 90_000_000
    assert not Path(file).exists()


def test_a_download_that_fails_names_the_reason(meshllm: Run, hub: LocalHub) -> None:
    missing = meshllm("models", "download", "owner/nothing-GGUF")
    assert (missing.code, missing.out) == (ExitCode.MODEL, "")
    assert "owner/nothing-GGUF" in missing.err
    wrong = meshllm("models", "download", f"{REPO}:Q8_0")
    assert (wrong.code, wrong.out) == (ExitCode.MODEL, "")
    assert "It has: Q4_1" in wrong.err
