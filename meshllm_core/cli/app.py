"""The table of commands. Only the module of the command that was given is imported."""

from importlib import import_module
from typing import Annotated

import typer

from meshllm_core.cli.output import emit
from meshllm_core.errors import ConfigError

COMMANDS = {
    "serve": "meshllm_core.cli.serve:serve",
    "client": "meshllm_core.cli.serve:client",
    "status": "meshllm_core.cli.status:status",
    "stop": "meshllm_core.cli.control:stop",
    "pause": "meshllm_core.cli.lending:pause",
    "resume": "meshllm_core.cli.lending:resume",
    "load": "meshllm_core.cli.control:load",
    "unload": "meshllm_core.cli.control:unload",
    "chat": "meshllm_core.cli.chat:chat",
    "connect": "meshllm_core.cli.apps:connect",
    "models": "meshllm_core.cli.models:app",
    "stages": "meshllm_core.cli.stages:app",
    "package": "meshllm_core.cli.package:app",
    "invite": "meshllm_core.cli.invite:invite",
    "join": "meshllm_core.cli.join:join",
    "approve": "meshllm_core.cli.approve:approve",
    "refuse": "meshllm_core.cli.approve:refuse",
    "members": "meshllm_core.cli.members:members",
    "invites": "meshllm_core.cli.members:invites",
    "revoke": "meshllm_core.cli.revoke:revoke",
    "block": "meshllm_core.cli.block:block",
    "unblock": "meshllm_core.cli.block:unblock",
    "leave": "meshllm_core.cli.revoke:leave",
    "id": "meshllm_core.cli.identity:identity",
    "owner": "meshllm_core.cli.owner:app",
    "discover": "meshllm_core.cli.discover:discover",
    "public": "meshllm_core.cli.public:app",
    "plan": "meshllm_core.cli.plan:plan",
    "gpus": "meshllm_core.cli.gpus:gpus",
    "bench": "meshllm_core.cli.bench:app",
    "certify": "meshllm_core.cli.certify:certify",
    "doctor": "meshllm_core.cli.doctor:app",
    "config": "meshllm_core.cli.config:config",
    "keys": "meshllm_core.cli.keys:keys",
    "logs": "meshllm_core.cli.logs:logs",
    "web": "meshllm_core.cli.web:web",
    "record": "meshllm_core.cli.record:record",
    "replay": "meshllm_core.cli.replay:replay",
}
"""Name -> module:attribute, in the order of the help. An attribute is a function or a typer.Typer."""

_HELP = """Turn a few unequal machines into one OpenAI-compatible endpoint.

Without a command: the dashboard, of the running node or of one that is started for it.
"""
_CODES = (
    "Exit codes: 0 success, 1 a fault in meshllm, 2 wrong command line or configuration, 3 model, 4 engine, "
    "5 request refused, 6 node or port, 7 a check fell short, 8 mesh, 130 interrupted."
)


def run_app(arguments: list[str], *, completing: bool = False) -> int:
    """Parses and runs; returns the exit code."""
    # Where an option stands before the command, as in `meshllm -h serve`, all commands are listed.
    first = arguments[0] if arguments else ""
    app = build_app() if completing or first not in COMMANDS else build_app(only=first)
    try:
        app(args=arguments, prog_name="meshllm")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    return 0


def build_app(only: str = "") -> typer.Typer:
    """The application with all commands, or with one."""
    app = typer.Typer(
        help=_HELP,
        epilog=_CODES,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(_root)
    for name, place in COMMANDS.items():
        if only and name != only:
            continue
        module, _, attribute = place.partition(":")
        command = getattr(import_module(module), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        from meshllm_core import __version__

        emit(f"meshllm {__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Without the dashboard: the node's status as one JSON document.")
    ] = False,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain",
            help="Without the dashboard: sentences, then a line for each change; for screen readers.",
        ),
    ] = False,
) -> None:
    """Replaced by the help of the application."""
    if not as_json and not plain:
        return
    command = context.invoked_subcommand
    if command is not None and as_json:
        raise ConfigError("--json stands before the command.", hint=f"Write `meshllm {command} --json`.")
    if command is not None:
        hint = f"Write `meshllm {command}`: commands write lines anyway."
        raise ConfigError("--plain is for the dashboard, without a command.", hint=hint)
    from meshllm_core.cli.dashboard import dashboard

    raise typer.Exit(dashboard(as_json=as_json, plain=plain))
