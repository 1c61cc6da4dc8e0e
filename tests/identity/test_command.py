"""`meshllm id`."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from meshllm_core.errors import ExitCode
from meshllm_core.identity.storage import load_or_create
from meshllm_core.ids import MeshId
from meshllm_core.mesh.storage import MeshState, MeshStore
from meshllm_core.paths import Paths, default_paths
from tests.cli.conftest import COMMAND, Result, command, playing, run_here


@pytest.fixture
def home() -> Paths:
    return default_paths()


def run(*arguments: str, stdin: str = "") -> Result:
    return run_here(("id", *arguments), stdin)


def test_before_the_first_start(home: Paths) -> None:
    shown = run()
    assert (shown.code, shown.err) == (0, "")
    assert "no node id yet" in shown.out
    assert run("--json").document["id"] is None
    assert not home.node_key_file.exists()


def test_shows_id_and_place_and_counts_no_start(home: Paths) -> None:
    stored = load_or_create(home, use_keyring=False)
    shown = run()
    assert stored.key.public.hex() in shown.out
    assert str(home.node_key_file) in shown.out
    assert stored.key.seed.hex() not in shown.out + shown.err
    document = run("--json").document
    assert document["id"] == stored.key.public.hex()
    assert document["short"] == stored.key.public.hex()[:10]
    assert document["copied"] is False
    assert json.loads(home.identity_file.read_text())["incarnation"] == stored.incarnation


def test_a_copied_home_is_told_and_can_be_kept(home: Paths) -> None:
    load_or_create(home, use_keyring=False)
    record = json.loads(home.identity_file.read_text())
    home.identity_file.write_text(json.dumps(record | {"machine": "0" * 32}))
    assert "meshllm id --new" in run().err
    assert run("--json").document["copied"] is True
    assert run("--keep").code == 0
    assert run("--json").document["copied"] is False


def test_a_new_key_needs_a_word(home: Paths) -> None:
    stored = load_or_create(home, use_keyring=False)
    refused = run("--new")
    assert (refused.code, refused.out) == (ExitCode.USAGE, "")
    assert "--yes" in refused.err
    assert load_or_create(home, use_keyring=False).key.seed == stored.key.seed


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo terminal")
@pytest.mark.parametrize(("answer", "code", "same"), [(b"n\n", ExitCode.NODE, True), (b"y\n", 0, False)])
def test_a_new_key_is_asked_for_on_a_terminal(home: Paths, answer: bytes, code: int, same: bool) -> None:
    stored = load_or_create(home, use_keyring=False)
    ours, theirs = os.openpty()
    try:
        os.write(ours, answer)
        done = subprocess.run(
            [*COMMAND, "id", "--new"], stdin=theirs, capture_output=True, timeout=30, check=False
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == code
    assert b"Go on?" in done.stderr
    assert (load_or_create(home, use_keyring=False).key.seed == stored.key.seed) is same


def test_new_replaces_a_damaged_key(home: Paths) -> None:
    load_or_create(home, use_keyring=False)
    home.node_key_file.write_text("rubbish")
    failed = run("--json")
    assert (failed.code, failed.out) == (ExitCode.NODE, "")
    assert run("--new", "--yes", "--json").document["id"] == load_or_create(home).key.public.hex()


def test_the_mesh_is_named_and_a_new_key_leaves_it(home: Paths) -> None:
    load_or_create(home, use_keyring=False)
    assert run("--json").document["mesh"] is None
    store = MeshStore(home)
    store.save(MeshState(mesh=MeshId(bytes(range(32))), name="attic", root_seed=bytes(32)))
    assert "0001020304 attic" in run().out
    document = run("--json").document
    assert (document["mesh"], document["mesh_name"]) == (bytes(range(32)).hex(), "attic")
    made = run("--new", "--yes")
    assert "none" in made.out
    assert "root key of the mesh that this machine founded is kept in" in made.err
    store.path.write_bytes(b"rubbish")
    shown = run("--json")
    assert shown.document["mesh"] is None
    assert "warning" in shown.err


def test_two_opposite_wishes_are_refused() -> None:
    assert run("--new", "--keep").code == ExitCode.USAGE


async def test_a_running_node_keeps_its_key(home: Paths, tmp_path: Path) -> None:
    stored = load_or_create(home, use_keyring=False)
    async with playing(home):
        refused = await command("id", "--new", "--yes")
    assert refused.code == ExitCode.NODE
    assert "meshllm stop" in refused.err
    assert load_or_create(home, use_keyring=False).key.seed == stored.key.seed
