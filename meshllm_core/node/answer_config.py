"""The settings of this run, and of the next: every key with its value and where that comes from."""

import asyncio
import os
import tomllib
from collections.abc import Mapping

from meshllm_core.api.schema_config import Config, ConfigArguments, ConfigRow, Configured, Effect
from meshllm_core.config import KEYS, Key, Settings, check_config, read_config
from meshllm_core.config_edit import reset_key, set_key
from meshllm_core.config_keys import Value
from meshllm_core.config_text import literal
from meshllm_core.errors import ConfigError
from meshllm_core.node.answers import NodeParts

OF_THE_DASHBOARD = frozenset({"theme", "keys", "mouse"})
"""Keys that the node itself does not read."""
HIDDEN = "(set, hidden)"


async def config(parts: NodeParts, _: ConfigArguments) -> Config:
    """All keys, in the table's order. A file that is wrong now is told, not raised."""
    return await asyncio.to_thread(_read, parts, os.environ)


async def configure(parts: NodeParts, key: str, value: str | None) -> Configured:
    """Writes one key into config.toml; None takes it out. Raises ConfigError."""
    return await asyncio.to_thread(_write, parts, key, value, os.environ)


def _read(parts: NodeParts, environ: Mapping[str, str]) -> Config:
    file = parts.settings.file or parts.paths.config_file
    problem, after, named = "", parts.settings, set[str]()
    try:
        text = read_config(file)
        after = check_config(file, text or "", environ)
        named = set(tomllib.loads(text or ""))
    except ConfigError as error:
        text, problem = "", str(error)
    return Config(
        file=str(file),
        exists=text is not None,
        problem=problem,
        rows=tuple(_row(key, parts.settings, after, in_file=key.name in named) for key in KEYS),
    )


def _row(key: Key, now: Settings, after: Settings, *, in_file: bool) -> ConfigRow:
    source, value = now.source(key.name), getattr(now, key.name)
    return ConfigRow(
        key=key.name,
        section=key.section,
        help=key.help,
        kind=key.kind,
        allowed=key.allowed,
        choices=("true", "false") if key.kind == "boolean" else _choices(key),
        default=literal(key.default),
        value=_shown(key, value),
        text="" if key.secret else _text(_next(key, now, after)),
        secret=key.secret,
        source=source.kind,
        origin=source.detail,
        variable=key.variable,
        flag=key.flag,
        next_value=_shown(key, _next(key, now, after)),
        in_file=in_file,
    )


def _choices(key: Key) -> tuple[str, ...]:
    return key.choices if key.kind == "text" else ()


def _next(key: Key, now: Settings, after: Settings) -> Value:
    """A flag wins again where the node is started with the same ones."""
    of = now if now.source(key.name).kind == "flag" else after
    value: Value = getattr(of, key.name)
    return value


def _shown(key: Key, value: Value) -> str:
    return (HIDDEN if value else '""') if key.secret else literal(value)


def _text(value: Value) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case tuple():
            return ", ".join(value)
        case _:
            return literal(value) if isinstance(value, float) else str(value)


def _write(parts: NodeParts, name: str, value: str | None, environ: Mapping[str, str]) -> Configured:
    settings, file = parts.settings, parts.settings.file or parts.paths.config_file
    after = reset_key(file, name, environ) if value is None else set_key(file, name, value, environ)
    row = next(key for key in KEYS if key.name == name)
    shown, source = _shown(row, _next(row, settings, after)), settings.source(name)
    over = after.source(name) if after.source(name).kind == "environment" else source
    effect: Effect = "next_start"
    if over.kind in ("environment", "flag"):
        effect = "none"
        words = f"Written, but {over.detail or over.kind} wins over the file: {name} stays {shown}."
    elif name in OF_THE_DASHBOARD:
        effect, words = "dashboard", f"{name} is {shown} from the dashboard's next start on."
    elif _next(row, settings, after) == getattr(settings, name):
        words = f"{name} is {shown}, as the node runs already."
    else:
        words = f"{name} is {shown} from the node's next start."
    return Configured(key=name, file=str(file), next_value=shown, effect=effect, words=words)
