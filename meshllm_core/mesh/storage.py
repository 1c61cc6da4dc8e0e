"""What a member keeps on disk: one file, written whole, readable by its owner alone."""

import contextlib
import errno
import os
import secrets
import time
from pathlib import Path
from typing import Annotated

import msgspec

from meshllm_core.errors import NodeError, StorageError
from meshllm_core.identity import private_file
from meshllm_core.ids import MeshId
from meshllm_core.paths import Paths
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Address, Role
from meshllm_core.wire.handshake import Chain, Id

FILE = "mesh.msgpack"
VERSION = 1
ASKING = 64
"""Invites whose holders wait for a person."""
BLOCKED = 1024
"""Nodes that can be blocked."""
FILE_BYTES = 96 << 20
"""Largest file that is read: as many records as a node keeps, at the length of a chain, and more."""

Raw = Annotated[bytes, msgspec.Meta(max_length=limits.RECORD)]
Name = Annotated[str, msgspec.Meta(max_length=limits.NAME)]
Addresses = Annotated[tuple[Address, ...], msgspec.Meta(max_length=64)]


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the mesh is to be listed on public relays, and how."""

    on: bool = False
    name: str = ""
    region: str = ""
    max_clients: int = 0


class AskingInvite(msgspec.Struct, frozen=True, kw_only=True):
    """An invite whose holders wait until a person lets them in. Only its secret's hash is kept."""

    id: Id
    role: Role
    uses: Annotated[int, msgspec.Meta(ge=0)]
    """0: any number."""
    created_at: float
    expires_at: float
    """0: never."""
    may_invite: bool = False
    used_by: Annotated[tuple[Id, ...], msgspec.Meta(max_length=limits.MEMBERS)] = ()
    revoked: bool = False


class MeshState(msgspec.Struct, frozen=True, kw_only=True):
    """A membership."""

    mesh: MeshId
    name: str = ""
    root_seed: bytes = b""
    """Private half of the mesh's root key; only its founder has it."""
    chain: Chain = ()
    """This node's own."""
    records: tuple[tuple[int, Raw], ...] = ()
    """Memberships, revocations, invites and their uses: kind and signed bytes."""
    peers: dict[Id, Addresses] = {}
    """Where members were last reached."""
    names: dict[Id, Name] = {}
    """What they called themselves."""
    publication: Publication = Publication()
    blocked: Annotated[tuple[Id, ...], msgspec.Meta(max_length=BLOCKED)] = ()
    """Nodes that this one does not talk to."""
    asking: Annotated[tuple[AskingInvite, ...], msgspec.Meta(max_length=ASKING)] = ()
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0
    """Where this node listened last: the others look for it there. 0: not known."""

    def __repr__(self) -> str:
        """Without the root key: reprs end up in logs."""
        return f"MeshState({self.mesh.hex()[:10]}…, {len(self.records)} records)"


class _Header(msgspec.Struct):
    """What every version of the file begins with."""

    version: int


class _File(_Header):
    state: MeshState


class MeshStore:
    """The file of one user's node."""

    def __init__(self, paths: Paths) -> None:
        self.path = paths.data / FILE
        self._written: bytes | None = None
        self._encoder = msgspec.msgpack.Encoder()

    def exists(self) -> bool:
        """Whether this node was in a mesh when it stopped."""
        return self.path.exists()

    def load(self) -> MeshState | None:
        """What was saved; None when nothing was.

        Raises StorageError when the file cannot be read, or was damaged: it is then moved aside, and the
        next start finds none. Raises NodeError for one that a newer meshllm wrote, which stays.
        """
        data = read_private(self.path, FILE_BYTES)
        if data is None:
            return None
        try:
            version = msgspec.msgpack.decode(data, type=_Header).version
            if version > VERSION:
                raise NodeError(
                    f"{self.path} was written by a newer meshllm (form {version}; this one knows {VERSION}).",
                    hint="Update meshllm, or move the file away to start without its mesh.",
                )
            state = msgspec.msgpack.decode(data, type=_File).state
            if len(state.mesh) != 32 or len(state.root_seed) not in (0, 32):
                raise msgspec.ValidationError("a key of a wrong length")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._damaged(str(error)) from None
        self._written = data
        return state

    def save(self, state: MeshState) -> None:
        """Writes, unless the file says the same already. Raises StorageError."""
        data = self._encoder.encode(_File(VERSION, state))
        if data != self._written or not self.path.exists():
            write_private(self.path, data)
            self._written = data

    def clear(self) -> Path | None:
        """Forgets the mesh. A founder's root key cannot be made again: its file is kept aside, and named.

        Raises StorageError.
        """
        try:
            state = self.load()
        except (StorageError, NodeError):
            # Damaged, and moved aside by that; or of a newer version, which is not ours to delete.
            return None
        self._written = None
        if state is not None and state.root_seed:
            return self._aside("left")
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise _cannot("delete", self.path, error) from None
        return None

    def _damaged(self, why: str) -> StorageError:
        place = self._aside("damaged")
        return StorageError(
            f"{self.path} is damaged ({why}). It was moved to {place}.",
            hint="Start again: this node is then in no mesh and can be invited again, or restore a backup.",
        )

    def _aside(self, why: str) -> Path:
        place = self.path.with_name(f"{FILE}.{why}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}")
        try:
            self.path.rename(place)
        except OSError as error:
            raise _cannot("move", self.path, error) from None
        return place


def read_private(path: Path, limit: int) -> bytes | None:
    """The file's bytes, None without a file; one that others could read is closed to them.

    Raises StorageError, also for more than `limit` bytes.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if os.name == "posix" and status.st_mode & 0o077:
                # A copy or a backup made it readable.
                with contextlib.suppress(PermissionError):
                    path.chmod(0o600)
            if status.st_size > limit:
                raise StorageError(
                    f"{path} has {status.st_size} bytes, more than the {limit} that are read.",
                    hint="Move it away; it is not of this program.",
                )
            return file.read(limit)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _cannot("read", path, error) from None


def write_private(path: Path, data: bytes) -> None:
    """Puts `data` in the place of the file, on the disk when this returns. Raises StorageError."""
    try:
        private_file.replace(path, data)
    except OSError as error:
        raise _cannot("write", path, error) from None


def _cannot(verb: str, path: Path, error: OSError) -> StorageError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return StorageError(
        f"Cannot {verb} {path}: {error.strerror}.",
        hint="Free some space."
        if full
        else "Check the folder's permissions, or set MESHLLM_HOME to a folder you own.",
    )
