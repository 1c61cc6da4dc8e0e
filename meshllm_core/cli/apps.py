"""`meshllm connect`: what a chat app has to be told to use this node."""

import os
from typing import Annotated

import typer

from meshllm_core.api.client import ManagementClient
from meshllm_core.api.schema import Status
from meshllm_core.api.snippets import ANY_MODEL, APPS, APPS_BY_NAME, KEY_VARIABLE, App, Connection
from meshllm_core.cli.connect import ask
from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.options import AsJson, Console
from meshllm_core.cli.output import clean, emit, emit_json, is_terminal, table, write
from meshllm_core.config import load_settings
from meshllm_core.errors import ConfigError, ModelUnknown
from meshllm_core.paths import default_paths

Name = Annotated[
    str, typer.Argument(metavar="APP", help=f"One of: {', '.join(APPS_BY_NAME)}. Without: the list.")
]
Model = Annotated[
    str, typer.Option("--model", metavar="NAME", help="The model to ask, if not the first that is ready.")
]


def connect(app: Name = "", model: Model = "", as_json: AsJson = False, console: Console = "") -> None:
    """Show how a chat app is connected to this node: what to run, write or fill in."""
    if app and app not in APPS_BY_NAME:
        raise ConfigError(
            f"There is no app {app[:80]!r} here.",
            hint=f"Take one of: {', '.join(APPS_BY_NAME)}. What fits the others is `meshllm connect other`.",
            param="APP",
        )
    to = ask(lambda client: _connection(client, model), console=console)
    if as_json:
        chosen = [APPS_BY_NAME[app]] if app else APPS
        emit_json(
            {"base_url": to.base_url, "model": to.model, "apps": [_document(each, to) for each in chosen]}
        )
    elif app:
        chosen_app = APPS_BY_NAME[app]
        say(chosen_app.where)
        text = chosen_app.write(to)
        write(clean(text) if is_terminal() else text)
        if to.key_wanted:
            say(f"The key is not shown: put it into the variable {KEY_VARIABLE}.")
    else:
        emit(table(("app", "name", "what to do"), [(each.title, each.name, each.where) for each in APPS]))
        say("`meshllm connect NAME` shows the text itself.")


def _document(app: App, to: Connection) -> dict[str, str]:
    return {"app": app.name, "title": app.title, "form": app.form, "where": app.where, "text": app.write(to)}


async def _connection(client: ManagementClient, model: str) -> Connection:
    status = await client.status()
    key = load_settings(default_paths(), environ=os.environ).api_key
    return Connection(f"{status.api_url.rstrip('/')}/v1", _model(status, model), bool(key))


def _model(status: Status, wanted: str) -> str:
    """Raises ModelUnknown for a name that nobody serves now."""
    ready = status.available_models
    if wanted and wanted not in ready:
        raise ModelUnknown(
            f"No machine serves {wanted[:80]!r} now.",
            hint=f"Ready are: {', '.join(ready) or 'none'}.",
            param="--model",
        )
    own = status.serving_models or ready
    return wanted or (own[0] if own else ANY_MODEL)
