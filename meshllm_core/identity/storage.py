"""Where a node's key is kept: the desktop's keyring, or a file that only its owner can read.

Beside it lies a record without secrets: whose key it is, where it is kept, how often the node started
and on which machine.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from filelock import FileLock, Timeout

from meshllm_core.errors import IdentityError
from meshllm_core.identity import private_file, vault
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.machine import fingerprint
from meshllm_core.ids import NodeId
from meshllm_core.paths import Paths

LOCK_SECONDS = 15.0
"""Longer than a keyring may take for all that is asked of it."""
_NEW = "`meshllm id --new` makes a new key; memberships of the old one end."

Place = Literal["file", "keyring"]


class IdentityRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record: identity.json."""

    node: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    storage: Place
    incarnation: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
    machine: str


@dataclass(frozen=True)
class KnownIdentity:
    """What can be said of a node without its secret."""

    node: NodeId
    storage: str
    """Where the key is kept, in words for a person."""
    incarnation: int
    copied: bool
    """Whether the home folder was made on another machine."""


@dataclass(frozen=True)
class StoredKey:
    """A node's key, ready to use."""

    key: SigningKey
    storage: str
    incarnation: int
    """Larger than at any start before."""
    copied: bool


def load_or_create(paths: Paths, *, use_keyring: bool = True) -> StoredKey:
    """The key of this home, made at the first call; every call counts as a start of the node.

    Blocks: two seconds and more where a keyring does not answer. `use_keyring` is False where nothing may
    be kept outside `paths`. Raises IdentityError for a key that is lost, damaged or readable by others.
    """
    with _locked(paths):
        record = _read_record(paths)
        key = _load(paths, record, use_keyring=use_keyring)
        if key is None:
            return _create(paths, use_keyring=use_keyring)
        now, kept = int(time.time()), record.incarnation + 1 if record else 0
        known = record if record and record.node == key.public.hex() else None
        updated = IdentityRecord(
            node=key.public.hex(),
            storage="file" if paths.node_key_file.exists() else "keyring",
            incarnation=max(now, kept),
            machine=known.machine if known else fingerprint(key.public),
        )
        _write_record(paths, updated)
        identity = _known(paths, updated)
        return StoredKey(key, identity.storage, identity.incarnation, identity.copied)


def new_identity(paths: Paths, *, use_keyring: bool = True) -> StoredKey:
    """Puts a new key in the place of the one that is there, in whatever state that is.

    Raises IdentityError.
    """
    with _locked(paths):
        old = None
        with contextlib.suppress(IdentityError):
            old = _read_record(paths)
        stored = _create(paths, use_keyring=use_keyring)
        if old is not None and old.storage == "keyring":
            with contextlib.suppress(IdentityError):
                vault.remove(NodeId(bytes.fromhex(old.node)))
        return stored


def known_identity(paths: Paths) -> KnownIdentity | None:
    """Whose key it is and where it is kept; None before the first start. Asks no keyring.

    Raises IdentityError.
    """
    record = _read_record(paths)
    text = private_file.read(paths.node_key_file)
    if text is None:
        return _known(paths, record) if record else None
    node = _parse(text, str(paths.node_key_file)).public
    if record is None or record.node != node.hex():
        words = _words(paths, "file")
        return KnownIdentity(node, words, record.incarnation if record else 0, copied=False)
    return _known(paths, record)


def keep_identity(paths: Paths) -> KnownIdentity:
    """Says that this home moved here and is no copy. Raises IdentityError when there is no key."""
    with _locked(paths):
        record = _read_record(paths)
        if record is None:
            raise IdentityError("There is no key here yet.", hint="The first start of a node makes one.")
        machine = fingerprint(NodeId(bytes.fromhex(record.node)))
        record = msgspec.structs.replace(record, machine=machine)
        _write_record(paths, record)
        return _known(paths, record)


def _create(paths: Paths, *, use_keyring: bool) -> StoredKey:
    key = SigningKey.generate()
    place: Place = "file"
    if use_keyring:
        with contextlib.suppress(IdentityError):
            vault.store(key.public, key.seed.hex())
            place = "keyring"
    if place == "file":
        private_file.write(paths.node_key_file, private_file.HEADER + key.seed.hex() + "\n")
    record = IdentityRecord(
        node=key.public.hex(),
        storage=place,
        incarnation=int(time.time()),
        machine=fingerprint(key.public),
    )
    _write_record(paths, record)
    if place == "keyring":
        # Last: a file that is there counts more than the record.
        private_file.remove(paths.node_key_file)
    return StoredKey(key, _words(paths, place), record.incarnation, copied=False)


def _load(paths: Paths, record: IdentityRecord | None, *, use_keyring: bool) -> SigningKey | None:
    """The key that is there; None when there never was one."""
    text = private_file.read(paths.node_key_file)
    if text is not None:
        return _parse(text, str(paths.node_key_file))
    if record is None:
        return None
    if record.storage == "file":
        raise IdentityError(
            f"The node's key {paths.node_key_file} is gone.", hint=f"Restore it from a backup, or {_NEW}"
        )
    node = NodeId(bytes.fromhex(record.node))
    if not use_keyring:
        raise IdentityError("The node's key is in a keyring, which is not to be asked here.", hint=_NEW)
    try:
        found = vault.fetch(node)
    except IdentityError as error:
        raise IdentityError(
            f"The node's key is in this desktop's keyring. {error.message}",
            hint=f"Unlock it, or start the node from the desktop. Or: {_NEW}",
        ) from None
    if found is None:
        moved = _known(paths, record).copied
        raise IdentityError(
            "This home folder came from another machine, whose keyring holds the node's key."
            if moved
            else "The node's key is no longer in the keyring.",
            hint=_NEW,
        )
    key = _parse(private_file.HEADER + found, "The keyring's entry")
    if key.public != node:
        raise IdentityError("The keyring holds the key of another node.", hint=_NEW)
    return key


def _parse(text: str, where: str) -> SigningKey:
    seed = text.removeprefix(private_file.HEADER).strip()
    if text.startswith(private_file.HEADER) and len(seed) == 64:
        with contextlib.suppress(ValueError):
            return SigningKey(bytes.fromhex(seed))
    raise IdentityError(f"{where} does not hold a node's key.", hint=f"Restore it from a backup, or {_NEW}")


def _known(paths: Paths, record: IdentityRecord) -> KnownIdentity:
    node = NodeId(bytes.fromhex(record.node))
    copied = record.machine != fingerprint(node)
    return KnownIdentity(node, _words(paths, record.storage), record.incarnation, copied)


def _words(paths: Paths, place: Place) -> str:
    if place == "keyring":
        return "the desktop's keyring"
    return f"a file readable only by you ({paths.node_key_file})"


def _read_record(paths: Paths) -> IdentityRecord | None:
    text = private_file.read(paths.identity_file, secret=False)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=IdentityRecord)
    except (msgspec.DecodeError, RecursionError) as error:
        raise IdentityError(
            f"{paths.identity_file} cannot be understood: {error}.",
            hint=f"Restore it from a backup. If the key is in a file beside it, delete it. Or: {_NEW}",
        ) from None


def _write_record(paths: Paths, record: IdentityRecord) -> None:
    private_file.write(paths.identity_file, msgspec.json.encode(record).decode() + "\n")


@contextlib.contextmanager
def _locked(paths: Paths) -> Iterator[None]:
    """Only one at a time makes or counts: two that start in the same moment get the same key."""
    lock = FileLock(paths.data / ".identity.lock", timeout=LOCK_SECONDS)
    try:
        paths.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock.acquire()
    except Timeout:
        raise IdentityError(
            f"Another process holds {lock.lock_file}.", hint="Wait until it is done, then try again."
        ) from None
    except OSError as error:
        raise private_file.cannot("use", paths.data, error) from None
    try:
        yield
    finally:
        lock.release()
