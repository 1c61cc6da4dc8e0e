"""`meshllm serve`: its options are the rows of the configuration's table that have a flag."""

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.options import ConfigFile
from meshllm_core.cli.output import emit_json
from meshllm_core.config import KEYS, Key, load_settings
from meshllm_core.paths import default_paths

_TYPES: dict[str, Any] = {
    "boolean": bool | None,
    "integer": int | None,
    "number": float | None,
    "text": str | None,
    "list": list[str] | None,
}
_JSON = typer.Option(
    "--json", help="Without the dashboard; one JSON document on stdout as soon as the node answers."
)
_METAVARS = {"integer": "N", "number": "N", "text": "TEXT", "list": "REF"}


def _serve(**given: Any) -> None:
    """Run a node: on a terminal with the dashboard, with --headless or without a terminal in the foreground.

    Every option may also be set in config.toml or by its environment variable; `meshllm config` shows
    what holds and why.
    """
    config_file: Path | None = given.pop("config")
    as_json: bool = given.pop("as_json")
    flags = _flags(given)
    paths = default_paths()
    settings = load_settings(paths, flags=flags, environ=os.environ, config_file=config_file)
    from meshllm_core.cli.dashboard import dashboard, has_screen

    if has_screen() and not settings.headless and not as_json:
        code = dashboard(_arguments(flags, config_file), flags=flags, config_file=config_file)
        raise typer.Exit(code)
    for warning in settings.warnings:
        say(f"warning: {warning}")
    from meshllm_core.node.runtime import run

    raise typer.Exit(run(settings, paths, say, announce=emit_json if as_json else None))


def _flags(given: dict[str, Any]) -> dict[str, object]:
    """What was given, by key; files given with --gguf are models too."""
    files = [str(Path(file).expanduser().absolute()) for file in given.pop("gguf") or ()]
    models = [*(given.pop("models") or ()), *files]
    flags = {name: value for name, value in given.items() if value is not None}
    return {"models": models, **flags} if models else flags


def _arguments(flags: dict[str, object], config_file: Path | None) -> list[str]:
    """The same options again, for the node in the background."""
    arguments = ["--config", str(config_file.absolute())] if config_file else []
    for row in KEYS:
        value = flags.get(row.name)
        if value is None or row.kind == "boolean":
            continue
        for item in value if isinstance(value, list) else [value]:
            arguments += [row.flag, str(item)]
    return arguments


def _option(row: Key) -> inspect.Parameter:
    default = row.default
    shown = ", ".join(default) if isinstance(default, tuple) else f"{default}"
    known = row.variable if row.kind == "boolean" else f"{row.variable}; default {shown}"
    option = typer.Option(
        row.flag,
        help=f"{row.help} [{known}]",
        show_default=False,
        metavar=None if row.kind == "boolean" else "|".join(row.choices) or _METAVARS[row.kind],
        autocompletion=_completion(row),
    )
    return _parameter(row.name, Annotated[_TYPES[row.kind], option])


def _completion(row: Key) -> Callable[[str], list[str]] | None:
    if not row.choices:
        return None
    return lambda incomplete: [choice for choice in row.choices if choice.startswith(incomplete)]


def _parameter(name: str, annotation: Any, default: object = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Gives `function` the signature that typer reads the options from."""
    gguf = typer.Option("--gguf", metavar="PATH", help="A .gguf file to serve; may be repeated.")
    parameters = [_option(row) for row in KEYS if row.flag]
    parameters.insert(1, _parameter("gguf", Annotated[list[Path] | None, gguf]))
    parameters.append(_parameter("config", ConfigFile))
    parameters.append(_parameter("as_json", Annotated[bool, _JSON], default=False))
    signature = inspect.Signature(parameters)
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__annotations__ = {item.name: item.annotation for item in parameters}
    return function


serve = _with_options(_serve)
