"""The hash of a file."""

import hashlib
from pathlib import Path


def sha256_of(file: Path) -> str:
    """In hexadecimal. Blocks; raises OSError."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
