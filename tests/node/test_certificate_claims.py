"""Which measurements a node announces: its own, few, those of its models first; and gives no other file."""

import hashlib
import os
from pathlib import Path

import pytest

from meshllm_core.certify.record import seal_certificate
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import ModelId
from meshllm_core.models.certificates import CertificateStore
from meshllm_core.models.foreign_certificates import ForeignCertificates
from meshllm_core.node import certificate_claims
from meshllm_core.node.certificate_claims import PREFIX, Claims, file_id
from meshllm_core.node.mesh_local import local_of
from meshllm_core.state.snapshot import ModelView, NodeSnapshot
from meshllm_core.wire import limits
from tests.certify.support import REJECTED, certificate

ME, BERT = SigningKey(b"m" * 32), SigningKey(b"b" * 32)


@pytest.fixture
def store(tmp_path: Path) -> CertificateStore:
    return CertificateStore(tmp_path / "certificates")


def measured(store: CertificateStore, number: int, at: float, key: SigningKey = ME) -> bytes:
    raw = seal_certificate(key, certificate(artifact=bytes([number]) * 32, at=at))
    store.add(raw)
    return hashlib.sha256(raw).digest()


def claims_of(store: CertificateStore, *models: str) -> Claims:
    claims = Claims(store.folder)
    claims.note(ModelView(id=ModelId(model), ref=model, status="ready", requested_at=0.0) for model in models)
    claims.refresh(ME.public)
    return claims


def test_only_what_this_node_signed_is_announced(store: CertificateStore) -> None:
    assert claims_of(store).hashes == ()
    own = measured(store, 1, 1.0)
    measured(store, 2, 2.0, BERT)
    raw = seal_certificate(BERT, certificate())
    ForeignCertificates(store.folder).add(raw, hashlib.sha256(raw).digest(), BERT.public)
    assert claims_of(store).hashes == (own,)


def test_the_models_that_were_here_last_come_first_then_the_newest(store: CertificateStore) -> None:
    count = limits.CODEC_CERTIFICATES
    made = {number: measured(store, number, float(number)) for number in range(count + 3)}
    assert claims_of(store).hashes == tuple(made[number] for number in range(count + 2, 2, -1))
    store.name(bytes([0]) * 32, "Old-Model.Q4_1.gguf")
    chosen = claims_of(store, "old-model.Q4_1").hashes
    assert chosen == tuple(made[number] for number in (0, *range(count + 2, 3, -1)))


def test_models_that_are_remembered_are_bounded(
    store: CertificateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate_claims, "REMEMBERED", 2)
    claims = claims_of(store, "one", "two", "three", "one")
    assert list(claims._recent) == ["three", "one"]


def test_no_file_but_what_is_announced_is_given(store: CertificateStore) -> None:
    own, other = measured(store, 1, 1.0), measured(store, 2, 2.0, BERT)
    claims = claims_of(store)
    (file,) = [file for file, _, record in store.load_files() if record.signer == ME.public]
    assert claims.lookup(file_id(own)) == file
    for asked in (file_id(other), own.hex(), f"{PREFIX}../{file.name}", str(file), PREFIX, ""):
        assert claims.lookup(asked) is None


def test_what_was_measured_anew_is_announced_anew_and_the_old_not_given(store: CertificateStore) -> None:
    old = measured(store, 1, 1.0)
    claims = claims_of(store)
    raw = seal_certificate(ME, certificate(REJECTED, artifact=bytes([1]) * 32, at=2.0))
    store.add(raw)
    assert claims.lookup(file_id(old)) is None
    os.utime(store.folder, (5, 5))
    claims.refresh(ME.public)
    new = hashlib.sha256(raw).digest()
    assert claims.hashes == (new,)
    assert claims.lookup(file_id(new)) is not None
    assert claims.lookup(file_id(old)) is None


def test_a_client_announces_none_for_it_gives_no_files() -> None:
    for serves in (True, False):
        local = local_of(NodeSnapshot(), serves=serves, memory_lent=0, claims=(bytes(32),))
        assert local.codec_certificates == ((bytes(32),) if serves else ())
    paused = local_of(NodeSnapshot(lending_paused=True), serves=True, memory_lent=0, claims=(bytes(32),))
    assert paused.codec_certificates == (bytes(32),)
