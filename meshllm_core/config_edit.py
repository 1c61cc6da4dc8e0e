"""Changing one key of config.toml; comments and the order of the rest stay as they are."""

import contextlib
import errno
import os
from collections.abc import Mapping
from pathlib import Path

from meshllm_core.config import FILE_LIMIT, check_config, read_config, unknown_key
from meshllm_core.config_keys import Value, parse_text
from meshllm_core.config_table import KEYS_BY_NAME, Settings
from meshllm_core.errors import ConfigError
from meshllm_core.identity import private_file


def set_key(file: Path, name: str, text: str, environ: Mapping[str, str]) -> Settings:
    """Writes the value that `text` means, as a variable of the environment would; lists by commas.

    Returns the settings of the next run, without its flags. The file is made if there is none, readable by
    its owner alone. Raises ConfigError: no such key, a wrong value, a file that would not be accepted.
    """
    row = KEYS_BY_NAME.get(name)
    if row is None:
        raise unknown_key(name, "the settings")
    return _change(file, name, parse_text(row, text, "the new value"), environ)


def reset_key(file: Path, name: str, environ: Mapping[str, str]) -> Settings:
    """Takes the key out of the file, so that its default counts again; as `set_key`."""
    if name not in KEYS_BY_NAME:
        raise unknown_key(name, "the settings")
    return _change(file, name, None, environ)


def _change(file: Path, name: str, value: Value | None, environ: Mapping[str, str]) -> Settings:
    # It reads a file with its comments, and is needed by nothing else.
    import tomlkit

    before = read_config(file)
    if before is not None:
        # What is wrong already is told with its line, and not made worse.
        check_config(file, before, environ)
    document = tomlkit.parse(before or "")
    if value is None:
        document.pop(name, None)
    else:
        document[name] = list(value) if isinstance(value, tuple) else value
    after = tomlkit.dumps(document)
    if len(after.encode()) > FILE_LIMIT:
        raise ConfigError(f"{file} would be larger than 1 MiB.", hint="Shorten it by hand.", param=name)
    settings = check_config(file, after, environ)
    if after != (before or ""):
        _write(file, after)
    return settings


def _write(file: Path, text: str) -> None:
    # A link stays one, and a file that others may read stays so.
    target = file.resolve() if file.is_symlink() else file
    mode = None
    with contextlib.suppress(OSError):
        mode = target.stat().st_mode & 0o777
    try:
        private_file.replace(target, text.encode())
        if mode is not None and os.name == "posix":
            target.chmod(mode)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        right = "Give yourself the right to write there, or edit it as its owner."
        hint = "Free some space." if full else right
        raise ConfigError(f"Cannot write {file}: {error.strerror or error}.", hint=hint) from error
