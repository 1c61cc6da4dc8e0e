"""`meshllm config`: every key, its value, and where that came from."""

import os
from pathlib import Path
from typing import Annotated

import typer

from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.options import AsJson, ConfigFile
from meshllm_core.cli.output import emit, emit_json, table
from meshllm_core.config import KEYS, Key, Settings, load_settings
from meshllm_core.config_text import example, literal
from meshllm_core.paths import default_paths

Example = Annotated[bool, typer.Option("--example", help="Print a config.toml that documents every key.")]


def config(as_json: AsJson = False, example_wanted: Example = False, config_file: ConfigFile = None) -> None:
    """Show every setting, its value and where that came from."""
    if example_wanted:
        # As JSON it is still one document, with the text in it.
        if as_json:
            emit_json({"example": example()})
        else:
            emit(example())
        return
    paths = default_paths()
    settings = load_settings(paths, environ=os.environ, config_file=config_file)
    file = config_file or Path(os.environ.get("MESHLLM_CONFIG") or paths.config_file)
    for warning in settings.warnings:
        say(f"warning: {warning}")
    if as_json:
        emit_json({"config_file": str(file), "settings": [_document(row, settings) for row in KEYS]})
        return
    missing = "" if file.exists() else " (does not exist; `meshllm config --example` prints one)"
    say(f"{file}{missing}")
    rows = [(row.name, shown(row, settings), str(settings.source(row.name)), row.help) for row in KEYS]
    emit(table(("key", "value", "from", "meaning"), rows))


def shown(row: Key, settings: Settings) -> str:
    """The value as in config.toml; a secret only whether there is one."""
    value = getattr(settings, row.name)
    return ("(set, hidden)" if value else '""') if row.secret else literal(value)


def _document(row: Key, settings: Settings) -> dict[str, object]:
    value = getattr(settings, row.name)
    source = settings.source(row.name)
    return {
        "key": row.name,
        "value": bool(value) if row.secret else value,
        "hidden": row.secret,
        "default": row.default,
        "source": source.kind,
        "from": source.detail,
        "allowed": row.allowed,
        "flag": row.flag,
        "variable": row.variable,
        "help": row.help,
    }
