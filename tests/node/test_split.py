"""A model that no machine of a mesh can hold: real nodes on loopback, each lending too little."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from gguf import GGUFReader

from meshllm_core.certify.record import seal_certificate
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.storage import load_or_create
from meshllm_core.models.certificates import CertificateStore, hash_artifact
from meshllm_core.models.inspect import inspect_model
from meshllm_core.models.stage_source import local_files, open_source
from meshllm_core.node.split_host import STOOD_SECONDS
from meshllm_core.paths import default_paths
from meshllm_core.planner.real_model import planned_model
from meshllm_core.wire.codecs import Dtype
from tests.certify.support import certificate
from tests.support.default_model import require_default_model
from tests.support.hub import serve_hub
from tests.support.nodes import RunningNode, running_node

NAME = "SmolLM2-135M-Instruct.Q4_1"
PROMPT = "The capital of France is"
LENT = "0.12"
"""GB: less than the model takes, more than two thirds of it."""


def _start(
    folder: Path, name: str, *flags: str, settings: str = ""
) -> "contextlib.AbstractContextManager[RunningNode]":
    home = folder / name
    (home / "home").mkdir(parents=True)
    (home / "home" / "config").mkdir()
    (home / "home" / "config" / "config.toml").write_text(f"models = []\n{settings}")
    usual = ("--node-name", name, "--bind-ip", "127.0.0.1", "--mesh-discovery-mode", "off")
    size = ("--ctx-size", "512", "--lanes", "2", "--max-vram", LENT)
    # Each shows its name to the hub, which counts what it sends to whom.
    return running_node(home, *usual, *size, *flags, environment={"HF_TOKEN": name})


@contextlib.contextmanager
def mesh(
    folder: Path, *names: str, flags: tuple[str, ...] = (), settings: str = ""
) -> Iterator[list[RunningNode]]:
    """Nodes without models in one mesh; `flags` for the first, lines of `settings` for all."""
    with contextlib.ExitStack() as stack:
        nodes = [
            stack.enter_context(_start(folder, name, *(() if index else flags), settings=settings))
            for index, name in enumerate(names)
        ]
        for node in nodes[1:]:
            node.act("join", token=nodes[0].act("invite").json()["token"])
        nodes[0].wait(lambda s: len(s["peers"]) == len(nodes) - 1 and all(p["name"] for p in s["peers"]), 30)
        yield nodes


def _row(snapshot: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = next((m for m in snapshot["models"] if NAME in m["id"]), {"status": "none"})
    return row


def _settled(node: RunningNode) -> dict[str, Any]:
    return _row(node.wait(lambda s: _row(s)["status"] in ("ready", "failed")))


def _ask(node: RunningNode, tokens: int = 24) -> httpx.Response:
    body = {"model": NAME, "prompt": PROMPT, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    return httpx.post(f"{node.api}/v1/completions", json=body, timeout=60)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the model answers where it is whole."""
    folder = tmp_path_factory.mktemp("whole")
    with running_node(folder, "--gguf", str(require_default_model()), "--mesh-discovery-mode", "off") as node:
        node.ready()
        return str(_ask(node).json()["choices"][0]["text"])


def test_two_machines_answer_as_one_would_and_give_the_memory_back(tmp_path: Path, whole: str) -> None:
    with mesh(tmp_path, "Anna", "Bert") as (anna, bert):
        anna.act("load", model=str(require_default_model()), split=True)
        row = _settled(anna)
        assert row["status"] == "ready", row
        stages = row["split"]["stages"]
        assert [stage["node_name"] for stage in stages] == ["Bert", "Anna"]
        assert (stages[0]["start"], stages[0]["end"], stages[1]["end"]) == (0, stages[1]["start"], 30)
        for node in (anna, bert):
            node.wait(lambda s: any(NAME in str(p) for p in (s["models"], s["peers"])), 20)
            answer = _ask(node)
            assert answer.status_code == 200, answer.text
            assert answer.json()["choices"][0]["text"] == whole
        hosted = bert.snapshot()["hosted_stages"]
        assert [(one["coordinator"], one["state"]) for one in hosted] == [("Anna", "ready")]
        anna.act("unload", model=NAME)
        bert.wait(lambda s: not s["hosted_stages"], 20)


def test_a_split_that_was_asked_for_first_waits_for_machines(tmp_path: Path, whole: str) -> None:
    flags = ("--gguf", str(require_default_model()), "--split")
    with mesh(tmp_path, "Anna", flags=flags) as (anna,):
        said = anna.wait(lambda s: any("waits for machines" in n["text"] for n in s["notices"]), 40)
        assert _row(said)["status"] == "requested"
        with _start(tmp_path, "Bert") as bert:
            bert.act("join", token=anna.act("invite").json()["token"])
            row = _settled(anna)
            assert row["status"] == "ready", row
            assert _ask(anna).json()["choices"][0]["text"] == whole


def test_a_stage_that_dies_ends_its_answers_and_the_model_is_spread_anew(tmp_path: Path, whole: str) -> None:
    with mesh(tmp_path, "Anna", "Bert", "Cora") as (anna, bert, cora):
        anna.act("load", model=str(require_default_model()), split=True)
        row = _settled(anna)
        assert row["status"] == "ready", row
        first = row["split"]["stages"][0]["node_name"]
        victim, other = (bert, "Cora") if first == "Bert" else (cora, "Bert")
        victim.process.send_signal(signal.SIGKILL)
        began = time.monotonic()
        while (answer := _ask(anna)).status_code != 200 and time.monotonic() < began + 60:
            assert answer.json()["error"]["message"]
            time.sleep(0.2)
        assert answer.json()["choices"][0]["text"] == whole
        again = _row(anna.snapshot())
        assert again["split"]["stages"][0]["node_name"] == other
        assert again["split"]["run"] != row["split"]["run"]


def test_an_answer_that_a_lost_machine_ends_says_so(tmp_path: Path) -> None:
    with mesh(tmp_path, "Anna", "Bert") as (anna, bert):
        anna.act("load", model=str(require_default_model()), split=True)
        assert _settled(anna)["status"] == "ready"
        body = {"model": NAME, "prompt": PROMPT, "max_tokens": 900, "temperature": 0, "ignore_eos": True}
        with httpx.stream(
            "POST", f"{anna.api}/v1/completions", json=body | {"stream": True}, timeout=60
        ) as got:
            lines = (line for line in got.iter_lines() if line)
            assert '"text"' in next(lines)
            bert.process.send_signal(signal.SIGKILL)
            last = [line for line in lines if '"error"' in line]
        assert len(last) == 1, last
        assert "unloaded" not in last[0] and "Bert" in last[0]
        assert ".." not in last[0] and "send the request again" in last[0]


def test_what_was_unloaded_may_be_loaded_again_at_once(tmp_path: Path) -> None:
    with mesh(tmp_path, "Anna", "Bert") as (anna, _):
        for _ in range(3):
            anna.act("load", model=str(require_default_model()), split=True)
            row = _settled(anna)
            assert row["status"] == "ready", row
            anna.act("unload", model=NAME)
            anna.wait(lambda s: _row(s)["status"] == "none", 20)


def test_a_split_without_its_other_machine_is_not_ready_says_whom_it_lost_and_comes_back(
    tmp_path: Path, whole: str
) -> None:
    with mesh(tmp_path, "Anna", "Bert") as (anna, bert):
        anna.act("load", model=str(require_default_model()), split=True)
        row = _settled(anna)
        assert row["status"] == "ready", row
        assert "split Bert|Anna:" in row["split"]["sentence"]
        bert.process.send_signal(signal.SIGKILL)
        lost = anna.wait(lambda s: "waits for machines" in _row(s)["error"], 60)
        assert _row(lost)["status"] == "restarting"
        assert "Bert" in _row(lost)["error"] and "start meshllm there" in _row(lost)["error"]
        assert lost["node_state"] != "serving"
        assert _row(lost)["decode_tokens_per_second"] == 0
        told = [n["text"] for n in lost["notices"] if n["level"] == "warning" and NAME in n["source"]]
        anew = [text for text in told if text.endswith("It is planned anew.")]
        assert anew
        assert all("Bert" in text for text in anew)
        assert not any("load it again" in text for text in told)
        with _start(tmp_path, "Cora") as cora:
            cora.act("join", token=anna.act("invite").json()["token"])
            back = _row(anna.wait(lambda s: _row(s)["status"] == "ready", 60))
            assert back["error"] == ""
            assert _ask(anna).json()["choices"][0]["text"] == whole


def test_a_driver_that_dies_is_started_anew(tmp_path: Path, whole: str) -> None:
    with mesh(tmp_path, "Anna", "Bert") as (anna, _):
        anna.act("load", model=str(require_default_model()), split=True)
        row = _settled(anna)
        os.kill(row["pid"], signal.SIGKILL)
        anna.wait(lambda s: _row(s)["status"] == "ready" and _row(s)["pid"] != row["pid"], 60)
        assert _ask(anna).json()["choices"][0]["text"] == whole


def test_a_chain_that_stood_for_a_while_is_not_given_up(tmp_path: Path, whole: str) -> None:
    with mesh(tmp_path, "Anna", "Bert", settings="restart_limit = 1\n") as (anna, _):
        anna.act("load", model=str(require_default_model()), split=True)
        for pause in (0.0, STOOD_SECONDS + 1):
            row = _settled(anna)
            assert row["status"] == "ready", row
            time.sleep(pause)
            os.kill(row["pid"], signal.SIGKILL)
            anna.wait(lambda s: _row(s)["status"] != "ready", 60)
        back = _settled(anna)
        assert back["status"] == "ready", back
        assert _ask(anna).json()["choices"][0]["text"] == whole


def test_a_machine_that_cannot_store_its_stage_is_left_out_and_says_why(tmp_path: Path, whole: str) -> None:
    with mesh(tmp_path, "Anna", "Bert") as (anna, bert):
        models = bert.home / "cache" / "models"
        models.mkdir(parents=True, exist_ok=True)
        (models / "local").write_text("in the way of every stage")
        anna.act("load", model=str(require_default_model()), split=True)
        row = _settled(anna)
        assert row["status"] == "failed", row
        assert "cannot be used" in row["error"] and "Bert" in row["error"], row["error"]
        assert "too often" not in row["error"] and "alone it needs" in row["error"]
        with _start(tmp_path, "Cora") as cora:
            cora.act("join", token=anna.act("invite").json()["token"])
            anna.wait(lambda s: len(s["peers"]) == 2 and all(p["name"] for p in s["peers"]), 30)
            anna.act("unload", model=NAME)
            anna.act("load", model=str(require_default_model()), split=True)
            row = _settled(anna)
            assert row["status"] == "ready", row["error"]
            assert [stage["node_name"] for stage in row["split"]["stages"]] == ["Cora", "Anna"]
            assert _ask(anna).json()["choices"][0]["text"] == whole


def test_a_format_that_nobody_measured_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    with mesh(tmp_path, "Anna", "Bert") as (anna, bert):
        anna.act("load", model=str(require_default_model()), split=True, wire_dtype="q8")
        row = _settled(anna)
        assert row["status"] == "failed"
        assert "q8 was not measured" in row["error"] and "meshllm certify" in row["error"]
        assert "f32" in row["hint"]
        assert not bert.snapshot()["hosted_stages"]


def test_a_model_that_fits_here_is_not_split(tmp_path: Path) -> None:
    with mesh(tmp_path, "Anna", "Bert", flags=("--max-vram", "1")) as (anna, _):
        anna.act("load", model=str(require_default_model()), split=True)
        row = _settled(anna)
        assert row["status"] == "ready" and row["split"] is None
        assert any("Anna alone" in notice["text"] for notice in anna.snapshot()["notices"])


def test_too_little_memory_everywhere_is_said_in_words(tmp_path: Path) -> None:
    with mesh(tmp_path, "Anna", "Bert", flags=("--max-vram", "0.02")) as (anna, bert):
        anna.act("load", model=str(require_default_model()), split=True)
        row = _settled(anna)
        assert row["status"] == "failed"
        assert (
            "alone it needs 131 MiB" in row["error"] and "no cut gives each a range that fits" in row["error"]
        )
        assert not bert.snapshot()["hosted_stages"]


def _lock(folder: Path, nodes: Sequence[str], cut: int) -> str:
    """A topology lock of the default model, cut once."""
    model = require_default_model()
    ends = (0, cut, 30)
    stages = [
        {"node": node, "layer_start": start, "layer_end": end}
        for node, start, end in zip(nodes, ends, ends[1:], strict=False)
    ]
    fingerprint = planned_model(inspect_model(model), open_source(local_files(model))).model.fingerprint
    lock = {"version": 1, "model": NAME, "manifest_sha256": fingerprint, "stages": stages}
    file = folder / "lock.json"
    file.write_text(json.dumps(lock))
    return str(file)


def _beyond(layer: int) -> int:
    """Bytes of the default model's tensors in `layer` and after it."""
    tensors = GGUFReader(require_default_model()).tensors
    return sum(
        int(t.n_bytes) for t in tensors if t.name.startswith("blk.") and int(t.name.split(".")[1]) >= layer
    )


def test_a_lock_fixes_who_computes_what(tmp_path: Path, whole: str) -> None:
    model = require_default_model()
    with mesh(tmp_path, "Anna", "Bert") as (anna, bert):
        anna.act("load", model=str(model), split=True)
        free = _settled(anna)["split"]["stages"]
        anna.act("unload", model=NAME)
        bert.wait(lambda s: not s["hosted_stages"], 20)
        cut = 14 if free[0]["end"] == 15 else 15

        def locked(*nodes: str) -> dict[str, Any]:
            lock = _lock(tmp_path, nodes, cut)
            anna.act("load", model=str(model), split=True, split_topology_lock=lock)
            return _settled(anna)

        row = locked(free[0]["node"], "Anna")
        assert [(one["node_name"], one["start"], one["end"]) for one in row["split"]["stages"]] == [
            ("Bert", 0, cut),
            ("Anna", cut, 30),
        ]
        assert _ask(anna).json()["choices"][0]["text"] == whole
        # What it gives back is there at once for the next, whatever the other machine has announced so far.
        anna.act("unload", model=NAME)
        assert locked("Bert", "Anna")["status"] == "ready"
        anna.act("unload", model=NAME)
        row = locked("Anna", "Bert")
        assert row["status"] == "failed"
        assert "its last stage is on Bert" in row["error"]


def test_a_lock_waits_for_the_machines_that_it_names(tmp_path: Path, whole: str) -> None:
    lock = _lock(tmp_path, ("Bert", "Anna"), 15)
    flags = ("--gguf", str(require_default_model()), "--split", "--split-topology-lock", lock)
    with mesh(tmp_path, "Anna", "Cora", flags=flags) as (anna, _):
        anna.wait(lambda s: any("lock.json has a stage on Bert" in n["text"] for n in s["notices"]), 40)
        with _start(tmp_path, "Bert") as bert:
            bert.act("join", token=anna.act("invite").json()["token"])
            row = _settled(anna)
            assert row["status"] == "ready", row
            assert [one["node_name"] for one in row["split"]["stages"]] == ["Bert", "Anna"]
            assert _ask(anna).json()["choices"][0]["text"] == whole


def test_a_stage_fetches_its_layers_from_the_hub_and_no_others(tmp_path: Path, whole: str) -> None:
    data = require_default_model().read_bytes()
    with serve_hub() as hub:
        hub.add("someone/SmolLM2-GGUF", {f"{NAME}.gguf": data})
        settings = f'hub_endpoint = "{hub.address}"\nstage_source = "hub"\n'
        with mesh(tmp_path, "Anna", "Bert", settings=settings) as (anna, bert):
            anna.act("load", model="someone/SmolLM2-GGUF:Q4_1", split=True)
            row = _settled(anna)
            assert row["status"] == "ready", row
            assert _ask(anna).json()["choices"][0]["text"] == whole
            models = bert.home / "cache" / "models"
            held = sum(file.stat().st_size for file in models.rglob("*.spans"))
            first = row["split"]["stages"][0]
            assert 0 < held <= len(data) - _beyond(first["end"])
            assert not (models / "local").exists()


def test_a_machine_that_takes_stages_from_the_hub_only_refuses_a_file_of_this_disk(tmp_path: Path) -> None:
    with mesh(tmp_path, "Anna", "Bert", settings='stage_source = "hub"\n') as (anna, _):
        anna.act("load", model=str(require_default_model()), split=True)
        notices = anna.wait(lambda s: any("from no hub" in n["text"] for n in s["notices"]))["notices"]
        assert any("Bert" in notice["text"] for notice in notices)


def test_a_format_that_this_node_certified_is_used(tmp_path: Path) -> None:
    model = require_default_model()
    with mesh(tmp_path, "Anna", "Bert") as (anna, bert):
        anna.act("load", model=str(model), split=True)
        row = _settled(anna)
        assert row["split"]["dtype"] == "f32"
        first = row["split"]["stages"][0]
        cut = first["end"]
        # What it measured meanwhile may move the cut by a layer; the certificate is for this one.
        lock = _lock(tmp_path, (first["node"], "Anna"), cut)
        anna.act("unload", model=NAME)
        bert.wait(lambda s: not s["hosted_stages"], 20)
        paths = default_paths({"MESHLLM_HOME": str(anna.home)})
        found = certificate(artifact=hash_artifact([model]), cuts=(cut,), at=time.time())
        strangers = certificate(artifact=found.artifact, cuts=(cut,), codec=Dtype.Q8, at=time.time())
        store = CertificateStore(paths.certificates)
        store.add(seal_certificate(load_or_create(paths).key, found))
        store.add(seal_certificate(SigningKey.generate(), strangers))
        anna.act("load", model=str(model), split=True, split_topology_lock=lock)
        row = _settled(anna)
        assert row["status"] == "ready", row
        assert row["split"]["dtype"] == "q8x"
        assert _ask(anna).status_code == 200
        anna.act("unload", model=NAME)
        anna.act("load", model=str(model), split=True, wire_dtype="q8", split_topology_lock=lock)
        assert "q8 was not measured" in _settled(anna)["error"]
