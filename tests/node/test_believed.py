"""Whose measurements count: one's own, and those of nodes with a valid certificate by the same owner."""

import hashlib
import time
from dataclasses import replace
from pathlib import Path

import pytest

from meshllm_core.certify.record import seal_certificate
from meshllm_core.identity.keys import SigningKey
from meshllm_core.membership.certificates import DAY
from meshllm_core.membership.owner import sign_node
from meshllm_core.membership.trust import Entry, TrustStore
from meshllm_core.mesh.owner_store import OwnerStore
from meshllm_core.models.certificates import CertificateStore, hash_artifact
from meshllm_core.models.facts import GgufFacts
from meshllm_core.models.foreign_certificates import ForeignCertificates
from meshllm_core.models.inspect import inspect_model
from meshllm_core.models.resolve import ResolvedModel
from meshllm_core.node import split_gate
from meshllm_core.node.believed import Kin, known_records, stamp_of
from meshllm_core.node.split_gate import Gate
from meshllm_core.paths import Paths, default_paths
from meshllm_core.planner.wire import Wire
from meshllm_core.wire.codecs import Dtype
from tests.certify.support import EXACT, REJECTED, certificate
from tests.models.packages import write_model

ME, BERT, CORA = (SigningKey(bytes([letter]) * 32) for letter in b"mbc")
OWNER, OTHER = SigningKey(b"o" * 32), SigningKey(b"p" * 32)
NAMES = {BERT.public: "Bert", CORA.public: "Cora"}
CUT = (3,)


def entry(key: SigningKey) -> Entry:
    return Entry(id=key.public.hex())


def signed(owner: SigningKey, node: SigningKey, ago: float = 0.0) -> bytes:
    return sign_node(owner, node.public, wall=time.time() - ago)


KIN = Kin(TrustStore(), ME.public, signed(OWNER, ME), time.time())


def test_a_node_that_the_same_owner_signed_is_kin() -> None:
    assert KIN.includes(BERT.public, signed(OWNER, BERT))
    trusting = replace(KIN, trust=TrustStore(trusted=(entry(OWNER),)))
    assert trusting.includes(BERT.public, signed(OWNER, BERT))


@pytest.mark.parametrize(
    ("kin", "certificate"),
    [
        pytest.param(KIN, b"", id="no owner"),
        pytest.param(KIN, signed(OTHER, BERT), id="another owner"),
        pytest.param(
            replace(KIN, trust=TrustStore(trusted=(entry(OTHER),))), signed(OTHER, BERT), id="a trusted owner"
        ),
        pytest.param(KIN, signed(OWNER, CORA), id="another node's certificate"),
        pytest.param(KIN, signed(OWNER, BERT, ago=9 * DAY), id="expired"),
        pytest.param(KIN, signed(OWNER, BERT)[:-1] + b"!", id="forged"),
        pytest.param(replace(KIN, mine=b""), signed(OWNER, BERT), id="this node has no owner"),
        pytest.param(replace(KIN, mine=signed(OWNER, CORA)), signed(OWNER, BERT), id="not this node's"),
        pytest.param(
            replace(KIN, mine=signed(OWNER, ME, ago=9 * DAY)), signed(OWNER, BERT), id="own expired"
        ),
        pytest.param(
            replace(KIN, trust=TrustStore(revoked=(entry(BERT),))), signed(OWNER, BERT), id="revoked"
        ),
        pytest.param(
            replace(KIN, trust=TrustStore(revoked=(entry(OWNER),))), signed(OWNER, BERT), id="revoked owner"
        ),
    ],
)
def test_nobody_else_is(kin: Kin, certificate: bytes) -> None:
    assert not kin.includes(BERT.public, certificate)


# The gate -------------------------------------------------------------------------------------------


@pytest.fixture
def paths() -> Paths:
    return default_paths()


@pytest.fixture
def model(tmp_path: Path) -> ResolvedModel:
    file = write_model(tmp_path / "tiny-F32.gguf")
    facts: GgufFacts = inspect_model(file)
    return ResolvedModel(facts.model_id, str(file), facts.files, facts, "")


def give(paths: Paths, key: SigningKey, model: ResolvedModel, *codecs: Dtype, owner: bytes = b"") -> None:
    """As it came from another member, which showed `owner`."""
    store = ForeignCertificates(paths.certificates)
    for codec in codecs:
        one = certificate(EXACT, artifact=hash_artifact(model.files), cuts=CUT, codec=codec)
        raw = seal_certificate(key, one)
        store.add(raw, hashlib.sha256(raw).digest(), key.public)
    store.show_owners({key.public: owner})


def wire(paths: Paths, model: ResolvedModel, requested: str = "auto") -> Wire | str:
    return Gate(paths, model, requested, "cpu", ME.public, NAMES).wire(CUT)


def test_a_strangers_valid_record_changes_nothing_but_words(paths: Paths, model: ResolvedModel) -> None:
    before = {name: wire(paths, model, name) for name in ("auto", "f32", "q8x", "q8")}
    give(paths, BERT, model, Dtype.Q8X)
    give(paths, CORA, model, Dtype.Q8X, owner=signed(OTHER, CORA))
    OwnerStore(paths).install(signed(OWNER, ME), ME.public)
    after = {name: wire(paths, model, name) for name in before}
    auto = after["auto"]
    assert isinstance(auto, Wire)
    assert (auto.dtype, auto.verdict) == ("f32", "exact")
    assert "q8x is exact, measured by Bert (not trusted here)" in auto.note
    assert "measured by Cora (not trusted here)" in auto.note
    assert after["f32"] == before["f32"]
    assert after["q8"] == before["q8"]
    refused, bare = after["q8x"], before["q8x"]
    assert isinstance(refused, str)
    assert isinstance(bare, str)
    assert refused.startswith(bare)
    assert "measured by Bert (not trusted here)" in refused


def test_a_node_of_the_same_owner_is_believed_until_it_is_revoked(paths: Paths, model: ResolvedModel) -> None:
    give(paths, BERT, model, Dtype.Q8X, owner=signed(OWNER, BERT))
    assert isinstance(wire(paths, model, "q8x"), str)
    owners = OwnerStore(paths)
    before = stamp_of(paths, 0.0)
    owners.install(signed(OWNER, ME), ME.public)
    assert stamp_of(paths, 0.0) != before
    for requested in ("auto", "q8x"):
        used = wire(paths, model, requested)
        assert isinstance(used, Wire)
        assert (used.dtype, used.verdict) == ("q8x", "exact")
        assert "measured by Bert, a node of your owner" in used.note
    owners.revoke(entry(BERT))
    refused = wire(paths, model, "q8x")
    assert isinstance(refused, str)
    assert "measured by Bert (not trusted here)" in refused


def test_where_this_node_found_worse_the_worse_counts(paths: Paths, model: ResolvedModel) -> None:
    OwnerStore(paths).install(signed(OWNER, ME), ME.public)
    give(paths, BERT, model, Dtype.Q8X, owner=signed(OWNER, BERT))
    own = certificate(REJECTED, artifact=hash_artifact(model.files), cuts=CUT, codec=Dtype.Q8X)
    CertificateStore(paths.certificates).add(seal_certificate(ME, own))
    assert "rejected" in str(wire(paths, model, "q8x"))
    auto = wire(paths, model)
    assert isinstance(auto, Wire)
    assert auto.dtype == "f32"


def test_a_large_file_is_not_read_for_what_strangers_say(
    paths: Paths, model: ResolvedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(paths, BERT, model, Dtype.Q8X)
    monkeypatch.setattr(split_gate, "HASHED_TO_SHOW", 1)
    gone = replace(model, files=(Path("gone.gguf"),))
    auto = wire(paths, gone)
    assert isinstance(auto, Wire)
    assert auto.note == "f32, which changes nothing; no smaller format is certified"


def test_each_record_is_counted_once_wherever_it_is(paths: Paths, model: ResolvedModel) -> None:
    give(paths, BERT, model, Dtype.Q8X)
    carried = ForeignCertificates(paths.certificates).load()
    CertificateStore(paths.certificates).add(seal_certificate(ME, certificate()))
    known = known_records(paths, ME.public, time.time(), carried)
    assert (len(known.own), len(known.kin), len(known.strangers)) == (1, 0, 1)
