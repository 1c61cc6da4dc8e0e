"""What a member keeps: whole, private, and never dropped without a word."""

import errno
import os
import stat
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meshllm_core.errors import NodeError, StorageError
from meshllm_core.ids import MeshId
from meshllm_core.membership.records import RecordKind
from meshllm_core.membership.roster import Roster
from meshllm_core.mesh.storage import MeshState, MeshStore, Publication
from meshllm_core.paths import Paths, default_paths
from meshllm_core.wire.announcement import Address
from tests.membership.founding import NOW, Founded, key


@pytest.fixture
def paths() -> Paths:
    return default_paths()


def state(mesh: Founded | None = None, *, founder: bool = False) -> MeshState:
    mesh = mesh or Founded()
    return MeshState(
        mesh=mesh.mesh,
        name="home",
        root_seed=mesh.root.seed if founder else b"",
        chain=mesh.chain,
        records=tuple((int(record.kind), record.raw) for record in mesh.roster.records()),
        peers={key("a").public: (Address("192.0.2.7", 9338), Address("fe80::1", 9338))},
        publication=Publication(on=True, name="garden", region="eu", max_clients=3),
    )


def test_what_is_saved_is_loaded_by_the_next_start(paths: Paths) -> None:
    mesh = Founded()
    mesh.add("a", may_invite=True)
    mesh.roster.revoke(mesh.founder, key("a").public, wall=NOW)
    assert MeshStore(paths).load() is None and not MeshStore(paths).exists()
    MeshStore(paths).save(state(mesh, founder=True))
    loaded = MeshStore(paths).load()
    assert loaded == state(mesh, founder=True)
    roster = Roster(loaded.mesh, mesh.founder.public)
    assert roster.restore([(RecordKind(kind), raw) for kind, raw in loaded.records], NOW) == []
    assert [member.node for member in roster.members()] == [mesh.founder.public]
    assert roster.revoked_at(key("a").public) >= NOW


def test_the_file_is_its_owners_alone_and_replaced_whole(paths: Paths) -> None:
    store = MeshStore(paths)
    store.save(state())
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    store.path.chmod(0o644)
    assert MeshStore(paths).load() is not None
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert [file.name for file in paths.data.iterdir()] == ["mesh.msgpack"]


def test_saving_the_same_writes_nothing(paths: Paths) -> None:
    store = MeshStore(paths)
    store.save(state())
    before = store.path.stat()
    store.save(state())
    assert (store.path.stat().st_ino, store.path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    again = MeshStore(paths)
    loaded = again.load()
    assert loaded is not None
    again.save(loaded)
    assert again.path.stat().st_ino == before.st_ino
    again.save(msgspec.structs.replace(loaded, name="new"))
    assert again.path.stat().st_ino != before.st_ino
    again.path.unlink()
    again.save(msgspec.structs.replace(loaded, name="new"))
    assert again.path.exists(), "a file that somebody deleted comes back"


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x82\xa7version\x01\xa5state\x80", b"\x91" * 10_000])
def test_a_damaged_file_is_named_and_moved_aside(paths: Paths, content: bytes) -> None:
    store = MeshStore(paths)
    paths.data.mkdir(parents=True)
    store.path.write_bytes(content)
    with pytest.raises(StorageError) as caught:
        store.load()
    (aside,) = paths.data.iterdir()
    assert aside.name.startswith("mesh.msgpack.damaged-")
    assert str(aside) in str(caught.value) and aside.read_bytes() == content
    assert store.load() is None


def test_a_cut_file_is_damaged(paths: Paths) -> None:
    store = MeshStore(paths)
    store.save(state())
    store.path.write_bytes(store.path.read_bytes()[:-1])
    with pytest.raises(StorageError, match="damaged"):
        store.load()


def test_a_key_of_a_wrong_length_is_damage(paths: Paths) -> None:
    store = MeshStore(paths)
    store.save(msgspec.structs.replace(state(), mesh=MeshId(b"short")))
    with pytest.raises(StorageError, match="wrong length"):
        store.load()


def test_the_file_of_a_newer_version_stays(paths: Paths) -> None:
    store = MeshStore(paths)
    paths.data.mkdir(parents=True)
    store.path.write_bytes(msgspec.msgpack.encode({"version": 2, "other": 1}))
    with pytest.raises(NodeError, match="newer meshllm"):
        store.load()
    assert store.path.exists()


def test_a_file_beyond_measure_is_not_read(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MeshStore(paths)
    store.save(state())
    monkeypatch.setattr("meshllm_core.mesh.storage.FILE_BYTES", 100)
    with pytest.raises(StorageError, match="more than the 100"):
        MeshStore(paths).load()
    assert store.path.exists()


def test_leaving_forgets_but_never_the_key_of_a_founder(paths: Paths) -> None:
    store = MeshStore(paths)
    assert store.clear() is None
    store.save(state())
    assert store.clear() is None and list(paths.data.iterdir()) == []
    store.save(state(founder=True))
    aside = store.clear()
    assert aside is not None and not store.exists()
    kept = MeshStore(paths)
    kept.path = aside
    assert kept.load() == state(founder=True)


def test_what_cannot_be_written_is_said_and_leaves_the_old(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MeshStore(paths)
    store.save(state())
    before = store.path.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="Free some space") as caught:
            store.save(msgspec.structs.replace(state(), name="new"))
    assert str(store.path) in str(caught.value)
    assert store.path.read_bytes() == before and len(list(paths.data.iterdir())) == 1
    store.save(msgspec.structs.replace(state(), name="new"))
    assert store.path.read_bytes() != before


def test_a_path_that_is_a_folder_is_said(paths: Paths) -> None:
    store = MeshStore(paths)
    store.path.mkdir(parents=True)
    with pytest.raises(StorageError, match="Cannot read"):
        store.load()


def test_the_root_key_stays_out_of_logs() -> None:
    founder = state(founder=True)
    assert founder.root_seed.hex() not in repr(founder) and repr(founder.root_seed)[2:-1] not in repr(founder)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.data())
def test_any_damage_is_noticed_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    """A changed byte is an error in words or another state, never another kind of failure."""
    folder = Paths(tmp_path, tmp_path / "data", tmp_path, tmp_path)
    store = MeshStore(folder)
    store.save(state())
    content = bytearray(store.path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    store.path.write_bytes(content)
    try:
        loaded = MeshStore(folder).load()
    except (StorageError, NodeError):
        return
    assert isinstance(loaded, MeshState)
