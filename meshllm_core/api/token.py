"""The management API's bearer token: a file that only its owner can read."""

import contextlib
import errno
import hmac
import os
import re
import secrets
from pathlib import Path

from meshllm_core.errors import NodeError, NotAuthorized

TOKEN_LIMIT = 4096
"""Bytes of the file that are read at most."""
_FORM = re.compile(r"[A-Za-z0-9_-]{32,256}")


def ensure_token(path: Path) -> str:
    """The token in `path`; makes one first if there is none. Two nodes that start at once agree on one.

    Raises NodeError when the file cannot be written or holds something else.
    """
    try:
        found = stored_token(path)
        if found is None:
            _create(path)
            found = stored_token(path)
    except OSError as error:
        raise NodeError(
            f"Cannot write the management token {path}: {error.strerror}.",
            hint="Free some space, or set MESHLLM_HOME to a larger disk."
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "Check the folder's permissions, or set MESHLLM_HOME to a folder you own.",
        ) from None
    if found is None:
        raise NodeError(f"The management token {path} vanished.", hint="Start again.")
    return found


def read_token(path: Path) -> str:
    """The token of the node of this user, or an empty text when there is none or it cannot be read."""
    try:
        return stored_token(path) or ""
    except (OSError, NodeError):
        return ""


def check_bearer(header: str | None, token: str) -> None:
    """Raises NotAuthorized unless an Authorization header carries `token` (compared in constant time)."""
    scheme, _, given = (header or "").partition(" ")
    if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode()):
        return
    what = "is wrong" if header else "is missing"
    raise NotAuthorized(
        f"The bearer token {what}.",
        hint="Send `Authorization: Bearer TOKEN`; `meshllm doctor` says which file holds it.",
    )


def stored_token(path: Path) -> str | None:
    """The token in the file, None when there is no file. Raises OSError, NodeError for other content."""
    try:
        with path.open("rb") as file:
            _close_to_others(path, file.fileno())
            text = file.read(TOKEN_LIMIT).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    if not _FORM.fullmatch(text):
        raise NodeError(f"{path} does not hold a token.", hint="Delete the file and start the node again.")
    return text


def _close_to_others(path: Path, descriptor: int) -> None:
    """A token that a backup or a copy made readable becomes private again."""
    if os.name == "posix" and os.fstat(descriptor).st_mode & 0o077:
        with contextlib.suppress(PermissionError):
            path.chmod(0o600)


def _create(path: Path) -> None:
    """Writes a new token beside `path` and links it there: it appears whole, and the first one stays."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            _place(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _place(beside: Path, path: Path) -> None:
    """Gives the file its name unless somebody was faster. Some file systems know no hard links."""
    try:
        path.hardlink_to(beside)
    except FileExistsError:
        raise
    except OSError:
        beside.rename(path)
