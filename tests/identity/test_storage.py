"""Where a key is kept: what is made, what is refused, what is noticed."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from meshllm_core.errors import IdentityError
from meshllm_core.identity.storage import keep_identity, known_identity, load_or_create, new_identity
from meshllm_core.paths import Paths
from tests.identity.conftest import PlayedKeyring

pytestmark = pytest.mark.usefixtures("no_keyring")


def edit_record(paths: Paths, **changes: object) -> None:
    record = json.loads(paths.identity_file.read_text())
    paths.identity_file.write_text(json.dumps(record | changes))


def test_a_key_is_made_once_and_found_again(paths: Paths) -> None:
    assert known_identity(paths) is None
    made = load_or_create(paths)
    found = load_or_create(paths)
    assert found.key.seed == made.key.seed
    assert made.storage == f"a file readable only by you ({paths.node_key_file})"
    assert not made.copied and not found.copied
    known = known_identity(paths)
    assert known is not None
    assert (known.node, known.storage, known.copied) == (made.key.public, made.storage, False)
    assert made.key.seed.hex() not in paths.identity_file.read_text()
    if os.name == "posix":
        assert paths.node_key_file.stat().st_mode & 0o777 == 0o600
        assert paths.data.stat().st_mode & 0o077 == 0
    assert {path.name for path in paths.data.iterdir()} == {".identity.lock", "identity.json", "node.key"}


def test_the_incarnation_only_grows(paths: Paths) -> None:
    first = load_or_create(paths).incarnation
    assert abs(first - time.time()) < 5
    assert load_or_create(paths).incarnation > first
    edit_record(paths, incarnation=1 << 33)
    assert load_or_create(paths).incarnation == (1 << 33) + 1
    assert load_or_create(paths).incarnation == (1 << 33) + 2
    edit_record(paths, incarnation=5)
    assert load_or_create(paths).incarnation >= first


@pytest.mark.skipif(os.name != "posix", reason="modes of files are of Unix")
def test_a_key_that_others_can_read_is_refused(paths: Paths) -> None:
    load_or_create(paths)
    paths.node_key_file.chmod(0o640)
    with pytest.raises(IdentityError, match=r"can be read by others \(mode 640\)") as caught:
        load_or_create(paths)
    assert f"chmod 600 {paths.node_key_file}" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    ["", "rubbish", "meshllm-node-key-1 " + "zz" * 32, "meshllm-node-key-1 abcd", "00" * 32, "\xff\x00"],
)
def test_a_damaged_key_is_named_and_stays_as_it_is(paths: Paths, text: str) -> None:
    load_or_create(paths)
    paths.node_key_file.write_text(text)
    with pytest.raises(IdentityError, match=r"node\.key does not hold"):
        load_or_create(paths)
    with pytest.raises(IdentityError):
        known_identity(paths)
    assert paths.node_key_file.read_text() == text
    assert new_identity(paths).key.seed == load_or_create(paths).key.seed


@pytest.mark.parametrize("text", ["", "{}", '{"node": "x"}', "[" * 4000])
def test_a_damaged_record_is_named(paths: Paths, text: str) -> None:
    made = load_or_create(paths)
    paths.identity_file.write_text(text)
    with pytest.raises(IdentityError, match=r"identity\.json cannot be understood"):
        load_or_create(paths)
    paths.identity_file.unlink()
    assert load_or_create(paths).key.seed == made.key.seed


def test_a_key_that_is_gone_is_not_replaced_in_silence(paths: Paths) -> None:
    load_or_create(paths)
    paths.node_key_file.unlink()
    with pytest.raises(IdentityError, match="is gone"):
        load_or_create(paths)


def test_a_copied_home_is_noticed_until_somebody_decides(paths: Paths) -> None:
    made = load_or_create(paths)
    edit_record(paths, machine="0" * 32)
    assert load_or_create(paths).copied
    assert load_or_create(paths).copied
    assert keep_identity(paths).node == made.key.public
    assert not load_or_create(paths).copied
    edit_record(paths, machine="0" * 32)
    fresh = new_identity(paths)
    assert fresh.key.public != made.key.public
    assert not load_or_create(paths).copied
    assert load_or_create(paths).key.seed == fresh.key.seed


def test_a_key_file_put_there_by_hand_counts(paths: Paths) -> None:
    load_or_create(paths)
    paths.node_key_file.write_text("meshllm-node-key-1 " + bytes(range(32)).hex())
    assert load_or_create(paths).key.seed == bytes(range(32))
    known = known_identity(paths)
    assert known is not None and known.node == load_or_create(paths).key.public


def test_threads_that_create_at_once_agree(paths: Paths) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: load_or_create(paths), range(8)))
    assert len({stored.key.seed for stored in keys}) == 1
    assert len({stored.incarnation for stored in keys}) == 8


def test_processes_that_create_at_once_agree(paths: Paths) -> None:
    code = (
        "import sys; from pathlib import Path; from meshllm_core.paths import Paths;"
        "from meshllm_core.identity.storage import load_or_create; d = Path(sys.argv[1]);"
        "sys.stdout.write(load_or_create(Paths(d, d, d, d), use_keyring=False).key.public.hex())"
    )
    command = [sys.executable, "-c", code, str(paths.data)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert len({process.communicate(timeout=30)[0] for process in running}) == 1


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    data = tmp_path / "file" / "data"
    with pytest.raises(IdentityError, match="Cannot use"):
        load_or_create(Paths(data, data, data, data))


def test_a_keyring_is_used_where_there_is_one(paths: Paths, played: PlayedKeyring) -> None:
    made = load_or_create(paths)
    assert made.storage == "the desktop's keyring"
    assert not paths.node_key_file.exists()
    assert played.entries == {("meshllm", made.key.public.hex()): made.key.seed.hex()}
    assert load_or_create(paths).key.seed == made.key.seed
    fresh = new_identity(paths)
    assert list(played.entries) == [("meshllm", fresh.key.public.hex())]
    assert load_or_create(paths).key.seed == fresh.key.seed
    with pytest.raises(IdentityError, match="not to be asked"):
        load_or_create(paths, use_keyring=False)


def test_a_keyring_that_blocks_delays_the_start_by_two_seconds(paths: Paths, played: PlayedKeyring) -> None:
    played.gate.clear()
    began = time.monotonic()
    assert "readable only by you" in load_or_create(paths).storage
    assert 1.9 < time.monotonic() - began < 4


@pytest.mark.parametrize("error", [RuntimeError("no session bus"), KeyError("x"), OSError()])
def test_a_keyring_that_fails_is_passed_over(
    paths: Paths, played: PlayedKeyring, error: BaseException
) -> None:
    played.error = error
    assert "readable only by you" in load_or_create(paths).storage
    assert paths.node_key_file.exists()


def test_a_keyring_that_keeps_secrets_in_plain_files_is_not_used(
    paths: Paths, played: PlayedKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlayedKeyring, "priority", 0.5)
    assert "readable only by you" in load_or_create(paths).storage
    assert not played.entries


def test_a_key_in_a_keyring_out_of_reach_is_never_replaced(paths: Paths, played: PlayedKeyring) -> None:
    load_or_create(paths)
    played.error = RuntimeError("locked")
    with pytest.raises(IdentityError, match=r"in this desktop's keyring\..*locked") as caught:
        load_or_create(paths)
    assert "Unlock it" in caught.value.hint
    played.error = None
    played.entries.clear()
    with pytest.raises(IdentityError, match="no longer in the keyring"):
        load_or_create(paths)
    edit_record(paths, machine="0" * 32)
    with pytest.raises(IdentityError, match="came from another machine"):
        load_or_create(paths)
    assert not new_identity(paths).copied


def test_a_home_in_one_folder_is_whole(
    paths: Paths, played: PlayedKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MESHLLM_HOME", str(paths.data.parent))
    assert "readable only by you" in load_or_create(paths).storage
    assert not played.entries
