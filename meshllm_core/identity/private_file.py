"""Small files that only their owner may read: written whole or not at all."""

import contextlib
import errno
import os
import secrets
from pathlib import Path

from meshllm_core.errors import IdentityError

HEADER = "meshllm-node-key-1 "
"""What the file of a key begins with, so that tools which look for secrets know it."""
LIMIT = 4096
"""Bytes of a file that are read at most."""


def read(path: Path, *, secret: bool = True) -> str | None:
    """The text of the file; None when there is no file.

    Raises IdentityError when it cannot be read, or when it is `secret` and others could read it.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if secret and os.name == "posix" and mode & 0o077:
                raise IdentityError(
                    f"{path} can be read by others (mode {mode & 0o777:o}).",
                    hint=f"Close it: `chmod 600 {path}`. If somebody may have read it, make a new key:"
                    " `meshllm id --new`.",
                )
            return file.read(LIMIT).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise cannot("read", path, error) from None


def write(path: Path, text: str) -> None:
    """Puts `text` into the file, on the disk when this returns. Raises IdentityError."""
    try:
        replace(path, text.encode())
    except OSError as error:
        raise cannot("write", path, error) from None


def replace(path: Path, data: bytes) -> None:
    """Puts `data` in the place of the file, for its owner alone, on the disk when this returns.

    Raises OSError; then what was there stays.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def remove(path: Path) -> None:
    """Deletes the file if it is there. Raises IdentityError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise cannot("delete", path, error) from None


def cannot(verb: str, path: Path, error: OSError) -> IdentityError:
    """An error of the file system in words."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return IdentityError(
        f"Cannot {verb} {path}: {error.strerror}.",
        hint="Free some space."
        if full
        else "Check the folder's permissions, or set MESHLLM_HOME to a folder you own.",
    )
