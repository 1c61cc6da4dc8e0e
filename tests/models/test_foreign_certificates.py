"""What other members measured, on disk: only what was asked for, only so much, and theirs alone."""

import hashlib
from pathlib import Path

import pytest

from meshllm_core.certify.record import seal_certificate
from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import NodeId
from meshllm_core.models import foreign_certificates
from meshllm_core.models.certificates import CertificateStore
from meshllm_core.models.foreign_certificates import MOST_OF_ONE, ForeignCertificates
from tests.certify.support import certificate

ANNA, BERT, CORA = (SigningKey(bytes([letter]) * 32) for letter in b"abc")


@pytest.fixture
def store(tmp_path: Path) -> ForeignCertificates:
    return ForeignCertificates(tmp_path / "certificates")


def give(store: ForeignCertificates, key: SigningKey, cut: int, at: float = 1.0) -> bytes:
    raw = seal_certificate(key, certificate(cuts=(cut,), at=at))
    digest = hashlib.sha256(raw).digest()
    store.add(raw, digest, key.public)
    return digest


def signers(store: ForeignCertificates) -> list[NodeId]:
    return sorted(record.signer for record in store.load())


def test_what_was_asked_for_is_kept_under_its_hash_and_apart(store: ForeignCertificates) -> None:
    assert (store.hashes(), store.load(), store.owners()) == (frozenset(), (), {})
    digest = give(store, BERT, 1)
    assert store.hashes() == {digest}
    assert signers(store) == [BERT.public]
    assert CertificateStore(store.folder.parent).load() == ()


def test_another_one_a_tampered_one_and_another_signers_are_refused(store: ForeignCertificates) -> None:
    raw = seal_certificate(BERT, certificate())
    digest = hashlib.sha256(raw).digest()
    forged = raw[:-1] + bytes([raw[-1] ^ 1])
    cases = {
        "another than": (forged, digest, BERT.public),
        "does not hold": (forged, hashlib.sha256(forged).digest(), BERT.public),
        "was signed by": (raw, digest, CORA.public),
        "than the one": (bytes(1 << 20), hashlib.sha256(bytes(1 << 20)).digest(), BERT.public),
    }
    for words, (data, wanted, signer) in cases.items():
        with pytest.raises(ProofInvalid, match=words):
            store.add(data, wanted, signer)
    assert not store.folder.exists()


def test_one_signer_keeps_only_so_many_and_its_oldest_go(store: ForeignCertificates) -> None:
    for number in range(MOST_OF_ONE + 3):
        give(store, BERT, number + 1, at=float(number))
    give(store, CORA, 1)
    store.trim()
    cuts = [record.certificate.cuts[0] for record in store.load() if record.signer == BERT.public]
    assert sorted(cuts) == list(range(4, MOST_OF_ONE + 4))
    assert CORA.public in signers(store)


def test_where_it_is_full_the_owners_nodes_come_first_then_everybodys_newest(
    store: ForeignCertificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in (ANNA, BERT, CORA):
        for number in range(3):
            give(store, key, number + 1, at=float(number))
    monkeypatch.setattr(foreign_certificates, "MOST", 5)
    store.trim(preferred={BERT.public})
    kept = sorted((record.signer, record.certificate.cuts[0]) for record in store.load())
    assert kept == sorted(
        [(BERT.public, 1), (BERT.public, 2), (BERT.public, 3), (ANNA.public, 3), (CORA.public, 3)]
    )


def test_nothing_of_those_who_are_unwanted_stays(store: ForeignCertificates) -> None:
    give(store, BERT, 1)
    give(store, CORA, 1)
    store.show_owners(
        {BERT.public: b"bert's", CORA.public: b"cora's", ANNA.public: b"nothing is kept of her"}
    )
    assert store.owners() == {BERT.public: b"bert's", CORA.public: b"cora's"}
    store.trim(preferred={BERT.public}, unwanted={BERT.public})
    assert signers(store) == [CORA.public]
    assert store.owners() == {CORA.public: b"cora's"}


def test_what_shows_the_owner_is_replaced_taken_back_and_bounded(store: ForeignCertificates) -> None:
    give(store, BERT, 1)
    for shown, kept in ((b"one", b"one"), (b"two", b"two"), (bytes(1 << 16), b"two")):
        store.show_owners({BERT.public: shown})
        assert store.owners() == {BERT.public: kept}
    store.show_owners({})
    assert store.owners() == {BERT.public: b"two"}
    store.show_owners({BERT.public: b""})
    assert store.owners() == {}


def test_what_was_damaged_on_disk_counts_for_nothing_and_goes(store: ForeignCertificates) -> None:
    digest = give(store, BERT, 1)
    (file,) = store.folder.iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    assert store.load() == ()
    store.trim()
    assert store.hashes() == frozenset()
    assert give(store, BERT, 1) == digest
