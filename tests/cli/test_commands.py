"""Commands that speak to a running node."""

import asyncio
import os
from pathlib import Path

import pytest

from meshllm_core.api.openai.settings import OpenAISettings
from meshllm_core.errors import ExitCode, ModelTooLarge
from meshllm_core.ids import ModelId
from meshllm_core.paths import Paths
from meshllm_core.state import events as ev
from tests.api.manage.conftest import Node
from tests.api.openai.conftest import eventually, scripted, serving
from tests.cli.conftest import command, playing, start_events, write_config


async def test_status_as_text_and_json(node: Node) -> None:
    shown = await command("status")
    assert (shown.code, shown.err) == (0, "")
    assert "attic · Serving tiny" in shown.out
    assert f"{node.url}/v1" in shown.out
    as_json = await command("status", "--json")
    assert as_json.document == (await node.http.get("/api/status")).json()


async def test_status_shows_failures_and_no_controls(node: Node) -> None:
    model = ModelId("bad\x1b[31m")
    node.backend.store.append(ev.ModelRequested(at=1.0, model=model, ref="x"))
    node.backend.store.append(
        ev.ModelFailed(at=1.0, model=model, code="c", message="It broke.", hint="Mend it.")
    )
    shown = await command("status")
    assert "It broke. Mend it." in shown.out
    assert "\x1b" not in shown.out


async def test_a_node_can_be_named_by_port_or_address(
    node: Node, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths.node_file.unlink()
    port = node.url.rpartition(":")[2]
    assert (await command("status", "--console", port)).code == 0
    assert (await command("status", "--console", node.url)).code == 0
    monkeypatch.setenv("MESHLLM_CONSOLE_PORT", port)
    assert (await command("status")).code == 0


async def test_load_waits_until_the_model_is_ready(node: Node) -> None:
    loading = asyncio.create_task(command("load", "a/b:Q4_K_M", "--lanes", "2", "--ctx-size", "512"))
    asked = await _asked(node, "load")
    assert asked == {"model": "a/b:Q4_K_M", "lanes": 2, "ctx_size": 512}
    store, first, model = node.backend.store, ModelId("a/b:Q4_K_M"), ModelId("b-Q4_K_M")
    store.append(ev.ModelRequested(at=4.0, model=first, ref="a/b:Q4_K_M"))
    store.append(ev.ModelNamed(at=4.5, model=first, name=model))
    store.append(ev.ModelDownloadProgressed(at=5.0, model=model, bytes_done=50, bytes_total=100))
    await asyncio.sleep(0.3)
    ready = start_events(node.url)[-1]
    assert isinstance(ready, ev.ModelReady)
    store.append(
        ev.ModelReady(
            **{field: getattr(ready, field) for field in ready.__struct_fields__} | {"model": model}
        )
    )
    result = await loading
    assert (result.code, result.out) == (0, "b-Q4_K_M is ready: context 2048, 4 lanes, on CPU.\n")
    assert "b-Q4_K_M: downloading 50 % of 100 bytes" in result.err


async def test_load_reports_why_a_model_failed(node: Node) -> None:
    loading = asyncio.create_task(command("load", "big", "--json"))
    await _asked(node, "load")
    store, model = node.backend.store, ModelId("big")
    store.append(ev.ModelRequested(at=4.0, model=model, ref="big"))
    store.append(ev.ModelFailed(at=5.0, model=model, code="x", message="Needs 9 GB.", hint="Buy memory."))
    result = await loading
    assert (result.code, result.out) == (ExitCode.MODEL, "")
    assert result.err.endswith("error: big: Needs 9 GB.\n  Buy memory.\n")


async def test_an_old_failure_is_not_the_answer_to_a_new_request(node: Node) -> None:
    store, model = node.backend.store, ModelId("x")
    store.append(ev.ModelRequested(at=4.0, model=model, ref="x"))
    store.append(ev.ModelFailed(at=5.0, model=model, code="c", message="Old.", hint=""))
    loading = asyncio.create_task(command("load", "x"))
    await _asked(node, "load")
    await asyncio.sleep(0.2)
    store.append(ev.NoticeLogged(at=6.0, level="info", source="s", text="something else"))
    await asyncio.sleep(0.1)
    store.append(ev.ModelRequested(at=7.0, model=model, ref="x"))
    store.append(ev.ModelFailed(at=8.0, model=model, code="c", message="New.", hint=""))
    result = await loading
    assert "New." in result.err
    assert "Old." not in result.err


async def test_a_model_that_is_unloaded_while_loading_is_said(node: Node) -> None:
    loading = asyncio.create_task(command("load", "x"))
    await _asked(node, "load")
    node.backend.store.append(ev.ModelRequested(at=4.0, model=ModelId("x"), ref="x"))
    await asyncio.sleep(0.3)
    node.backend.store.append(ev.ModelUnloaded(at=5.0, model=ModelId("x")))
    result = await loading
    assert (result.code, result.out) == (ExitCode.NODE, "")
    assert "unloaded while it was loading" in result.err


async def test_load_need_not_wait(node: Node) -> None:
    result = await command("load", "auto", "--no-wait", "--json")
    assert result.document == {"ref": "auto", "status": "requested"}


async def test_files_are_named_so_that_the_node_finds_them(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, home = tmp_path / "here", tmp_path / "home"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(home))
    await command("load", "./x.gguf", "--no-wait")
    await command("load", "~/x.gguf", "--no-wait")
    await command("load", "hf://a/b/x.gguf", "--no-wait")
    assert [arguments["model"] for _, arguments in node.backend.asked] == [
        f"{here}/x.gguf",
        f"{home}/x.gguf",
        "hf://a/b/x.gguf",
    ]


async def test_refusals_of_the_node_keep_their_exit_code(node: Node) -> None:
    node.fail_with(ModelTooLarge("Needs 9 GB.", hint="Use a smaller one."))
    result = await command("load", "big")
    assert (result.code, result.out, result.err) == (
        ExitCode.MODEL,
        "",
        "error: Needs 9 GB. Use a smaller one.\n",
    )


async def test_unload(node: Node) -> None:
    result = await command("unload", "tiny")
    assert (result.code, result.out) == (0, "tiny is unloaded.\n")
    assert node.backend.asked == [("unload", {"model": "tiny"})]


async def test_stop_returns_when_the_node_is_gone(paths: Paths) -> None:
    async with playing(paths) as node:
        stopping = asyncio.create_task(command("stop", "--json"))
        await _asked(node, "stop")
    result = await stopping
    assert result.code == 0
    assert result.document == {"status": "stopped", "console_url": node.url, "pid": os.getpid()}


async def test_the_wrong_token_is_a_clear_failure(node: Node, paths: Paths) -> None:
    paths.token_file.write_text("w" * 43)
    result = await command("stop")
    assert (result.code, result.out) == (ExitCode.NODE, "")
    assert "bearer token is wrong" in result.err
    assert "end its process" in result.err


async def test_chat_streams_the_answer_to_stdout(paths: Paths) -> None:
    async with (
        serving({"tiny": scripted("Hel", "lo ✓", ".")}) as endpoint,
        playing(paths, api_url=endpoint.url),
    ):
        asked = await command("chat", "Hi", "--model", "tiny")
        assert (asked.code, asked.out, asked.err) == (0, "Hello ✓.\n", "")
        piped = await command("chat", "Summarize", "--json", "--max-tokens", "9", stdin="a text")
        assert piped.document["content"] == "Hello ✓."
        assert piped.document["model"] == "tiny"
        assert piped.document["usage"]["completion_tokens"] == 3
        assert piped.document["finish_reason"] == "stop"
        only_stdin = await command("chat", stdin="just this")
        assert only_stdin.out == "Hello ✓.\n"


async def test_chat_errors_keep_their_exit_code(paths: Paths) -> None:
    async with serving({"tiny": scripted()}) as endpoint, playing(paths, api_url=endpoint.url):
        result = await command("chat", "Hi", "--model", "nope")
        assert (result.code, result.out) == (ExitCode.REQUEST, "")
        assert "nope" in result.err


async def test_chat_sends_the_key_that_is_configured(paths: Paths) -> None:
    settings = OpenAISettings(api_key="s3cret-value")
    async with serving({"tiny": scripted()}, settings) as endpoint, playing(paths, api_url=endpoint.url):
        refused = await command("chat", "Hi")
        assert (refused.code, refused.out) == (ExitCode.NODE, "")
        write_config(paths, 'api_key = "s3cret-value"')
        assert (await command("chat", "Hi")).out == "Hello there.\n"


async def test_bare_meshllm_without_a_terminal_shows_the_status(node: Node) -> None:
    result = await command()
    assert result.code == 0
    assert "There is no terminal here for the dashboard" in result.err
    assert result.out.splitlines()[0].startswith("This node is attic: serving, up ")
    assert "Model tiny: ready, on CPU, 0 active, 0 queued." in result.out.splitlines()


async def test_bare_meshllm_as_json_is_the_status(node: Node) -> None:
    result = await command("--json")
    assert (result.code, result.err) == (0, "")
    assert result.document == (await command("status", "--json")).document


async def test_names_with_spaces_and_accents_arrive(node: Node) -> None:
    await command("load", "modèle é", "--no-wait")
    assert node.backend.asked == [("load", {"model": "modèle é"})]


async def _asked(node: Node, name: str) -> dict[str, object]:
    """The arguments of an action, once the command has sent it."""
    await eventually(lambda: node.backend.asked, 20)
    asked, arguments = node.backend.asked[-1]
    assert asked == name
    return arguments
