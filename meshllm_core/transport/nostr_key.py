"""The key that publishes to Nostr relays: of another kind than the node's, and replaceable at any time."""

import re
import secrets
from pathlib import Path

from meshllm_core.errors import DiscoveryError
from meshllm_core.identity import private_file
from meshllm_core.paths import Paths

_FORM = re.compile(r"[0-9a-f]{64}")
_BYTES_READ = 256


def key_file(paths: Paths) -> Path:
    """Where the key is kept, readable by its owner only."""
    return paths.data / "nostr.key"


def load_or_make(path: Path) -> str:
    """The key as 64 hex digits; made when there is none. Raises DiscoveryError."""
    try:
        with path.open("rb") as file:
            text = file.read(_BYTES_READ).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return rotate(path)
    except OSError as error:
        raise DiscoveryError(
            f"Cannot read the Nostr key {path}: {error.strerror}.", hint="Check the file's permissions."
        ) from None
    if not _FORM.fullmatch(text):
        raise DiscoveryError(
            f"{path} does not hold a Nostr key.", hint="Make a new one with `meshllm public rotate-key`."
        )
    return text


def rotate(path: Path) -> str:
    """Puts a new key in the place of what was there and returns it. Raises DiscoveryError."""
    key = secrets.token_hex(32)
    try:
        private_file.replace(path, f"{key}\n".encode("ascii"))
    except OSError as error:
        raise DiscoveryError(
            f"Cannot write the Nostr key {path}: {error.strerror}.",
            hint="Check the folder's permissions and that the disk is not full.",
        ) from None
    return key
