"""What people are told to paste into other programs works as it is printed.

curl and the openai package are run against a real endpoint. Of programs that are not installed here the
text is read as the program reads it (a shell, YAML, JSON), and what it names is asked for over HTTP.
"""

import asyncio
import importlib
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from meshllm_core.api.openai.settings import OpenAISettings
from meshllm_core.api.snippets import APPS, APPS_BY_NAME, KEY_VARIABLE, Connection
from tests.api.openai.conftest import scripted, serving

KEY = "not-a-secret-1"
HOSTILE = 'it\'s $(touch owned) `x` "y" \\ #: {z} é'
"""A model of another machine may have any name; pasting it must run nothing."""
NAMES = ["SmolLM2-135M-Instruct:Q4_K_M", HOSTILE]
KEYS = ["", KEY]


async def run(*command: str, folder: Path, key: str = "") -> str:
    """What a program prints; it must succeed."""
    environ = {**os.environ, **({KEY_VARIABLE: key} if key else {})}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


def left(folder: Path) -> list[Path]:
    """What a program made there."""
    return list(folder.iterdir())


async def asked(base_url: str, model: str, key: str) -> str:
    """What the endpoint answers to an app that was told these three things."""
    async with httpx.AsyncClient(trust_env=False) as http:
        assert model in {row["id"] for row in (await _get(http, f"{base_url}/models", key))["data"]}
        answer = await http.post(
            f"{base_url}/chat/completions",
            json={"model": model, "messages": [{"role": "user", "content": "Hi"}]},
            headers={"authorization": f"Bearer {key}"},
        )
    return str(answer.json()["choices"][0]["message"]["content"])


async def _get(http: httpx.AsyncClient, url: str, key: str) -> Any:
    answer = await http.get(url, headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("model", NAMES)
@pytest.mark.parametrize("app", ["curl", "openai"])
async def test_what_can_be_run_here_is_run_as_printed(app: str, model: str, key: str, tmp_path: Path) -> None:
    async with serving({model: scripted()}, OpenAISettings(api_key=key)) as endpoint:
        text = APPS_BY_NAME[app].write(Connection(f"{endpoint.url}/v1", model, bool(key)))
        assert KEY not in text
        command = ("bash", "-euc", text) if app == "curl" else (sys.executable, "-W", "error", "-c", text)
        out = await run(*command, folder=tmp_path, key=key)
    said = json.loads(out)["choices"][0]["message"]["content"] if app == "curl" else out.strip()
    assert said == "Hello there."
    assert left(tmp_path) == []


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("model", NAMES)
@pytest.mark.parametrize(
    ("app", "program", "base"),
    [("aider", "aider", "OPENAI_API_BASE"), ("open-webui", "open-webui", "OPENAI_API_BASE_URL")],
)
async def test_shell_words_reach_the_program_whole(
    app: str, program: str, base: str, model: str, key: str, tmp_path: Path
) -> None:
    show = f'{program}() {{ printf \'%s\\0\' "$@" "${base}" "$OPENAI_API_KEY"; }}\n'
    async with serving({model: scripted()}, OpenAISettings(api_key=key)) as endpoint:
        text = APPS_BY_NAME[app].write(Connection(f"{endpoint.url}/v1", model, bool(key)))
        out = await run("bash", "-euc", show + text, folder=tmp_path, key=key)
        *words, base_url, given = out.split("\0")[:-1]
        assert words == (["--model", f"openai/{model}"] if app == "aider" else ["serve"])
        assert given == (key or "none")
        assert await asked(base_url, model, given) == "Hello there."
    assert left(tmp_path) == []


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("model", NAMES)
async def test_continue_reads_its_yaml(model: str, key: str) -> None:
    async with serving({model: scripted()}, OpenAISettings(api_key=key)) as endpoint:
        text = APPS_BY_NAME["continue"].write(Connection(f"{endpoint.url}/v1", model, bool(key)))
        read = importlib.import_module("yaml").safe_load(text)
        assert (read["schema"], read["version"], read["name"]) == ("v1", "1.0.0", "meshllm")
        (row,) = read["models"]
        assert row["provider"] == "openai"
        assert row["apiKey"] == ("${{ secrets.MESHLLM_API_KEY }}" if key else "none")
        assert await asked(row["apiBase"], row["model"], key or row["apiKey"]) == "Hello there."


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("model", NAMES)
async def test_opencode_reads_its_json(model: str, key: str) -> None:
    async with serving({model: scripted()}, OpenAISettings(api_key=key)) as endpoint:
        text = APPS_BY_NAME["opencode"].write(Connection(f"{endpoint.url}/v1", model, bool(key)))
        provider = json.loads(text)["provider"]["meshllm"]
        assert provider["npm"] == "@ai-sdk/openai-compatible"
        assert provider["options"].get("apiKey") == ("{env:MESHLLM_API_KEY}" if key else None)
        (name,) = provider["models"]
        assert await asked(provider["options"]["baseURL"], name, key or "none") == "Hello there."


@pytest.mark.parametrize("key", KEYS)
async def test_the_fields_for_any_other_app(key: str) -> None:
    async with serving({"m": scripted()}, OpenAISettings(api_key=key)) as endpoint:
        text = APPS_BY_NAME["other"].write(Connection(f"{endpoint.url}/v1", "m", bool(key)))
        base, named, model = (line[10:] for line in text.splitlines())
        assert (KEY_VARIABLE in named) == bool(key)
        assert await asked(base, model, key or "none") == "Hello there."


async def test_auto_answers_while_no_name_is_known() -> None:
    async with serving({"m": scripted()}) as endpoint:
        text = APPS_BY_NAME["curl"].write(Connection(f"{endpoint.url}/v1"))
        assert '"model": "auto"' in shlex.split(text)[-1]
        assert "Hello there." in await run("bash", "-euc", text, folder=Path.cwd())


def test_names_and_places_are_told_for_each() -> None:
    assert len(APPS_BY_NAME) == len(APPS)
    for app in APPS:
        assert app.where.endswith(".")
        assert app.write(Connection("http://127.0.0.1:9337/v1")).endswith("\n")
