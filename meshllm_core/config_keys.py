"""What one key of the configuration is, and the checks every value passes wherever it comes from."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar, cast

from meshllm_core.errors import ConfigError

T = TypeVar("T")
Kind = Literal["boolean", "integer", "number", "text", "list"]
Value = bool | int | float | str | tuple[str, ...]

TEXT_LIMIT = 4096
"""Characters in one text value."""
LIST_LIMIT = 64
"""Entries in one list value."""

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_KIND_WORDS = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "text": "text",
    "list": "a list of texts",
}


@dataclass(frozen=True)
class Key:
    """One row of the table of keys."""

    name: str
    """As in config.toml and as the attribute of Settings."""
    kind: Kind
    default: Value
    help: str
    """One line; says what the special values mean."""
    section: str
    """Heading under which the documented example lists it."""
    flag: str
    """Option of `meshllm serve`, or empty."""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    """Regular expression that a text must match whole."""
    pattern_words: str = ""
    """What `pattern` asks for, in words."""
    secret: bool = False
    """Never shown in full."""

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"MESHLLM_{self.name.upper()}"

    @property
    def allowed(self) -> str:
        """The values it takes, in words."""
        if self.choices:
            return " | ".join(self.choices)
        if self.minimum is not None and self.maximum is not None:
            return f"{_KIND_WORDS[self.kind]} from {self.minimum:,.10g} to {self.maximum:,.10g}"
        return self.pattern_words or _KIND_WORDS[self.kind]


def key(
    default: T,
    help: str,
    *,
    section: str,
    flag: str = "",
    allowed: tuple[float, float] | None = None,
    choices: tuple[str, ...] = (),
    pattern: tuple[str, str] = ("", ""),
    secret: bool = False,
) -> T:
    """A dataclass field that is also a row of the table. `pattern` is (expression, its words)."""
    row = {
        "help": help,
        "section": section,
        "flag": flag,
        "minimum": allowed[0] if allowed else None,
        "maximum": allowed[1] if allowed else None,
        "choices": choices,
        "pattern": pattern[0],
        "pattern_words": pattern[1],
        "secret": secret,
    }
    return field(default=default, repr=not secret, metadata=row)


def keys_of(settings: type[Any]) -> tuple[Key, ...]:
    """The table: one row for each field of a dataclass that `key` made."""
    return tuple(
        Key(name=f.name, kind=_kind(f.default), default=cast(Value, f.default), **f.metadata)
        for f in fields(settings)
        if "help" in f.metadata
    )


def _kind(default: object) -> Kind:
    match default:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "text"
        case _:
            return "list"


def check_value(key: Key, value: object, where: str) -> Value:
    """`value` as the key's type. `where` names its origin. Raises ConfigError."""
    match key.kind:
        case "boolean":
            if isinstance(value, bool):
                return value
        case "integer":
            if isinstance(value, int) and not isinstance(value, bool):
                return int(_in_range(key, value, where))
        case "number":
            if isinstance(value, int | float) and not isinstance(value, bool):
                return float(_in_range(key, value, where))
        case "text":
            if isinstance(value, str):
                return _text(key, value, where)
        case "list":
            if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
                return _list(key, value, where)
    raise _wrong(key, value, where)


def parse_text(key: Key, text: str, where: str) -> Value:
    """The value that an environment variable's text means. Raises ConfigError."""
    word = text.strip()
    try:
        match key.kind:
            case "boolean":
                if word.lower() in _TRUE | _FALSE:
                    return word.lower() in _TRUE
                raise _wrong(key, text, where)
            case "integer":
                return check_value(key, int(word), where)
            case "number":
                return check_value(key, float(word), where)
            case "list":
                return check_value(key, [part.strip() for part in word.split(",") if part.strip()], where)
            case "text":
                return check_value(key, text, where)
    except ValueError:
        raise _wrong(key, text, where) from None


def _in_range(key: Key, value: float, where: str) -> float:
    low, high = key.minimum, key.maximum
    if low is None or high is None or (math.isfinite(value) and low <= value <= high):
        return value
    raise ConfigError(
        f"{where}: {key.name} is {value:.10g}, outside its range.", hint=f"Use {key.allowed}.", param=key.name
    )


def _text(key: Key, value: str, where: str) -> str:
    if len(value) > TEXT_LIMIT or any(ord(character) < 32 for character in value):
        raise ConfigError(
            f"{where}: {key.name} is too long or holds control characters.",
            hint=f"Use {key.allowed}, at most {TEXT_LIMIT} characters.",
            param=key.name,
        )
    bad_choice = key.choices and value not in key.choices
    if bad_choice or (key.pattern and not re.fullmatch(key.pattern, value)):
        raise _wrong(key, value, where)
    return value


def _list(key: Key, value: Sequence[Any], where: str) -> tuple[str, ...]:
    if len(value) > LIST_LIMIT:
        raise ConfigError(
            f"{where}: {key.name} has {len(value)} entries.",
            hint=f"Use at most {LIST_LIMIT}.",
            param=key.name,
        )
    for item in value:
        if not item.strip():
            raise ConfigError(f"{where}: {key.name} has an empty entry.", hint="Remove it.", param=key.name)
        _text(key, item, where)
    return tuple(value)


def _wrong(key: Key, value: object, where: str) -> ConfigError:
    wrong = "has a wrong value, not shown here" if key.secret else f"is {repr(value)[:80]}"
    return ConfigError(f"{where}: {key.name} {wrong}.", hint=f"Use {key.allowed}.", param=key.name)
