"""What one node measured, at another: real nodes on loopback, and what a split makes of it."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from meshllm_core.certify.record import seal_certificate
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.storage import load_or_create
from meshllm_core.membership.owner import sign_node
from meshllm_core.mesh.owner_store import OwnerStore
from meshllm_core.models.certificates import CertificateStore, hash_artifact
from meshllm_core.paths import Paths, default_paths
from tests.certify.support import certificate
from tests.support.default_model import require_default_model
from tests.support.nodes import RunningNode, command, running_node

NAME = "SmolLM2-135M-Instruct.Q4_1"
LENT = "0.12"
"""GB: less than the model takes, more than two thirds of it."""


@contextlib.contextmanager
def mesh(folder: Path) -> Iterator[tuple[RunningNode, RunningNode]]:
    """Anna and Bert, without models."""
    with contextlib.ExitStack() as stack:
        anna, bert = (stack.enter_context(_start(folder, name)) for name in ("Anna", "Bert"))
        bert.act("join", token=anna.act("invite").json()["token"])
        anna.wait(lambda s: [peer["name"] for peer in s["peers"]] == ["Bert"], 30)
        yield anna, bert


def _start(folder: Path, name: str) -> "contextlib.AbstractContextManager[RunningNode]":
    config = folder / name / "home" / "config"
    config.mkdir(parents=True)
    (config / "config.toml").write_text("models = []\n")
    usual = ("--node-name", name, "--bind-ip", "127.0.0.1", "--mesh-discovery-mode", "off")
    return running_node(folder / name, *usual, "--ctx-size", "512", "--lanes", "2", "--max-vram", LENT)


def paths_of(node: RunningNode) -> Paths:
    return default_paths({"MESHLLM_HOME": str(node.home)})


def measured(node: RunningNode, artifact: bytes) -> None:
    """As `meshllm certify` there would leave it, at every cut."""
    paths = paths_of(node)
    store, key = CertificateStore(paths.certificates), load_or_create(paths).key
    for cut in range(1, 30):
        store.add(seal_certificate(key, certificate(artifact=artifact, cuts=(cut,), at=time.time())))


def listed(node: RunningNode) -> list[dict[str, Any]]:
    token = (node.home / "data" / "management-token").read_text().strip()
    answer = httpx.get(
        f"{node.console}/api/certificates", headers={"authorization": f"Bearer {token}"}, timeout=30
    )
    rows: list[dict[str, Any]] = answer.json()["measured"]
    return rows


def until_listed(node: RunningNode, there: Callable[[list[dict[str, Any]]], bool]) -> None:
    end = time.monotonic() + 60
    while not there(rows := listed(node)):
        assert time.monotonic() < end, rows[:1]
        time.sleep(0.5)


def splits(node: RunningNode) -> dict[str, Any]:
    """The split of the model once it is ready, as `/api/status` has it."""
    node.act("load", model=str(require_default_model()), split=True)
    found = node.wait(lambda s: any(m["status"] in ("ready", "failed") for m in s["models"]))
    assert [m["status"] for m in found["models"]] == ["ready"], found["models"]
    (split,) = node.status()["runtime"]["splits"]
    return dict(split)


def doctor(node: RunningNode) -> str:
    """What it says, once all that the machines lend is announced."""
    node.wait(lambda s: min(s["memory_lent"], s["peers"][0]["memory_lent"]) > 110e6, 60)
    done = subprocess.run(
        [*command("doctor", "split", str(require_default_model())), "--console", node.console],
        env={**os.environ, "MESHLLM_HOME": str(node.home), "NO_COLOR": "1", "MESHLLM_MAX_VRAM": LENT},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


def own(*nodes: RunningNode) -> None:
    """As `meshllm owner sign` and `install` on each."""
    owner = SigningKey.generate()
    for node in nodes:
        paths = paths_of(node)
        key = load_or_create(paths).key.public
        OwnerStore(paths).install(sign_node(owner, key, wall=time.time()), key)


@pytest.mark.model
def test_a_strangers_measurement_is_shown_and_the_same_owners_is_used(tmp_path: Path) -> None:
    with mesh(tmp_path) as (anna, bert):
        measured(bert, hash_artifact([require_default_model()]))
        until_listed(anna, lambda rows: len(rows) == 29)
        assert {(row["own"], row["same_owner"], row["measured_by"]) for row in listed(anna)} == {
            (False, False, "measured by Bert (not trusted here)")
        }
        split = splits(anna)
        assert split["wire_dtype"] == "f32"
        assert "q8x is exact, measured by Bert (not trusted here)" in split["wire_verdict"]
        anna.act("unload", model=NAME)
        bert.wait(lambda s: not s["hosted_stages"], 20)
        assert "measured by Bert (not trusted here)" in doctor(anna)

        own(anna, bert)
        until_listed(anna, lambda rows: all(row["same_owner"] for row in rows))
        assert {row["measured_by"] for row in listed(anna)} == {"measured by Bert, a node of your owner"}
        assert "measured by Bert, a node of your owner" in doctor(anna)
        split = splits(anna)
        assert split["wire_dtype"] == "q8x"
        assert "measured by Bert, a node of your owner" in split["wire_verdict"]
        body = {"model": NAME, "prompt": "The capital of France is", "max_tokens": 8}
        assert httpx.post(f"{anna.api}/v1/completions", json=body, timeout=60).status_code == 200
