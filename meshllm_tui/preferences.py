"""How a person wants the dashboard: colours, keys, mouse. Their files are read and checked here. No Textual.

A theme file is TOML: `dark = true`, then a colour `"#rrggbb"` for each field of `Palette`. A key map is TOML
too: an action's id and its keys, `"models.unload" = "ctrl+u"`; `meshllm keys` lists the ids.
"""

import re
import tomllib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from meshllm_core.errors import ConfigError
from meshllm_tui.actions.action import ANYWHERE, PAGE
from meshllm_tui.actions.registry import ACTIONS
from meshllm_tui.palettes import BUILT_IN, DEFAULT_THEME, Palette

FILE_LIMIT = 64 * 1024
"""Bytes of a theme or a key map."""
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
_KEY = re.compile(r"(?:ctrl\+|alt\+|shift\+)*(?:[a-zA-Z0-9]|f[1-9]|f1[0-9]|f2[0-4]|([a-z_]{2,30}))")
_NAMED = frozenset(("enter", "tab", "space", "backspace", "delete", "insert", "home", "end", "pageup"))
_NAMED |= {"up", "down", "left", "right", "escape", "slash", "backslash", "at", "minus", "plus", "underscore"}
_NAMED |= {"pagedown", "less_than_sign", "greater_than_sign"}
_TAKEN = frozenset({"ctrl+c", "ctrl+p", "escape"})
"""Copying, the palette and one step back are promised on every screen."""


@dataclass(frozen=True)
class Preferences:
    """Of one person, checked."""

    theme: str = DEFAULT_THEME
    """Name of a built-in theme, or of `own`."""
    own: tuple[str, Palette, bool] | None = None
    """A theme from a file: name, colours, whether it is dark."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys by an action's id, as Textual names them, separated by commas."""
    mouse: bool = True
    """False: the terminal keeps the mouse, to select text as anywhere else."""


def read_preferences(theme: str, key_map: str, mouse: bool) -> Preferences:
    """`theme` is a name or a file, `key_map` a file or empty. Raises ConfigError."""
    keys = _read_keys(Path(key_map).expanduser()) if key_map else {}
    if theme in BUILT_IN:
        return Preferences(theme=theme, keys=keys, mouse=mouse)
    if not theme.endswith(".toml"):
        raise ConfigError(
            f"There is no theme {theme!r}.", hint=f"Take one of {', '.join(BUILT_IN)}, or a .toml file."
        )
    own = _read_theme(Path(theme).expanduser())
    return Preferences(theme=own[0], own=own, keys=keys, mouse=mouse)


def _read(file: Path, what: str) -> dict[str, Any]:
    try:
        with file.open("rb") as source:
            raw = source.read(FILE_LIMIT + 1)
    except OSError as error:
        raise ConfigError(
            f"The {what} {file} cannot be read: {error.strerror}.", hint="Correct its path, or remove it."
        ) from error
    if len(raw) > FILE_LIMIT:
        raise ConfigError(f"The {what} {file} is larger than {FILE_LIMIT // 1024} KiB.", hint="Shorten it.")
    try:
        return tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"The {what} {file} is not TOML: {error}.", hint="Correct that line.") from error


def _read_theme(file: Path) -> tuple[str, Palette, bool]:
    given = _read(file, "theme")
    names = [each.name for each in fields(Palette)]
    dark = given.pop("dark", True)
    if not isinstance(dark, bool):
        raise ConfigError(f"The theme {file} has dark = {dark!r}.", hint="Write true or false.")
    if unknown := sorted(set(given) - set(names)):
        raise ConfigError(
            f"The theme {file} names {unknown[0]!r}.", hint=f"A theme has {', '.join(names)} and dark."
        )
    for name in names:
        value = given.get(name)
        if not isinstance(value, str) or not _COLOUR.fullmatch(value):
            said = "has no" if value is None else f"has {value!r} for"
            raise ConfigError(f"The theme {file} {said} {name}.", hint='Write a colour as "#rrggbb".')
    return file.stem, Palette(**given), dark


def _read_keys(file: Path) -> dict[str, str]:
    known = {action.id: action for action in ACTIONS}
    keys: dict[str, str] = {}
    for name, value in _flat(_read(file, "key map")).items():
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise ConfigError(
                f"The key map {file} names {name!r}, and there is no such action.",
                hint=f"{hint}`meshllm keys` lists them.",
            )
        parts = [each.strip() for each in value.split(",")] if isinstance(value, str) else []
        wrong = next((each for each in parts if not _is_key(each) or each in _TAKEN), None)
        if not parts or wrong is not None:
            shown = value if wrong is None else wrong
            raise ConfigError(
                f"The key map {file} gives {name} the key {shown!r}.",
                hint="Write keys such as u, ctrl+u, f5; ctrl+c, ctrl+p and escape stay as they are.",
            )
        keys[name] = ",".join(parts)
    _check_clashes(file, keys)
    return keys


def _is_key(text: str) -> bool:
    """A key as Textual names it: a letter, f5, pageup, question_mark; before it ctrl+, alt+ or shift+."""
    found = _KEY.fullmatch(text)
    if found is None or found[1] is None or found[1] in _NAMED:
        return found is not None
    try:
        unicodedata.lookup(found[1].replace("_", " "))
    except KeyError:
        return False
    return True


def _flat(table: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """`[models] unload = …` is the same as `"models.unload" = …`."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        found |= _flat(value, f"{before}{name}.") if isinstance(value, dict) else {before + name: value}
    return found


def _check_clashes(file: Path, keys: Mapping[str, str]) -> None:
    """No key means two things in one place, with those that work everywhere."""
    for place in {action.place for action in ACTIONS}:
        owner: dict[str, str] = {}
        for action in ACTIONS:
            if action.place not in (place, ANYWHERE, PAGE):
                continue
            for key in filter(None, keys.get(action.id, action.keys).split(",")):
                if key in owner and {action.id, owner[key]} & set(keys):
                    raise ConfigError(
                        f"With the key map {file} the key {key} means {owner[key]} and {action.id}.",
                        hint="Give one of them another key.",
                    )
                owner[key] = action.id
