"""What `meshllm doctor` says of other machines: each finding with the next step."""

from pathlib import Path

from meshllm_core.cli.doctor_mesh import check_key, check_multicast, check_networks
from meshllm_core.identity.storage import load_or_create
from meshllm_core.paths import default_paths


def test_the_key_before_and_after_the_first_start(tmp_path: Path) -> None:
    paths = default_paths({"MESHLLM_HOME": str(tmp_path)})
    assert check_key(paths).detail == "none yet; the first start makes it"
    stored = load_or_create(paths, use_keyring=False)
    check = check_key(paths)
    assert check.status == "pass"
    assert stored.key.public.hex()[:10] in check.detail


def test_a_key_that_cannot_be_read_fails_with_the_next_step(tmp_path: Path) -> None:
    paths = default_paths({"MESHLLM_HOME": str(tmp_path)})
    load_or_create(paths, use_keyring=False)
    paths.node_key_file.write_text("nonsense", encoding="utf-8")
    check = check_key(paths)
    assert check.status == "fail"
    assert check.hint


def test_no_network_is_a_warning_that_says_why() -> None:
    check = check_networks([], ["172.17.0.1 on docker0: a bridge of containers"])
    assert check.status == "warn"
    assert "docker0" in check.detail
    assert "--bind-ip" in check.hint
    assert check_networks(["192.0.2.7"], []).status == "pass"


def test_multicast_on_loopback_comes_back() -> None:
    assert check_multicast(["127.0.0.1"]).status == "pass"
