"""What a disk may refuse, in words; and how a file that is not whole yet is called."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from meshllm_core.errors import StorageError

PARTIAL_SUFFIX = ".part"
"""Added to the name of a file until all of it is here and checked."""


@contextmanager
def storing(folder: Path) -> Iterator[None]:
    """Turns what a disk may refuse into StorageError."""
    try:
        yield
    except OSError as error:
        # The hub's refusals are OSErrors too, but carry no number.
        if error.errno is None:
            raise
        raise _storage_error(error, folder) from error


def _storage_error(error: OSError, folder: Path) -> StorageError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError(
            f"The disk of {folder} is full.",
            hint="Free some space (`meshllm models prune`), or set MESHLLM_HOME to a larger disk.",
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StorageError(
            f"The models folder {folder} cannot be written: {error.strerror}.",
            hint="Give yourself the right to write there, or set MESHLLM_HOME to another folder.",
        )
    return StorageError(
        f"The models folder {folder} cannot be used: {error.strerror or error}.",
        hint="Check the disk, or set MESHLLM_HOME to another folder.",
    )
