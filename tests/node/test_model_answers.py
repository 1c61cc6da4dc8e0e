"""A whole node asked for its library, the catalogue and the hub, and told to download and delete."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from meshllm_core.models.embedded import embedded_model
from tests.support.hub import LocalHub, serve_hub
from tests.support.nodes import RunningNode, running_node

pytestmark = pytest.mark.model

REPO = "owner/tiny-GGUF"


@pytest.fixture(scope="module")
def hub() -> Iterator[LocalHub]:
    with serve_hub() as served:
        data = embedded_model().read_bytes()
        served.add(REPO, {"tiny-Q4_1.gguf": data, "tiny-Q8_0.gguf": data + b"0"}, parameters=135_000_000)
        served.add("owner/vast-GGUF", {"vast-Q4_K_M.gguf": b"x"}, parameters=670_000_000_000, downloads=9)
        yield served


@pytest.fixture(scope="module")
def node(hub: LocalHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    folder: Path = tmp_path_factory.mktemp("node")
    with running_node(folder, environment={"MESHLLM_HUB_ENDPOINT": hub.address}) as running:
        yield running


def ask(node: RunningNode, question: str, **arguments: object) -> dict[str, Any]:
    token = (node.home / "data" / "management-token").read_text().strip()
    answer = httpx.get(
        f"{node.console}/api/{question}",
        params={name: str(value) for name, value in arguments.items()},
        headers={"authorization": f"Bearer {token}"},
        timeout=30,
    )
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def library(node: RunningNode) -> dict[str, dict[str, Any]]:
    return {model["id"]: model for model in ask(node, "library")["models"]}


def test_the_library_tells_what_is_loaded(node: RunningNode) -> None:
    name = node.ready()
    document = ask(node, "library")
    (own,) = [model for model in document["models"] if model["comes_with"]]
    assert (own["id"], own["loaded"], own["complete"], own["ref"]) == (name, True, True, "default")
    assert own["fit"]["kind"] == "here"
    assert document["disk_free"] > 0 and document["folder"].endswith("models")


def test_the_catalogue_says_what_fits(node: RunningNode) -> None:
    document = ask(node, "catalog")
    assert document["machines"] == 1
    marks = {model["fit"]["kind"] for model in document["models"]}
    assert marks <= {"here", "nowhere"} and "nowhere" in marks
    sizes = [model["bytes"] for model in document["models"]]
    assert sizes == sorted(sizes)
    picked = [model for model in document["models"] if model["pick"]]
    assert all(model["fit"]["kind"] == "here" for model in picked)


def test_the_best_of_the_catalogue_fits_within_the_memory_that_is_lent(hub: LocalHub, tmp_path: Path) -> None:
    limited = {"MESHLLM_HUB_ENDPOINT": hub.address, "MESHLLM_MAX_VRAM": "1.0"}
    with running_node(tmp_path, environment=limited) as node:
        picked = [model for model in ask(node, "catalog")["models"] if model["pick"]]
    assert [model["fit"]["kind"] for model in picked] == ["here"]
    assert picked[0]["memory_bytes"] < 1_000_000_000


def test_a_search_marks_what_fits(node: RunningNode) -> None:
    document = ask(node, "hub/search", query="-GGUF")
    assert [model["repo"] for model in document["models"]] == ["owner/vast-GGUF", REPO]
    vast, tiny = document["models"]
    assert (vast["fit"]["kind"], vast["quant"]) == ("nowhere", "Q4_K_M")
    assert (tiny["fit"]["kind"], tiny["quant"]) == ("here", "Q8_0")
    assert tiny["bytes"] == pytest.approx(143_000_000, rel=0.05)


def test_a_repository_tells_its_quantizations(node: RunningNode) -> None:
    models = ask(node, "hub/models", repo=REPO)["models"]
    assert [(model["quant"], model["ref"]) for model in models] == [
        ("Q8_0", f"{REPO}:Q8_0"),
        ("Q4_1", f"{REPO}:Q4_1"),
    ]
    assert models[1]["bytes"] == embedded_model().stat().st_size


@pytest.mark.parametrize(
    ("question", "arguments", "status"),
    [
        ("hub/search", {"query": ""}, 400),
        ("hub/search", {"query": "x" * 201}, 400),
        ("hub/search", {"query": "x", "limit": "51"}, 400),
        ("hub/models", {"repo": "../etc"}, 404),
        ("hub/models", {"repo": "owner/absent"}, 404),
    ],
)
def test_a_question_that_has_no_answer(
    node: RunningNode, question: str, arguments: dict[str, str], status: int
) -> None:
    token = (node.home / "data" / "management-token").read_text().strip()
    answer = httpx.get(
        f"{node.console}/api/{question}",
        params=arguments,
        headers={"authorization": f"Bearer {token}"},
        timeout=30,
    )
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]


def test_download_load_refuse_and_delete(node: RunningNode) -> None:
    node.ready()
    started = node.act("download", model=f"{REPO}:Q4_1")
    assert started.status_code == 200, started.text
    node.wait(lambda s: any(row["state"] == "done" for row in s["downloads"]))
    kept = library(node)["tiny-Q4_1"]
    assert (kept["complete"], kept["loaded"], kept["ref"]) == (True, False, f"{REPO}:Q4_1")
    assert node.act("load", model=kept["ref"]).status_code == 200
    refused = node.act("delete_model", model=kept["key"])
    assert refused.status_code >= 400 and "loaded" in refused.text
    node.wait(lambda s: any(m["id"] == "tiny-Q4_1" and m["status"] == "ready" for m in s["models"]))
    assert library(node)["tiny-Q4_1"]["loaded"]
    refused = node.act("delete_model", model=kept["key"])
    assert refused.status_code >= 400 and "loaded" in refused.text
    assert node.act("unload", model="tiny-Q4_1").status_code == 200
    gone = node.act("delete_model", model=kept["key"])
    assert gone.status_code == 200, gone.text
    assert gone.json()["bytes_freed"] == embedded_model().stat().st_size
    assert "tiny-Q4_1" not in library(node)
    row = next(row["id"] for row in node.snapshot()["downloads"])
    assert node.act("cancel_download", download=row).status_code == 200
    assert node.snapshot()["downloads"] == []


def test_actions_without_a_download_are_refused(node: RunningNode) -> None:
    for name in ("pause_download", "resume_download", "cancel_download"):
        refused = node.act(name, download="0123456789abcdef")
        assert refused.status_code == 400, refused.text
        assert "There is no download" in refused.text
        assert node.act(name, download="../x").status_code == 400
