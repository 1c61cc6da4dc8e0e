"""The configuration: one table of keys, read from defaults, config.toml, the environment and flags.

Later sources win: default < config.toml < environment < flag. Every value remembers where it came from.
"""

import ipaddress
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from meshllm_core.config_keys import Key, Value, check_value, parse_text
from meshllm_core.config_table import KEYS, KEYS_BY_NAME, Settings, Source
from meshllm_core.errors import ConfigError
from meshllm_core.paths import Paths

__all__ = ["KEYS", "KEYS_BY_NAME", "Key", "Settings", "Source", "base_url", "is_loopback", "load_settings"]

FILE_LIMIT = 1 << 20
"""Bytes of config.toml that are read at most."""
OTHER_VARIABLES = frozenset(
    {"MESHLLM_HOME", "MESHLLM_CONFIG", "MESHLLM_TEST_MODEL", "MESHLLM_VENV", "MESHLLM_ACCELERATOR"}
    | {"MESHLLM_BENCH_API_KEY", "MESHLLM_WHEEL_CACHE", "MESHLLM_PYTHON", "MESHLLM_OWNER_PASSPHRASE"}
)
"""Variables of our own that are not keys: they say where things are, or speak to the installer."""


def load_settings(
    paths: Paths,
    *,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    config_file: Path | None = None,
) -> Settings:
    """The settings of this run. `flags` maps names of keys to values; None means "not given".

    `config_file` must exist when given; $MESHLLM_CONFIG likewise; the default file need not.
    Raises ConfigError naming the key, the line and the nearest right name.
    """
    environ = environ if environ is not None else {}
    values: dict[str, Value] = {}
    sources: dict[str, Source] = {}
    file, named = file_of_config(paths, environ, config_file)
    text = read_config(file, required=named)
    if text is not None:
        _take_file(file, text, values, sources)
    warnings = _read_environment(environ, values, sources)
    for name, value in (flags or {}).items():
        if value is None:
            continue
        row = KEYS_BY_NAME.get(name)
        if row is None:
            raise unknown_key(name, "command line")
        values[name] = check_value(row, value, row.flag or "command line")
        sources[name] = Source("flag", row.flag)
    typed: dict[str, Any] = dict(values)
    settings = Settings(**typed, sources=sources, warnings=warnings, file=file)
    _check_together(settings)
    return settings


def file_of_config(paths: Paths, environ: Mapping[str, str], given: Path | None = None) -> tuple[Path, bool]:
    """Which config.toml counts, and whether somebody named it."""
    named = given or (Path(environ["MESHLLM_CONFIG"]) if environ.get("MESHLLM_CONFIG") else None)
    return named or paths.config_file, named is not None


def check_config(file: Path, text: str, environ: Mapping[str, str]) -> Settings:
    """The settings of a run with `text` as its config.toml, and no flags. Raises ConfigError."""
    values: dict[str, Value] = {}
    sources: dict[str, Source] = {}
    _take_file(file, text, values, sources)
    warnings = _read_environment(environ, values, sources)
    typed: dict[str, Any] = dict(values)
    settings = Settings(**typed, sources=sources, warnings=warnings, file=file)
    _check_together(settings)
    return settings


def unknown_key(name: str, where: str) -> ConfigError:
    """The error for a key that does not exist, with the nearest one that does."""
    from difflib import get_close_matches

    near = get_close_matches(name.lower().replace("-", "_"), KEYS_BY_NAME, n=1, cutoff=0.6)
    hint = f"Did you mean {near[0]}?" if near else "`meshllm config` lists all keys."
    return ConfigError(f"{where}: there is no key {name[:80]!r}.", hint=hint, param=name[:80])


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def base_url(host: str, port: int) -> str:
    """The address at which a program on this machine reaches a server that listens on `host`."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def read_config(path: Path, *, required: bool = False) -> str | None:
    """The file's text; None where there is none and it is not `required`. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_LIMIT + 1)
    except FileNotFoundError:
        if required:
            raise ConfigError(
                f"There is no configuration file {path}.", hint="`meshllm config --example` prints one."
            ) from None
        return None
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.", hint="Check its permissions.") from None
    if len(raw) > FILE_LIMIT:
        raise ConfigError(f"{path} is larger than 1 MiB.", hint="This is no configuration of meshllm.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text.", hint="Save the file as UTF-8.") from None


def _take_file(path: Path, text: str, values: dict[str, Value], sources: dict[str, Source]) -> None:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        twice = "overwrite" in str(error)
        hint = "Give each key once." if twice else "Texts need quotes; see `meshllm config --example`."
        raise ConfigError(f"{path}:{_error_line(str(error), text)}: {error}.", hint=hint) from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply.", hint="Keys are never nested.") from None
    for name, value in table.items():
        where = f"{path}:{_line_of(text, name)}"
        if name not in KEYS_BY_NAME:
            raise unknown_key(name, where)
        values[name] = check_value(KEYS_BY_NAME[name], value, where)
        sources[name] = Source("file", where)


def _error_line(message: str, text: str) -> int:
    """The line of a syntax error, from tomllib's message; it names none for the end of the file."""
    found = re.search(r"at line (\d+)", message)
    return int(found[1]) if found else text.count("\n") + 1


def _line_of(text: str, name: str) -> int:
    """The line on which a top-level key or table stands: tomllib does not tell."""
    quoted = re.escape(name)
    found = re.search(rf"""^[ \t]*\[*[ \t]*["']?{quoted}["']?[ \t]*[.=\]]""", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def _read_environment(
    environ: Mapping[str, str], values: dict[str, Value], sources: dict[str, Source]
) -> tuple[str, ...]:
    """Takes our variables; returns a warning for each that is close to one of ours and is not."""
    ours = {row.variable: row for row in KEYS}
    strange = [name for name in environ if name.startswith("MESHLLM_") and name not in ours]
    for variable, row in ours.items():
        text = environ.get(variable)
        if text is None or (text == "" and row.kind != "text"):
            continue
        values[row.name] = parse_text(row, text, variable)
        sources[row.name] = Source("environment", variable)
    return tuple(
        f"{name} is not a variable of meshllm and was ignored."
        for name in sorted(strange)
        if name not in OTHER_VARIABLES
    )


def _check_together(settings: Settings) -> None:
    """Rules over more than one key."""
    if not is_loopback(settings.host) and not settings.api_key and not settings.listen_without_key:
        raise ConfigError(
            f"{settings.source('host')}: host {settings.host} opens the endpoint to other machines "
            "and no api_key is set.",
            hint="Set api_key (MESHLLM_API_KEY) or use 127.0.0.1; --listen-without-key opens it to all.",
            param="host",
        )
    if settings.publish and settings.client:
        raise ConfigError(
            f"{settings.source('publish')}: a client has nothing to publish.",
            hint="Leave out --publish or --client.",
            param="publish",
        )
    same_host = settings.host == settings.console_host
    if settings.port == settings.console_port and settings.port and same_host:
        raise ConfigError(
            f"{settings.source('port')}: port and console_port are both {settings.port}.",
            hint="Give each its own.",
            param="port",
        )
