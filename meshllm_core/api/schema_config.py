"""The public JSON of the settings: every key, its value, where that comes from, and how to change it."""

from typing import Annotated, Literal

import msgspec

Effect = Literal["next_start", "none", "dashboard"]
"""When a change counts: from the node's next start; not at all; when the dashboard is opened."""

KeyName = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class ConfigArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`config` has no parameters."""


class ConfigureArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `configure`."""

    key: KeyName
    value: Annotated[str, msgspec.Meta(max_length=300_000)] | None = None
    """As in a variable of the environment: true or false, a number, a text; lists by commas.
    Absent: back to the default."""


class ConfigRow(msgspec.Struct, frozen=True, kw_only=True):
    """One key. Values are written as in config.toml; those of secrets never leave the node."""

    key: str
    section: str
    help: str
    kind: Literal["boolean", "integer", "number", "text", "list"]
    allowed: str
    """The values it takes, in words."""
    choices: tuple[str, ...]
    """All values it takes; empty: others."""
    default: str
    value: str
    """What this node runs with."""
    text: str
    """`next_value` as `configure` takes it; empty for a secret."""
    secret: bool
    source: Literal["default", "file", "environment", "flag"]
    origin: str
    """path:line, the variable or the flag; empty for a default."""
    variable: str
    flag: str
    next_value: str
    """What the node runs with once it is started again in the same way."""
    in_file: bool
    """Whether config.toml names it."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `config`."""

    file: str
    exists: bool
    problem: str
    """Why the file, as it is now, would not be accepted; empty when all is well."""
    rows: tuple[ConfigRow, ...]


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `configure`."""

    key: str
    file: str
    next_value: str
    effect: Effect
    words: str
    """When it counts, as a sentence."""
