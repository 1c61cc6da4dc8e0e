"""The commands in the order in which a person meets them, on a real node with the real model."""

import asyncio
import json
import os
import subprocess
import time

import pytest

from meshllm_core.cli import spawn
from meshllm_core.paths import Paths
from tests.cli.conftest import COMMAND, run_here

pytestmark = pytest.mark.model


def test_start_look_ask_stop(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    model = os.environ.get("MESHLLM_TEST_MODEL", "default")
    process = spawn.start_node(
        paths, ["--port", "0", "--console", "0", "--ctx-size", "512", "--model", model]
    )
    try:
        record = spawn.wait_for_node(paths, process)
        assert record.pid == process.pid
        second = spawn.start_node(paths, ["--port", "0", "--console", "0"])
        assert second.wait(20) == 6
        assert "runs already" in spawn.output_file(paths).read_text(encoding="utf-8")
        _wait_until_ready()
        status = run_here(("status", "--json")).document
        (stage,) = status["runtime"]["stages"]
        assert (status["node_state"], stage["layer_start"], stage["layer_end"]) == ("serving", 0, 30)
        asked = ("chat", "Say hello.", "--max-tokens", "8", "--temperature", "0", "--json")
        answer = run_here(asked).document
        assert answer["content"]
        assert 0 < answer["usage"]["completion_tokens"] <= 8
        assert run_here(asked).document["content"] == answer["content"]
        checks = {check["name"]: check for check in run_here(("doctor", "--json")).document["checks"]}
        assert checks["node"]["detail"].startswith(f"process {record.pid} answers")
        assert "Started server process" in run_here(("logs",)).out
        unloaded = run_here(("unload", status["models"][0]))
        assert (unloaded.code, unloaded.err) == (0, "")
        assert run_here(("status", "--json")).document["runtime"]["stages"] == []
        assert run_here(("stop",)).out == "The node has stopped.\n"
        assert process.wait(20) == 0
        assert run_here(("status",)).code == 6
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_serve_as_json_says_where_it_listens() -> None:
    process = subprocess.Popen(
        [*COMMAND, "serve", "--json", "--port", "0", "--console", "0", "--model", "/nowhere/x.gguf"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        while run_here(("status",)).code != 0:
            assert process.poll() is None
            time.sleep(0.1)
        known = run_here(("status", "--json")).document
        assert run_here(("stop",)).code == 0
        output, _ = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    record = json.loads(output)
    assert process.returncode == 0
    assert (record["pid"], record["api_url"]) == (process.pid, known["api_url"])


def _wait_until_ready() -> None:
    from meshllm_core.api.client import ManagementClient
    from meshllm_core.api.record import read_record
    from meshllm_core.paths import default_paths

    record = read_record(default_paths())
    assert record is not None

    async def ready() -> None:
        async with ManagementClient(record.console_url) as client, asyncio.timeout(60):
            async for snapshot in client.follow():
                assert not [view.error for view in snapshot.models if view.status == "failed"]
                if snapshot.node_state == "serving":
                    return

    asyncio.run(ready())
