"""What a person is told of a split by the command line is what the node does: real nodes on loopback."""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.node.test_split import NAME, _ask, _settled, mesh
from tests.support.default_model import require_default_model
from tests.support.nodes import QUIET, RunningNode, command
from tests.support.tiny_bert import write_tiny_bert


def _run(node: RunningNode, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        command(*arguments),
        env={**os.environ, "MESHLLM_HOME": str(node.home), **QUIET},
        capture_output=True,
        timeout=90,
    )


def _told(node: RunningNode, *arguments: str) -> dict[str, Any]:
    done = _run(node, *arguments, "--json")
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_doctor_plans_with_the_flags_of_the_node_and_counts_those_in_who_compute(tmp_path: Path) -> None:
    model = str(require_default_model())
    with mesh(tmp_path, "Anna", "Bert") as (anna, bert):
        before = _told(anna, "doctor", "split", model)
        assert (before["verdict"], before["context"], before["lanes"]) == ("split", 512, 2), before
        anna.act("load", model=model, split=True)
        row = _settled(anna)
        assert (row["split"]["context"], row["split"]["lanes"]) == (512, 2)
        bert.act("lending", on=False)
        anna.wait(lambda s: s["peers"][0]["lending_paused"], 20)
        after = _told(anna, "doctor", "split", NAME)
        assert after["verdict"] == "running"
        takes_part = {
            each["name"]: (each["eligible"], each["reason"], each["hint"]) for each in after["machines"]
        }
        assert takes_part["Bert"] == (True, "stage 1 of 2", "")
        assert takes_part["Anna"][0] is True


def test_what_a_stage_is_said_to_take_is_the_time_of_a_token_not_of_a_prompt(tmp_path: Path) -> None:
    with mesh(tmp_path, "Anna", "Bert") as (anna, bert):
        anna.act("load", model=str(require_default_model()), split=True)
        assert _settled(anna)["status"] == "ready"
        assert _ask(anna).status_code == 200

        def units() -> int:
            return int(bert.snapshot()["hosted_stages"][0]["units"])

        def measured() -> float:
            time.sleep(2.5)  # Figures travel once a second.
            return float(_settled(anna)["split"]["stages"][0]["measured_ms"])

        before, computed = measured(), units()
        assert before > 0
        for word in ("river", "mountain", "forest"):
            body = {"model": NAME, "prompt": f"{word} " * 300, "max_tokens": 1}
            assert httpx.post(f"{anna.api}/v1/completions", json=body, timeout=60).status_code == 200
        assert measured() == before
        assert units() >= computed + 3


def test_a_load_says_why_a_model_was_not_split(tmp_path: Path) -> None:
    with mesh(tmp_path, "Anna", "Bert", flags=("--max-vram", "1")) as (anna, _):
        done = _run(anna, "load", str(require_default_model()), "--split")
        assert done.returncode == 0, done.stderr
        ready, why = done.stdout.decode().splitlines()
        assert ready.startswith(f"{NAME} is ready")
        assert why.startswith("It is not split: ") and "Anna alone" in why


@pytest.mark.parametrize("machines", [("Anna",), ("Anna", "Bert")])
def test_what_fits_on_this_machine_waits_for_no_other(tmp_path: Path, machines: tuple[str, ...]) -> None:
    flags = ("--gguf", str(require_default_model()), "--split", "--max-vram", "1")
    with mesh(tmp_path, *machines, flags=flags) as (anna, *_):
        row = _settled(anna)
        assert (row["status"], row["split"]) == ("ready", None), row["error"]


def test_a_model_that_is_never_divided_is_loaded_whole_where_it_fits(tmp_path: Path) -> None:
    model = write_tiny_bert(tmp_path / f"{NAME}-bert.gguf")
    with mesh(tmp_path, "Anna", "Bert") as (anna, _):
        anna.act("load", model=str(model), split=True, ctx_size=64)
        row = _settled(anna)
        assert (row["status"], row["split"]) == ("ready", None), row["error"]


def test_of_two_that_ask_for_one_split_the_second_says_who_serves_it(tmp_path: Path) -> None:
    model = str(require_default_model())
    with mesh(tmp_path, "Anna", "Bert") as (anna, bert):
        anna.act("load", model=model, split=True)
        assert _settled(anna)["status"] == "ready"
        bert.wait(lambda s: any(each["id"] == NAME for p in s["peers"] for each in p["models"]), 20)
        bert.act("load", model=model, split=True)
        row = _settled(bert)
        assert row["status"] == "failed", row
        assert "alone it needs" in row["error"]
        assert row["hint"].startswith("Requests for it are answered by Anna already. ")
        assert _ask(bert).status_code == 200
