"""The hash of a file."""

import hashlib
from collections.abc import Callable
from pathlib import Path

_BLOCK = 1 << 20


def sha256_of(file: Path, on_progress: Callable[[int], None] = lambda done: None) -> str:
    """In hexadecimal; `on_progress` gets the bytes read so far. Blocks; raises OSError."""
    digest, done, buffer = hashlib.sha256(), 0, memoryview(bytearray(_BLOCK))
    with file.open("rb", buffering=0) as stream:
        while count := stream.readinto(buffer):
            digest.update(buffer[:count])
            done += count
            on_progress(done)
    return digest.hexdigest()
