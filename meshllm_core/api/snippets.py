"""How programs are told to use this node: what to run, write or fill in, for each of a few. Pure."""

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

KEY_VARIABLE: Final = "MESHLLM_API_KEY"
"""The environment variable that holds the endpoint's key. The key itself is never written out."""
NO_KEY: Final = "none"
"""For programs that insist on a key where the endpoint asks for none; any text would do."""
ANY_MODEL: Final = "auto"
"""The model's name where no model is ready: the node takes what it has."""

Form = Literal["sh", "python", "yaml", "json", "fields"]


@dataclass(frozen=True)
class Connection:
    """What a program has to know."""

    base_url: str
    """With /v1."""
    model: str = ANY_MODEL
    key_wanted: bool = False
    """The endpoint asks for a key, which is in $MESHLLM_API_KEY."""


@dataclass(frozen=True)
class App:
    """A program that can be connected."""

    name: str
    """As the command line takes it."""
    title: str
    form: Form
    where: str
    """One sentence: where the text belongs."""
    write: Callable[[Connection], str]


def _curl(to: Connection) -> str:
    body = {"model": to.model, "messages": [{"role": "user", "content": "Say hello."}]}
    lines = [f"curl {shlex.quote(to.base_url + '/chat/completions')}"]
    if to.key_wanted:
        lines.append(f'-H "Authorization: Bearer ${KEY_VARIABLE}"')
    lines += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(json.dumps(body))}"]
    return " \\\n  ".join(lines) + "\n"


def _openai(to: Connection) -> str:
    key = f'os.environ["{KEY_VARIABLE}"]' if to.key_wanted else json.dumps(NO_KEY)
    return (
        ("import os\n\n" if to.key_wanted else "")
        + "from openai import OpenAI\n\n"
        + f"client = OpenAI(base_url={json.dumps(to.base_url)}, api_key={key})\n"
        + "answer = client.chat.completions.create(\n"
        + f"    model={json.dumps(to.model)},\n"
        + '    messages=[{"role": "user", "content": "Say hello."}],\n'
        + ")\n"
        + "print(answer.choices[0].message.content)\n"
    )


def _shell_key(to: Connection) -> str:
    return f'"${KEY_VARIABLE}"' if to.key_wanted else NO_KEY


def _open_webui(to: Connection) -> str:
    return (
        "export ENABLE_OLLAMA_API=false\n"
        f"export OPENAI_API_BASE_URL={shlex.quote(to.base_url)}\n"
        f"export OPENAI_API_KEY={_shell_key(to)}\n"
        "open-webui serve\n"
    )


def _aider(to: Connection) -> str:
    return (
        f"export OPENAI_API_BASE={shlex.quote(to.base_url)}\n"
        f"export OPENAI_API_KEY={_shell_key(to)}\n"
        f"aider --model {shlex.quote('openai/' + to.model)}\n"
    )


def _continue(to: Connection) -> str:
    # A JSON text is a YAML text too, so that no name of a model can break out of its place.
    key = "${{ secrets." + KEY_VARIABLE + " }}" if to.key_wanted else NO_KEY
    return (
        "name: meshllm\n"
        "version: 1.0.0\n"
        "schema: v1\n"
        "models:\n"
        f"  - name: {json.dumps(to.model)}\n"
        "    provider: openai\n"
        f"    model: {json.dumps(to.model)}\n"
        f"    apiBase: {json.dumps(to.base_url)}\n"
        f"    apiKey: {json.dumps(key)}\n"
        "    roles: [chat, edit, apply]\n"
    )


def _opencode(to: Connection) -> str:
    options: dict[str, str] = {"baseURL": to.base_url}
    if to.key_wanted:
        options["apiKey"] = "{env:" + KEY_VARIABLE + "}"
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "meshllm",
        "options": options,
        "models": {to.model: {"name": to.model}},
    }
    return json.dumps({"provider": {"meshllm": provider}}, indent=2) + "\n"


def _fields(to: Connection) -> str:
    key = f"the value of ${KEY_VARIABLE}" if to.key_wanted else f"{NO_KEY} (anything; it is not checked)"
    return f"Base URL  {to.base_url}\nAPI key   {key}\nModel     {to.model}\n"


APPS: Final = (
    App("curl", "curl", "sh", "Run it in a shell.", _curl),
    App("openai", "openai (Python)", "python", "Run it with Python; needs the package openai.", _openai),
    App(
        "open-webui",
        "Open WebUI",
        "sh",
        "Start Open WebUI so; its model list then has this node's.",
        _open_webui,
    ),
    App(
        "continue",
        "Continue",
        "yaml",
        "Put it into config.yaml in the folder .continue of your home.",
        _continue,
    ),
    App("aider", "aider", "sh", "Run it in the folder of your code.", _aider),
    App("opencode", "opencode", "json", "Put it into opencode.json in the folder of your code.", _opencode),
    App(
        "other", "any other app", "fields", "Choose 'OpenAI compatible' in its settings and fill in.", _fields
    ),
)
"""In the order in which they are offered."""
APPS_BY_NAME: Final = {app.name: app for app in APPS}
