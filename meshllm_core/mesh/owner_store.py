"""An owner's files: the key (if it lives here), whom this machine trusts, and this node's certificate."""

import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from argon2.low_level import Type, hash_secret_raw
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from meshllm_core.errors import IdentityError, MeshError, ProofInvalid
from meshllm_core.identity.keys import SEED_BYTES, SigningKey
from meshllm_core.identity.storage import known_identity
from meshllm_core.ids import NodeId
from meshllm_core.membership.owner import OWNER_LIFE, RENEW_WITHIN, OwnerCertificate, read_owner, sign_node
from meshllm_core.membership.trust import Entry, TrustStore
from meshllm_core.mesh.storage import read_private, write_private
from meshllm_core.paths import Paths
from meshllm_core.wire import limits

log = logging.getLogger(__name__)

PASSPHRASE = "MESHLLM_OWNER_PASSPHRASE"
"""Environment variable that holds the passphrase of the owner's key."""
KEY_BYTES = 4096
TRUST_BYTES = 1 << 20
RETRY_SECONDS = 3600.0
"""A certificate that could not be renewed is tried again after so long."""

Hex = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{2})+$", max_length=256)]


class Argon2(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a passphrase becomes a key: Argon2id."""

    salt: Hex
    memory_kib: Annotated[int, msgspec.Meta(ge=8192, le=1 << 20)] = 19 * 1024
    passes: Annotated[int, msgspec.Meta(ge=1, le=16)] = 2
    lanes: Annotated[int, msgspec.Meta(ge=1, le=4)] = 1

    def derive(self, passphrase: str) -> bytes:
        """32 bytes."""
        return hash_secret_raw(
            passphrase.encode(),
            bytes.fromhex(self.salt),
            time_cost=self.passes,
            memory_cost=self.memory_kib,
            parallelism=self.lanes,
            hash_len=SEED_BYTES,
            type=Type.ID,
        )


class OwnerKeyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """owner.key, as JSON."""

    version: Literal[1]
    owner: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    kdf: Argon2 | None = None
    """None: the key is not encrypted."""
    nonce: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{24})?$")] = ""
    key: Hex

    @property
    def encrypted(self) -> bool:
        """Whether a passphrase is needed."""
        return self.kdf is not None


class OwnerStore:
    """The files of one user. Nothing is read before it is asked for."""

    def __init__(
        self,
        paths: Paths,
        *,
        clock: Callable[[], float] = time.time,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._paths = paths
        self._clock = clock
        self._environ = environ
        self.key_file = paths.data / "owner.key"
        self.trust_file = paths.data / "trust.json"
        self.certificate_file = paths.data / "owner.certificate"
        self._trust: tuple[object, TrustStore] = (None, TrustStore())
        self._certificate: tuple[object, bytes, float] = (None, b"", 0.0)

    # The owner's key

    def owner(self) -> OwnerKeyFile | None:
        """Whose key is here, without its secret. Raises IdentityError, StorageError."""
        data = read_private(self.key_file, KEY_BYTES)
        if data is None:
            return None
        try:
            return msgspec.json.decode(data, type=OwnerKeyFile)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise IdentityError(
                f"{self.key_file} does not hold an owner's key: {error}.",
                hint="Restore it from a backup. Or move it away and make a new one: `meshllm owner init`.",
            ) from None

    def create(self, passphrase: str = "") -> SigningKey:
        """A new owner's key, encrypted when there is a passphrase, and trusted here. Raises IdentityError."""
        known = self.owner()
        if known is not None:
            raise IdentityError(
                f"There is an owner's key here already: {known.owner}.",
                hint=f"To make another, move {self.key_file} away first.",
            )
        key = SigningKey.generate()
        write_private(self.key_file, msgspec.json.format(msgspec.json.encode(_locked(key, passphrase))))
        self.trust_owner(Entry(id=key.public.hex(), label="this machine's owner"))
        return key

    def unlock(self, passphrase: str = "") -> SigningKey:
        """The owner's key. Raises IdentityError when there is none or the passphrase is wrong."""
        known = self.owner()
        if known is None:
            raise IdentityError(
                "There is no owner's key on this machine.",
                hint="Make one with `meshllm owner init`, or sign this node where the key is.",
            )
        seed = _unlocked(known, passphrase)
        if len(seed) != SEED_BYTES or (key := SigningKey(seed)).public.hex() != known.owner:
            raise IdentityError(f"{self.key_file} holds another key than it says.")
        return key

    # This node's certificate

    def install(self, raw: bytes, node: NodeId) -> OwnerCertificate:
        """Keeps a certificate for this node. Raises ProofInvalid when it does not hold or is another's."""
        body = read_owner(raw)
        if body.node != node:
            raise ProofInvalid(
                f"The certificate is for node {body.node.hex()}, and this one is {node.hex()}.",
                reason="stolen",
                hint="Sign this one: `meshllm owner sign NODE_ID` where the owner's key is.",
            )
        write_private(self.certificate_file, raw)
        return body

    def installed(self) -> bytes:
        """The certificate as it is kept, valid or not; empty: none. Raises StorageError."""
        return read_private(self.certificate_file, limits.CERTIFICATE) or b""

    def certificate(self) -> bytes:
        """What this node shows to others; empty: nothing.

        Renewed in its last 36 hours where the owner's key is here and open. Cheap: call it now and then.
        """
        now, stamp = self._clock(), _stamp(self.certificate_file)
        known, raw, look_again = self._certificate
        if known == stamp and now < look_again:
            return raw
        try:
            raw, look_again = self._renewed(now)
        except MeshError as error:
            log.warning("the owner's certificate of this node is not used: %s", error)
            raw, look_again = b"", now + RETRY_SECONDS
        self._certificate = (_stamp(self.certificate_file), raw, look_again)
        return raw

    def _renewed(self, now: float) -> tuple[bytes, float]:
        """The certificate, and when to look again."""
        raw = self.installed()
        own = known_identity(self._paths)
        if not raw or own is None:
            return b"", now + RETRY_SECONDS
        body = read_owner(raw)
        due = body.expires_at / 1000 - RENEW_WITHIN
        mine = body.node == own.node
        if mine and now < due:
            return raw, due
        key = self._key_of(body.owner)
        if key is None:
            return (raw if mine else b""), now + RETRY_SECONDS
        life = max(OWNER_LIFE, (body.expires_at - body.issued_at) / 1000)
        raw = sign_node(key, own.node, wall=now, life=life, label=body.label)
        self.install(raw, own.node)
        return raw, now + life - RENEW_WITHIN

    def _key_of(self, identity: bytes) -> SigningKey | None:
        """The key of that owner, if it is here and can be opened without asking."""
        owner = self.owner()
        passphrase = self._environ.get(PASSPHRASE, "")
        if owner is None or owner.owner != identity.hex() or (owner.encrypted and not passphrase):
            return None
        try:
            return self.unlock(passphrase)
        except IdentityError as error:
            log.warning("the owner's certificate of this node is not renewed: %s", error)
            return None

    # Trust

    def trust(self) -> TrustStore:
        """Whom this machine trusts, for a node that runs: a change of the file counts at once.

        While the file cannot be understood, what it said before counts on, and the log says so.
        """
        stamp, store = _stamp(self.trust_file), self._trust[1]
        if self._trust[0] != stamp:
            try:
                store = self.read_trust()
            except MeshError as error:
                log.warning("the trust store is not used as it is now: %s", error)
            self._trust = (stamp, store)
        return store

    def read_trust(self) -> TrustStore:
        """The same from the file. Raises IdentityError for one that is damaged, StorageError."""
        data = read_private(self.trust_file, TRUST_BYTES)
        try:
            return msgspec.json.decode(data, type=TrustStore) if data is not None else TrustStore()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise IdentityError(
                f"{self.trust_file} cannot be understood: {error}.",
                hint="Correct it, or move it away to trust nobody.",
            ) from None

    def trust_owner(self, entry: Entry) -> TrustStore:
        """Trusts an owner from now on; one that was revoked no longer is."""
        store = self.read_trust()
        return self._keep(
            trusted=(*_without(store.trusted, entry.id), entry), revoked=_without(store.revoked, entry.id)
        )

    def revoke(self, entry: Entry) -> TrustStore:
        """Keeps an owner or a node out from now on."""
        store = self.read_trust()
        return self._keep(
            trusted=_without(store.trusted, entry.id), revoked=(*_without(store.revoked, entry.id), entry)
        )

    def forget(self, identity: str) -> bool:
        """Takes an owner or a node off both lists; False when it is on neither."""
        store = self.read_trust()
        trusted, revoked = _without(store.trusted, identity), _without(store.revoked, identity)
        if (trusted, revoked) == (store.trusted, store.revoked):
            return False
        self._keep(trusted=trusted, revoked=revoked)
        return True

    def _keep(self, *, trusted: tuple[Entry, ...], revoked: tuple[Entry, ...]) -> TrustStore:
        store = TrustStore(trusted=trusted, revoked=revoked)
        data = msgspec.json.format(msgspec.json.encode(store))
        try:
            msgspec.json.decode(data, type=TrustStore)
        except msgspec.ValidationError as error:
            raise IdentityError(f"That cannot be kept: {error}.", hint="Remove entries first.") from None
        write_private(self.trust_file, data)
        return store


def _locked(key: SigningKey, passphrase: str) -> OwnerKeyFile:
    owner = key.public.hex()
    if not passphrase:
        return OwnerKeyFile(version=1, owner=owner, key=key.seed.hex())
    kdf, nonce = Argon2(salt=os.urandom(16).hex()), os.urandom(12)
    sealed = ChaCha20Poly1305(kdf.derive(passphrase)).encrypt(nonce, key.seed, bytes(key.public))
    return OwnerKeyFile(version=1, owner=owner, kdf=kdf, nonce=nonce.hex(), key=sealed.hex())


def _unlocked(known: OwnerKeyFile, passphrase: str) -> bytes:
    sealed = bytes.fromhex(known.key)
    if known.kdf is None:
        return sealed
    if not passphrase:
        raise IdentityError(
            "The owner's key is locked with a passphrase.", hint=f"Give it in {PASSPHRASE}, or when asked."
        )
    cipher = ChaCha20Poly1305(known.kdf.derive(passphrase))
    try:
        return cipher.decrypt(bytes.fromhex(known.nonce), sealed, bytes.fromhex(known.owner))
    except (InvalidTag, ValueError):
        raise IdentityError("The passphrase of the owner's key is wrong.", hint="Try again.") from None


def _without(entries: tuple[Entry, ...], identity: str) -> tuple[Entry, ...]:
    return tuple(entry for entry in entries if entry.id != identity)


def _stamp(path: Path) -> object:
    """Changes when the file does; one for no file."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_ino, status.st_size
