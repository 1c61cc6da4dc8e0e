"""`meshllm serve`: its options are the rows of the configuration's table that have a flag."""

import inspect
import os
from collections.abc import Callable, Sequence
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
    run_node(_flags(given), config_file, as_json=as_json)


def _client(**given: Any) -> None:
    """Join a mesh without serving: its models answer at this machine's endpoint.

    Give --join TOKEN, FILE, PICTURE or -, or --auto for a public mesh; without either, the mesh that this
    node is in already.
    """
    config_file: Path | None = given.pop("config")
    as_json: bool = given.pop("as_json")
    flags = {name: value for name, value in given.items() if value is not None}
    run_node({**flags, "client": True, "models": []}, config_file, as_json=as_json)


def run_node(flags: dict[str, object], config_file: Path | None, *, as_json: bool) -> None:
    """Serves with these settings, with the dashboard where there is a screen. Ends by typer.Exit."""
    paths = default_paths()
    settings = load_settings(paths, flags=flags, environ=os.environ, config_file=config_file)
    if settings.join:
        from meshllm_core.cli.invite_source import invite_from

        # A file's name or - may stand for the invite itself, which then never shows in a list of processes.
        flags["join"] = invite_from(settings.join)
        settings = load_settings(paths, flags=flags, environ=os.environ, config_file=config_file)
    from meshllm_core.cli.dashboard import dashboard, has_screen

    if has_screen() and not settings.headless and not as_json:
        code = dashboard(
            _arguments(flags, config_file), flags=flags, config_file=config_file, secrets=_secrets(flags)
        )
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
        if row.kind == "boolean" and value and row.name != "headless":
            arguments.append(row.flag)
        if value is None or row.kind == "boolean" or row.secret:
            continue
        for item in value if isinstance(value, list) else [value]:
            arguments += [row.flag, str(item)]
    return arguments


def _secrets(flags: dict[str, object]) -> dict[str, str]:
    """What must not stand in a list of processes, as variables for the node in the background."""
    return {row.variable: str(flags[row.name]) for row in KEYS if row.secret and flags.get(row.name)}


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


_CLIENT_KEYS = frozenset(
    {"host", "port", "console_host", "console_port", "headless", "log_level", "listen_without_key"}
)
"""What a client may set beside the keys of the mesh."""


def _with_options(
    function: Callable[..., None], rows: Sequence[Key], extra: Sequence[inspect.Parameter] = ()
) -> Callable[..., None]:
    """Gives `function` the signature that typer reads the options from."""
    parameters = [_option(row) for row in rows]
    parameters[1:1] = extra
    parameters.append(_parameter("config", ConfigFile))
    parameters.append(_parameter("as_json", Annotated[bool, _JSON], default=False))
    signature = inspect.Signature(parameters)
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__annotations__ = {item.name: item.annotation for item in parameters}
    return function


_GGUF = typer.Option("--gguf", metavar="PATH", help="A .gguf file to serve; may be repeated.")
serve = _with_options(
    _serve, [row for row in KEYS if row.flag], [_parameter("gguf", Annotated[list[Path] | None, _GGUF])]
)
client = _with_options(
    _client,
    [
        row
        for row in KEYS
        if row.flag
        and (row.name in _CLIENT_KEYS or (row.section == "Mesh" and row.name not in ("client", "publish")))
    ],
)
