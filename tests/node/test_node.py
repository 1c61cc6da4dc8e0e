"""A whole node: start, serve, survive its engine's death, refuse a second one, stop."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx
import openai
import psutil
import pytest

from meshllm_core.errors import ExitCode
from tests.support.nodes import RunningNode, command, free_port, running_node

pytestmark = pytest.mark.model

QUESTION: list[dict[str, str]] = [{"role": "user", "content": "Count to a hundred."}]
GO_ON = {"ignore_eos": True}
"""Tokens are counted below: a sampled answer may end by itself at any of them."""


def _client(node: RunningNode) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{node.api}/v1", api_key="none", max_retries=0, timeout=60)


def test_start_chat_and_stop(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        model = node.ready()
        client = _client(node)
        assert [entry.id for entry in client.models.list()] == [model]
        answer = client.chat.completions.create(
            model=model,
            messages=QUESTION,  # type: ignore[arg-type]
            max_tokens=8,
            extra_body=GO_ON,
        )
        assert answer.choices[0].message.content
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 8
        finished = node.wait(lambda s: any(r["status"] == "length" for r in s["requests"]))
        assert finished["models"][0]["requests_served"] == 1
        status = node.status()
        assert (status["node_state"], status["llama_ready"]) == ("serving", True)
        engine = finished["models"][0]["pid"]
    assert node.process.returncode == ExitCode.OK
    assert not psutil.pid_exists(engine)
    assert not (node.home / "data" / "node.json").exists()
    assert f"{model} is ready" in (node.home / "logs" / "node.log").read_text(encoding="utf-8")


def test_an_engine_killed_in_the_middle_of_a_stream(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        model = node.ready()
        pid = node.snapshot()["models"][0]["pid"]
        stream = _client(node).chat.completions.create(
            model=model,
            messages=QUESTION,  # type: ignore[arg-type]
            max_tokens=700,
            stream=True,
            extra_body=GO_ON,
        )
        seen = 0
        with pytest.raises(openai.APIError) as caught:
            for _chunk in stream:
                seen += 1
                if seen == 4:
                    os.kill(pid, signal.SIGKILL)
        assert "SIGKILL" in str(caught.value)
        assert seen >= 4
        restarted = node.wait(lambda s: s["models"][0]["status"] == "ready" and s["models"][0]["pid"] != pid)
        assert restarted["models"][0]["restarts"] == 1
        again = _client(node).chat.completions.create(
            model=model,
            messages=QUESTION,  # type: ignore[arg-type]
            max_tokens=4,
            extra_body=GO_ON,
        )
        assert again.usage is not None
        assert again.usage.completion_tokens == 4


def test_a_model_whose_engine_keeps_dying_is_given_up(tmp_path: Path) -> None:
    with running_node(tmp_path, environment={"MESHLLM_RESTART_LIMIT": "1"}) as node:
        model = node.ready()
        for _ in range(2):
            snapshot = node.wait(lambda s: s["models"][0]["status"] == "ready")
            pid = snapshot["models"][0]["pid"]
            os.kill(pid, signal.SIGKILL)
            node.wait(lambda s, dead=pid: s["models"][0]["pid"] != dead)  # type: ignore[misc]
        node.wait(lambda s: s["models"][0]["status"] == "failed")
        answer = httpx.post(f"{node.api}/v1/completions", json={"model": model, "prompt": "x"}, timeout=10)
        assert answer.status_code == 503
        assert node.act("load", model="default").status_code == 200
        node.wait(lambda s: s["models"][0]["status"] == "ready")


def test_an_engine_that_works_between_its_deaths_is_always_restarted(tmp_path: Path) -> None:
    with running_node(tmp_path, environment={"MESHLLM_RESTART_LIMIT": "1"}) as node:
        model = node.ready()
        for _ in range(3):
            body = {"model": model, "prompt": "One, two,", "max_tokens": 4}
            assert httpx.post(f"{node.api}/v1/completions", json=body, timeout=20).status_code == 200
            worked = node.wait(lambda s: s["models"][0]["cells_used"] > 0 and s["models"][0]["active"] == 0)
            pid = worked["models"][0]["pid"]
            os.kill(pid, signal.SIGKILL)
            node.wait(lambda s, dead=pid: s["models"][0]["pid"] not in (dead, 0))  # type: ignore[misc]
            assert node.ready() == model


def test_an_engine_killed_while_it_loads_is_started_again(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        model = node.ready()
        for delay in (0.0, 0.1, 0.2):
            assert node.act("unload", model=model).status_code == 200
            assert node.act("load", model="default").status_code == 200
            engine = _loading_engine(node)
            time.sleep(delay)
            engine.kill()
            assert node.ready() == model
            assert httpx.get(f"{node.api}/v1/models", timeout=5).json()["data"][0]["status"] == "ready"


def _loading_engine(node: RunningNode) -> psutil.Process:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        for child in psutil.Process(node.process.pid).children():
            with contextlib.suppress(psutil.Error):
                if "meshllm_core.engine.worker" in child.cmdline():
                    return child
    raise AssertionError("no engine was started")


def test_load_unload_and_bad_models_by_action(tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF but not really")
    with running_node(tmp_path) as node:
        model = node.ready()
        assert node.act("load", model="default").status_code == 409
        assert node.act("load", model=str(bad)).status_code == 200
        assert node.act("load", model=str(tmp_path / "absent.gguf")).status_code == 200
        failed = node.wait(lambda s: sum(m["status"] == "failed" for m in s["models"]) == 2)
        words = {m["ref"]: m["error"] for m in failed["models"]}
        assert "absent.gguf" in words[str(tmp_path / "absent.gguf")]
        assert "bad.gguf" in words[str(bad)]
        assert node.act("unload", model=model).status_code == 200
        assert node.act("unload", model=model).status_code == 404
        gone = node.snapshot()
        assert model not in [m["id"] for m in gone["models"]]
        assert httpx.get(f"{node.api}/health", timeout=5).status_code == 200


def test_cancel_by_action_ends_the_stream(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        model = node.ready()
        body = {"model": model, "prompt": "One, two,", "max_tokens": 700, "stream": True, "ignore_eos": True}
        with httpx.stream("POST", f"{node.api}/v1/completions", json=body, timeout=60) as answer:
            running = node.wait(lambda s: any(r["status"] == "running" for r in s["requests"]))
            began = time.monotonic()
            assert node.act("cancel", request=running["requests"][-1]["id"]).status_code == 200
            answer.read()
        assert time.monotonic() - began < 20
        node.wait(lambda s: s["requests"][-1]["status"] == "cancelled")
        assert node.act("cancel", request="unknown").status_code == 404


def test_a_client_that_goes_away_frees_its_lane(tmp_path: Path) -> None:
    with running_node(tmp_path, "--lanes", "1") as node:
        model = node.ready()
        body = {"model": model, "prompt": "One, two,", "max_tokens": 900, "ignore_eos": True}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{node.api}/v1/completions", json=body, timeout=0.5)
        node.wait(lambda s: s["requests"] and s["requests"][-1]["status"] == "cancelled", 5)
        short = {**body, "max_tokens": 1}
        assert httpx.post(f"{node.api}/v1/completions", json=short, timeout=30).status_code == 200


def _serve(tmp_path: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        command("serve", "--headless", *arguments),
        capture_output=True,
        timeout=60,
        env={**os.environ, "MESHLLM_HOME": str(tmp_path / "home")},
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.parametrize("flag", ["--port", "--console"])
def test_a_taken_port_is_named(tmp_path: Path, flag: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        other = "--console" if flag == "--port" else "--port"
        done = _serve(tmp_path, flag, port, other, str(free_port()))
    assert done.returncode == ExitCode.NODE
    assert port in done.stderr.decode()
    assert flag in done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert done.stdout == b""


def test_an_open_address_needs_a_key(tmp_path: Path) -> None:
    done = _serve(tmp_path, "--host", "0.0.0.0")
    assert done.returncode == ExitCode.USAGE
    assert b"api_key" in done.stderr


def test_an_open_address_with_a_key_answers_under_any_name(tmp_path: Path) -> None:
    with running_node(tmp_path, "--host", "0.0.0.0", environment={"MESHLLM_API_KEY": "s3cret-key"}) as node:
        headers = {"host": "my-pc.lan", "authorization": "Bearer s3cret-key"}
        assert httpx.get(f"{node.api}/v1/models", headers=headers, timeout=10).status_code == 200
        assert (
            httpx.get(f"{node.api}/v1/models", headers={"host": "my-pc.lan"}, timeout=10).status_code == 401
        )


def test_a_second_node_of_the_same_user_is_refused(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        done = _serve(tmp_path, "--port", str(free_port()), "--console", str(free_port()))
        assert done.returncode == ExitCode.NODE
        assert str(node.process.pid) in done.stderr.decode()
