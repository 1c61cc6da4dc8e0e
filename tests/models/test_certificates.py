"""Certificates on disk: kept, replaced, and passed over when they do not hold."""

import hashlib
import os
from pathlib import Path

import msgspec
import pytest

from meshllm_core.certify.record import seal_certificate
from meshllm_core.errors import ModelNotFound, ProofInvalid, StorageError
from meshllm_core.identity.keys import SigningKey
from meshllm_core.models import certificates
from meshllm_core.models.certificates import CertificateStore, hash_artifact
from meshllm_core.wire.codecs import Dtype
from tests.certify.support import REJECTED, certificate

ANNA, BORIS = SigningKey(b"a" * 32), SigningKey(b"b" * 32)


@pytest.fixture
def store(tmp_path: Path) -> CertificateStore:
    return CertificateStore(tmp_path / "certificates")


def test_a_new_folder_holds_nothing(store: CertificateStore) -> None:
    assert store.load() == ()
    assert not store.folder.exists()


def test_what_was_added_is_loaded(store: CertificateStore) -> None:
    made = [
        certificate(), certificate(cuts=(10, 20)), certificate(codec=Dtype.F16), certificate(backend="cuda"),
        certificate(artifact=b"x" * 32),
    ]  # fmt: skip
    for one in made:
        store.add(seal_certificate(ANNA, one))
    store.add(seal_certificate(BORIS, certificate()))
    loaded = store.load()
    assert len(loaded) == 6
    assert {one.signer for one in loaded} == {ANNA.public, BORIS.public}
    assert all(one.certificate in made for one in loaded)


def test_a_newer_one_takes_the_place_of_the_older(store: CertificateStore) -> None:
    for one in (certificate(at=1), certificate(REJECTED, at=2)):
        store.add(seal_certificate(ANNA, one))
    (kept,) = store.load()
    assert kept.certificate.figures == REJECTED


def test_what_does_not_hold_is_passed_over(store: CertificateStore) -> None:
    kept = store.add(seal_certificate(ANNA, certificate()))
    (store.folder / "noise.certificate").write_bytes(os.urandom(300))
    (store.folder / "huge.certificate").write_bytes(bytes(1 << 20))
    (store.folder / "cut.certificate").write_bytes(kept.read_bytes()[:-1])
    (store.folder / "other.txt").write_bytes(b"hello")
    assert len(store.load()) == 1


def test_only_so_many_are_read_and_the_newest_first(
    store: CertificateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "MOST", 2)
    for number in range(1, 5):
        file = store.add(seal_certificate(ANNA, certificate(cuts=(number,))))
        os.utime(file, (number, number))
    assert [one.certificate.cuts for one in store.load()] == [(4,), (3,)]


def test_what_does_not_hold_is_not_kept(store: CertificateStore) -> None:
    raw = seal_certificate(ANNA, msgspec.structs.replace(certificate(), cuts=(2, 1)))
    with pytest.raises(ProofInvalid):
        store.add(raw)
    assert not store.folder.exists()


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="file"):
        CertificateStore(tmp_path / "file" / "below").add(seal_certificate(ANNA, certificate()))


def test_an_artifact_is_its_file_or_its_files(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"1" * 5_000_000)
    two.write_bytes(b"2")
    done: list[int] = []
    first, second = hashlib.sha256(b"1" * 5_000_000).digest(), hashlib.sha256(b"2").digest()
    assert hash_artifact([one]) == first
    assert hash_artifact([one, two], done.append) == hashlib.sha256(first + second).digest()
    assert done[-1] == 5_000_001
    with pytest.raises(ModelNotFound, match="three"):
        hash_artifact([tmp_path / "three"])
