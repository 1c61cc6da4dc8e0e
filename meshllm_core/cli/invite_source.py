"""Where an invite comes from: typed, in a file, in a picture, on standard input, before a camera."""

import codecs
import os
import re
import sys
from pathlib import Path

from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.picture import FILE_LIMIT, is_picture, token_in_picture
from meshllm_core.discovery.token import decode, encode
from meshllm_core.errors import ConfigError, TokenInvalid

STDIN = "-"

_TOKEN = re.compile(r"meshllm:", re.IGNORECASE)
_FILE_NAME = re.compile(r"[/\\~]|\.[A-Za-z]\w{1,4}$")


def invite_from(argument: str) -> str:
    """The token, in its usual form, that `argument` is, names a file or picture with, or `-` stands for.

    Raises TokenInvalid for an invite that cannot be read, ConfigError for a file.
    """
    return encode(decode(_text(argument)))


def invite_from_camera() -> str:
    """The token of the code before the camera. Raises ConfigError, TokenInvalid."""
    from meshllm_core.cli.camera import read_token_from_camera

    say("Hold the QR code before the camera.")
    return encode(decode(read_token_from_camera()))


def _text(argument: str) -> str:
    if argument == STDIN:
        if sys.stdin.isatty():
            say("Paste the invite, then press Enter and Ctrl+D.")
        return _read(sys.stdin.buffer.read(FILE_LIMIT + 1), "standard input")
    if _TOKEN.search(argument):
        return argument
    path = Path(argument).expanduser() if len(os.fsencode(argument)) < 4096 and "\0" not in argument else None
    try:
        if path is not None and path.is_file():
            with path.open("rb") as file:
                return _read(file.read(FILE_LIMIT + 1), argument)
    except OSError as error:
        raise ConfigError(
            f"Cannot read {argument}: {error.strerror}.", hint="Check the path and its permissions."
        ) from None
    if path is not None and path.is_dir():
        raise ConfigError(f"{argument} is a folder.", hint="Give the file or picture in it with the invite.")
    if _FILE_NAME.search(argument):
        raise ConfigError(
            f"There is no file {argument[:200]}.", hint="Check the path; an invite starts with MESHLLM:."
        )
    return argument


def _read(raw: bytes, name: str) -> str:
    if is_picture(raw):
        return token_in_picture(raw, name)
    # What PowerShell's redirection writes.
    encoding = "utf-16" if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    text = raw.decode(encoding, "replace")
    if not text.strip():
        raise TokenInvalid(f"There is no invite in {name}: it is empty.", hint="Make one: `meshllm invite`.")
    return text
