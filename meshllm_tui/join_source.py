"""What a person put into the join box -> the invite's token: pasted text, a text file, a picture of the code.

No Textual here. Reads files and may take a while: call it from a thread.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from meshllm_core.errors import TokenInvalid

DecodePicture = Callable[[Path], str]
"""The text of the QR code in a picture. Raises MeshError."""

ScanCamera = Callable[[Callable[[], bool]], str]
"""The text of the invite's code before the camera; stops when what it is given says so. Raises MeshError."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Ways to an invite that need more than this package has; None: they are not there."""

    decode_picture: DecodePicture | None = None
    scan_camera: ScanCamera | None = None


PICTURES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff"})
BOX_LIMIT = 4096
"""Characters that the box takes."""
FILE_LIMIT = 16 * 1024
"""Bytes of a text file."""


def token_from(text: str, decode_picture: DecodePicture | None = None) -> str:
    """The token, in its canonical form. Raises TokenInvalid naming what is wrong, MeshError for pictures."""
    from meshllm_core.discovery.token import decode, encode

    path = _file_meant(text)
    if path is not None:
        text = _picture(path, decode_picture) if path.suffix.lower() in PICTURES else _text_of(path)
    return encode(decode(text))


def _file_meant(text: str) -> Path | None:
    """The file that is named, if there is one of that name here."""
    name = text.strip().strip("\"'").removeprefix("file://")
    if not name or len(name) > 1000 or "\0" in name or name.upper().startswith("MESHLLM:"):
        return None
    path = Path(name)
    try:
        path = path.expanduser()
        found = path.is_file()
    except (OSError, RuntimeError):
        found = False
    if not found and ("/" in name or path.suffix.lower() in PICTURES or path.suffix.lower() == ".txt"):
        raise TokenInvalid(f"There is no file {path}.", hint="Check its name, or paste the invite itself.")
    return path if found else None


def _picture(path: Path, decode_picture: DecodePicture | None) -> str:
    if decode_picture is None:
        raise TokenInvalid(
            "Pictures cannot be read here.", hint=f"Leave with Ctrl+Q and run `meshllm join {path}`."
        )
    return decode_picture(path)


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_LIMIT + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise TokenInvalid(f"{path} cannot be read: {reason}.", hint="Paste the invite itself.") from error
    if len(raw) > FILE_LIMIT:
        raise TokenInvalid(
            f"{path} is larger than {FILE_LIMIT // 1024} KiB: no invite is so long.",
            hint="Name the file that `meshllm invite` wrote, or paste the invite itself.",
        )
    return raw.decode("utf-8", "replace")
