"""An owner's files: a key that opens only with its passphrase, and a certificate that renews itself."""

import json
import stat
from collections.abc import Mapping

import pytest

from meshllm_core.errors import IdentityError, ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.storage import load_or_create, new_identity
from meshllm_core.ids import NodeId
from meshllm_core.membership.certificates import DAY
from meshllm_core.membership.owner import OWNER_LIFE, read_owner, sign_node
from meshllm_core.membership.trust import Entry
from meshllm_core.mesh.owner_store import PASSPHRASE, OwnerStore
from meshllm_core.paths import Paths, default_paths
from tests.membership.founding import HOUR, NOW, key


class Hand:
    """A clock that a test moves."""

    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def paths() -> Paths:
    return default_paths()


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def node(paths: Paths) -> NodeId:
    return load_or_create(paths, use_keyring=False).key.public


def store(paths: Paths, clock: Hand, environ: Mapping[str, str] | None = None) -> OwnerStore:
    return OwnerStore(paths, clock=clock, environ=environ or {})


def test_a_key_without_passphrase_is_a_private_file(paths: Paths, clock: Hand) -> None:
    owners = store(paths, clock)
    assert owners.owner() is None
    made = owners.create()
    assert stat.S_IMODE(owners.key_file.stat().st_mode) == 0o600
    assert store(paths, clock).unlock().seed == made.seed
    with pytest.raises(IdentityError, match="already"):
        owners.create()


def test_a_locked_key_opens_with_its_passphrase_only(paths: Paths, clock: Hand) -> None:
    owners = store(paths, clock)
    made = owners.create("correct horse")
    text = owners.key_file.read_text()
    assert made.seed.hex() not in text and "correct" not in text
    kdf = json.loads(text)["kdf"]
    assert (kdf["memory_kib"], kdf["passes"], kdf["lanes"]) == (19 * 1024, 2, 1)
    assert owners.unlock("correct horse").public == made.public
    for wrong, words in (("", "locked"), ("wrong", "passphrase of the owner's key is wrong")):
        with pytest.raises(IdentityError, match=words):
            owners.unlock(wrong)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "does not hold"),
        ({"owner": "0" * 64}, "wrong"),
        ({"key": "00" * 48}, "wrong"),
        ({"kdf": {"salt": "00", "memory_kib": 1 << 30}}, "does not hold"),
        ({"kdf": None}, "another key"),
        ({"nonce": "00" * 12}, "wrong"),
        ({"extra": 1}, "does not hold"),
    ],
)
def test_a_changed_key_file_is_refused(
    paths: Paths, clock: Hand, change: dict[str, object], words: str
) -> None:
    owners = store(paths, clock)
    owners.create("secret")
    owners.key_file.write_text(json.dumps({**json.loads(owners.key_file.read_text()), **change}))
    with pytest.raises(IdentityError, match=words):
        owners.unlock("secret")


def test_no_key_is_said(paths: Paths, clock: Hand) -> None:
    with pytest.raises(IdentityError, match="no owner's key"):
        store(paths, clock).unlock()


def test_a_certificate_is_shown_until_it_is_renewed(paths: Paths, clock: Hand, node: NodeId) -> None:
    owners = store(paths, clock)
    assert owners.certificate() == b""
    raw = sign_node(owners.create(), node, wall=NOW, label="attic")
    owners.install(raw, node)
    assert owners.certificate() == raw
    clock.now = NOW + OWNER_LIFE - 37 * HOUR
    assert owners.certificate() == raw
    clock.now = NOW + OWNER_LIFE - 35 * HOUR
    renewed = read_owner(owners.certificate())
    assert (renewed.label, renewed.expires_at) == ("attic", int((clock.now + OWNER_LIFE) * 1000))
    assert store(paths, clock).certificate() == owners.certificate(), "it is on disk"


def test_without_the_key_a_certificate_just_ends(paths: Paths, clock: Hand, node: NodeId) -> None:
    owners = store(paths, clock)
    raw = sign_node(key("elsewhere"), node, wall=NOW)
    owners.install(raw, node)
    clock.now = NOW + 8 * DAY
    assert owners.certificate() == raw
    owners.create()
    assert store(paths, clock).certificate() == raw, "the key that is here is another owner's"


def test_a_locked_key_renews_where_the_passphrase_is_given(paths: Paths, clock: Hand, node: NodeId) -> None:
    owners = store(paths, clock)
    raw = sign_node(owners.create("secret"), node, wall=NOW)
    owners.install(raw, node)
    clock.now = NOW + OWNER_LIFE - HOUR
    assert owners.certificate() == raw
    assert store(paths, clock, {PASSPHRASE: "wrong"}).certificate() == raw
    assert store(paths, clock, {PASSPHRASE: "secret"}).certificate() != raw


def test_a_new_identity_needs_a_new_certificate(paths: Paths, clock: Hand, node: NodeId) -> None:
    owners = store(paths, clock)
    owners.install(sign_node(key("elsewhere"), node, wall=NOW), node)
    new_identity(paths, use_keyring=False)
    assert store(paths, clock).certificate() == b"", "that of the old id proves nothing"
    with pytest.raises(ProofInvalid, match="is for node"):
        owners.install(sign_node(key("elsewhere"), key("another").public, wall=NOW), node)


def test_an_owner_signs_its_own_node_again_after_a_new_identity(
    paths: Paths, clock: Hand, node: NodeId
) -> None:
    owners = store(paths, clock)
    owners.install(sign_node(owners.create(), node, wall=NOW), node)
    fresh = new_identity(paths, use_keyring=False).key.public
    assert read_owner(store(paths, clock).certificate()).node == fresh


def test_a_damaged_certificate_is_not_shown(paths: Paths, clock: Hand, node: NodeId) -> None:
    owners = store(paths, clock)
    owners.install(sign_node(owners.create(), node, wall=NOW), node)
    owners.certificate_file.write_bytes(b"nonsense")
    assert owners.certificate() == b""


def test_trust_is_read_again_when_the_file_changes(paths: Paths, clock: Hand) -> None:
    running, edited = store(paths, clock), store(paths, clock)
    mine, other = SigningKey.generate().public, key("other").public
    assert not running.trust().trusts(mine)
    edited.trust_owner(Entry(id=mine.hex(), label="me"))
    assert running.trust().trusts(mine)
    edited.revoke(Entry(id=mine.hex()))
    edited.revoke(Entry(id=other.hex()))
    assert not running.trust().trusts(mine) and running.trust().revokes(mine)
    assert edited.forget(mine.hex()) and not edited.forget(mine.hex())
    edited.trust_owner(Entry(id=other.hex()))
    assert running.trust().trusts(other) and running.trust().revoked == ()


def test_a_damaged_trust_store_keeps_its_last_word(paths: Paths, clock: Hand) -> None:
    owners = store(paths, clock)
    owners.revoke(Entry(id=key("lost").public.hex()))
    assert owners.trust().revokes(key("lost").public)
    owners.trust_file.write_text("{ half an ed")
    assert owners.trust().revokes(key("lost").public)
    with pytest.raises(IdentityError, match=r"trust\.json cannot be understood"):
        owners.read_trust()
    with pytest.raises(IdentityError):
        owners.trust_owner(Entry(id=key("a").public.hex()))
    assert owners.trust_file.read_text() == "{ half an ed", "what a person wrote is not overwritten"


def test_what_cannot_be_kept_is_refused(paths: Paths, clock: Hand) -> None:
    with pytest.raises(IdentityError, match="cannot be kept"):
        store(paths, clock).trust_owner(Entry(id="nonsense"))
