"""The question `plan`: real nodes on loopback, asked over HTTP as the dashboard asks."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.node.test_split import NAME, mesh
from tests.support.default_model import require_default_model
from tests.support.nodes import RunningNode


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningNode, RunningNode]]:
    """Two machines, neither of which lends enough for the whole model."""
    with contextlib.ExitStack() as stack:
        anna, bert = stack.enter_context(mesh(tmp_path_factory.mktemp("plan"), "Anna", "Bert"))
        yield anna, bert


def ask(node: RunningNode, name: str, **arguments: Any) -> httpx.Response:
    """A question with the node's token."""
    token = (node.home / "data" / "management-token").read_text().strip()
    headers = {"authorization": f"Bearer {token}"}
    return httpx.get(f"{node.console}/api/{name}", params=arguments, headers=headers, timeout=60)


def plan(node: RunningNode, **arguments: Any) -> dict[str, Any]:
    answer = ask(node, "plan", **{"model": str(require_default_model()), **arguments})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_split_is_planned_over_the_live_machines_as_a_load_would_lay_it(
    pair: tuple[RunningNode, RunningNode],
) -> None:
    anna, _ = pair
    found = plan(anna)
    assert (found["source"], found["layers"], found["driver"], found["machines"]) == ("disk", 30, "Anna", 2)
    best = found["candidates"][0]
    assert best["launch"] == "split", best
    assert [stage["node_name"] for stage in best["stages"]] == ["Bert", "Anna"]
    assert (best["stages"][0]["start"], best["stages"][-1]["end"]) == (0, 30)
    assert best["stages"][0]["end"] == best["stages"][1]["start"]
    assert best["wire_dtype"] == "f32"
    assert best["reasons"]
    assert NAME in found["sentence"]
    anna.act("load", model=found["ref"], split=True)
    row = anna.wait(lambda s: any(m["status"] == "ready" and m["split"] for m in s["models"]))
    split = next(m["split"] for m in row["models"] if m["split"])
    laid = [(s["node_name"], s["start"], s["end"]) for s in split["stages"]]
    assert laid == [(s["node_name"], s["start"], s["end"]) for s in best["stages"]]
    again = plan(anna, model=NAME)
    assert again["source"] == "loaded"
    assert all(each["launch"] == "none" for each in again["candidates"])
    anna.act("unload", model=NAME)
    anna.wait(lambda s: not s["models"])


def test_a_model_that_failed_for_want_of_memory_can_be_split_from_the_plan(
    pair: tuple[RunningNode, RunningNode],
) -> None:
    anna, _ = pair
    anna.act("load", model=str(require_default_model()))
    anna.wait(lambda s: any(m["status"] == "failed" for m in s["models"]))
    found = plan(anna)
    assert found["source"] == "disk"
    assert found["candidates"][0]["launch"] == "split", found["candidates"][0]
    anna.act("load", model=found["ref"], split=True)
    anna.wait(lambda s: any(m["status"] == "ready" and m["split"] for m in s["models"]))
    assert len(anna.snapshot()["models"]) == 1
    anna.act("unload", model=NAME)
    anna.wait(lambda s: not s["models"])


def test_what_is_supposed_changes_the_estimate(pair: tuple[RunningNode, RunningNode]) -> None:
    anna, _ = pair
    near, far = plan(anna, hop_ms=1), plan(anna, hop_ms=40, target_ms=50)
    assert near["candidates"][0]["network_ms"] == pytest.approx(2.0)
    assert far["candidates"][0]["network_ms"] == pytest.approx(80.0)
    assert (far["hop_ms"], far["target_ms"]) == (40.0, 50.0)
    assert any("80 ms" in reason for reason in far["candidates"][0]["reasons"])


def test_a_context_that_fits_nowhere_is_refused_with_what_would_do(
    pair: tuple[RunningNode, RunningNode],
) -> None:
    found = plan(pair[0], ctx_size=4_000_000, lanes=64)
    assert found["candidates"] == []
    assert found["refusal"]["missing"]
    assert found["refusal"]["would_fit"]
    assert "does not run" in found["sentence"]


def test_a_model_of_the_catalogue_is_planned_before_it_is_here(pair: tuple[RunningNode, RunningNode]) -> None:
    found = plan(pair[0], model="llama-3.3-70b")
    assert (found["source"], found["layers"]) == ("catalog", 80)
    assert "catalogue" in found["notes"][-1]
    assert found["refusal"] is not None


def test_a_model_that_nobody_knows_is_refused_in_words(pair: tuple[RunningNode, RunningNode]) -> None:
    answer = ask(pair[0], "plan", model="owner/unheard-of:Q4_K_M")
    assert answer.status_code == 404, answer.text
    error = answer.json()["error"]
    assert "not on this disk" in error["message"]
    assert "meshllm plan" in answer.text


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"hop_ms": -1}, "hop_ms"),
        ({"ctx_size": "big"}, "ctx_size"),
        ({"lanes": 65}, "lanes"),
        ({"x": 1}, "x"),
    ],
)
def test_wrong_arguments_are_refused_by_name(
    pair: tuple[RunningNode, RunningNode], arguments: dict[str, Any], field: str
) -> None:
    answer = ask(pair[0], "plan", model="default", **arguments)
    assert answer.status_code == 400
    assert field in answer.text


def test_what_can_be_picked_holds_the_default_and_the_catalogue_once(
    pair: tuple[RunningNode, RunningNode],
) -> None:
    answer = ask(pair[0], "plan/models")
    assert answer.status_code == 200, answer.text
    models = answer.json()["models"]
    names = [model["name"].lower() for model in models]
    assert len(names) == len(set(names))
    by_ref = {model["ref"]: model for model in models}
    assert by_ref["default"]["source"] == "disk"
    assert by_ref["qwen3-8b"]["source"] == "catalog"


def test_an_alone_machine_is_told_what_it_can_do_alone(tmp_path: Path) -> None:
    with mesh(tmp_path, "Cora") as (cora,):
        found = plan(cora, model="default")
        assert found["machines"] == 1
        assert found["refusal"]["missing"][-1] == "there is no second machine to share it with"
