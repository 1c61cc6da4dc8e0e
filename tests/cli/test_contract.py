"""Stdout is data, stderr is talk, exit codes are documented: whatever goes wrong."""

import json
import os
import re
import subprocess
from collections.abc import Callable

import pytest

from meshllm_core import __version__
from meshllm_core.errors import ExitCode
from meshllm_core.paths import Paths
from tests.cli.conftest import COMMAND, Result, run_apart, write_config

Run = Callable[..., Result]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("status",), ExitCode.NODE, "No node is running"),
        (("status", "--json"), ExitCode.NODE, "meshllm serve"),
        (("stop",), ExitCode.NODE, "No node is running"),
        (("load", "auto"), ExitCode.NODE, "No node is running"),
        (("chat", "hello"), ExitCode.NODE, "No node is running"),
        (("status", "--console", "nonsense"), ExitCode.USAGE, "neither a port nor an address"),
        (("status", "--console", "1"), ExitCode.NODE, "No node answers at http://127.0.0.1:1"),
        (("nonsense",), ExitCode.USAGE, "No such command"),
        (("statsu",), ExitCode.USAGE, "status"),
        (("--json", "status"), ExitCode.USAGE, "meshllm status --json"),
        (("bench", "--url", "http://127.0.0.1:1/v1"), ExitCode.NODE, "(no program listens there)"),
        (("status", "--nonsense"), ExitCode.USAGE, "No such option"),
        (("load",), ExitCode.USAGE, "Missing argument"),
        (("load", "x", "--lanes", "0"), ExitCode.USAGE, "--lanes"),
        (("serve", "--port", "70000"), ExitCode.USAGE, "--port: port is 70000"),
        (("serve", "--port", "x"), ExitCode.USAGE, "--port"),
        (("serve", "--kv-type", "q8"), ExitCode.USAGE, "f16 | q8_0 | q4_0"),
        (("serve", "--host", "0.0.0.0"), ExitCode.USAGE, "api_key"),
        (("serve", "--config", "/nowhere/x.toml"), ExitCode.USAGE, "/nowhere/x.toml"),
        (("logs",), ExitCode.NODE, "Cannot read"),
        (("logs", "--engine", "x"), ExitCode.NODE, "no engine log of 'x'"),
        (("logs", "--follow", "--json"), ExitCode.USAGE, "--follow"),
        (("models", "show", "/nowhere/x.gguf"), ExitCode.MODEL, "/nowhere/x.gguf"),
        (("models", "prune", "nonsense"), ExitCode.MODEL, "nonsense"),
        (("models", "prune", "--all", "x"), ExitCode.USAGE, "--all"),
        (("chat", "--json"), ExitCode.USAGE, "no question"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_failures_leave_stdout_empty_and_say_what_to_do(
    meshllm: Run, arguments: tuple[str, ...], code: ExitCode, words: str
) -> None:
    result = meshllm(*arguments)
    assert (result.code, result.out) == (code, "")
    assert words in result.err
    assert "Traceback" not in result.err


def test_a_typo_in_the_configuration_is_named_by_every_command(meshllm: Run, paths: Paths) -> None:
    file = write_config(paths, "lanes = 2\nprot = 1\n")
    for arguments in (("status",), ("config",), ("serve",)):
        result = meshllm(*arguments)
        assert (result.code, result.out) == (ExitCode.USAGE, "")
        assert f"{file}:2: there is no key 'prot'" in result.err
        assert "Did you mean port?" in result.err


def test_version(meshllm: Run) -> None:
    assert meshllm("--version") == Result(0, f"meshllm {__version__}\n", "")


def test_a_process_of_its_own_keeps_the_contract() -> None:
    assert run_apart("--version") == Result(0, f"meshllm {__version__}\n", "")
    failed = run_apart("status", "--json")
    assert (failed.code, failed.out) == (ExitCode.NODE, "")
    assert "No node is running" in failed.err


def test_config_shows_where_values_come_from(meshllm: Run, paths: Paths) -> None:
    file = write_config(paths, 'lanes = 2\napi_key = "s3cret-value"\n')
    result = meshllm("config", MESHLLM_PORT="1234", MESHLLM_PROT="1")
    assert result.code == 0
    assert re.search(rf"^lanes +2 +{re.escape(str(file))}:1 ", result.out, re.MULTILINE)
    assert re.search(r"^port +1234 +MESHLLM_PORT ", result.out, re.MULTILINE)
    assert "s3cret" not in result.out + result.err
    assert "MESHLLM_PROT is not a variable" in result.err
    as_json = meshllm("config", "--json", MESHLLM_PORT="1234").document
    rows = {row["key"]: row for row in as_json["settings"]}
    assert (rows["port"]["value"], rows["port"]["source"], rows["port"]["from"]) == (
        1234,
        "environment",
        "MESHLLM_PORT",
    )
    assert rows["api_key"]["value"] is True
    assert rows["lanes"]["default"] == 4


def test_the_example_configuration_is_one(meshllm: Run, paths: Paths) -> None:
    example = meshllm("config", "--example").out
    write_config(paths, example)
    assert meshllm("config").code == 0


def test_the_example_configuration_as_json_is_one_document(meshllm: Run) -> None:
    assert meshllm("config", "--example", "--json").document == {
        "example": meshllm("config", "--example").out[:-1]
    }


def test_json_is_utf_8_in_any_locale(paths: Paths) -> None:
    write_config(paths, 'models = ["/models/größe – 大.gguf"]\n')
    done = subprocess.run(
        [*COMMAND, "config", "--json"],
        capture_output=True,
        timeout=30,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    rows = {row["key"]: row for row in json.loads(done.stdout.decode("utf-8"))["settings"]}
    assert rows["models"]["value"] == ["/models/größe – 大.gguf"]


def test_doctor_sees_a_token_that_keeps_a_node_from_starting(meshllm: Run, paths: Paths) -> None:
    paths.data.mkdir(parents=True)
    paths.token_file.write_text("no token\n", encoding="utf-8")
    result = meshllm("doctor", "--json")
    checks = {check["name"]: check for check in result.document["checks"]}
    assert (result.code, checks["token"]["status"]) == (ExitCode.CHECK, "fail")
    assert "Delete the file" in checks["token"]["hint"]


def test_doctor_sees_a_device_that_is_not_there(meshllm: Run) -> None:
    result = meshllm("doctor", "--json", MESHLLM_DEVICE="cuda9")
    checks = {check["name"]: check for check in result.document["checks"]}
    assert (result.code, checks["llama.cpp"]["status"]) == (ExitCode.CHECK, "fail")
    assert "meshllm gpus" in checks["llama.cpp"]["hint"]


def test_doctor_has_a_next_step_for_what_fails(meshllm: Run, paths: Paths) -> None:
    write_config(paths, "prot = 1\n")
    result = meshllm("doctor", "--json")
    assert result.code == ExitCode.CHECK
    checks = {check["name"]: check for check in result.document["checks"]}
    assert result.document["ok"] is False
    assert (checks["config"]["status"], checks["config"]["hint"]) == ("fail", "Did you mean port?")
    assert checks["python"]["status"] == "pass"
    assert {"llama.cpp", "memory", "disk", "port", "node", "default model", "compiler"} <= set(checks)
    for check in checks.values():
        assert check["status"] == "pass" or check["hint"]


def test_doctor_as_text(meshllm: Run, unused_tcp_port_factory: Callable[[], int]) -> None:
    ports = {"MESHLLM_PORT": unused_tcp_port_factory(), "MESHLLM_CONSOLE_PORT": unused_tcp_port_factory()}
    result = meshllm("doctor", **{name: str(port) for name, port in ports.items()})
    assert result.code == 0, result.out
    assert "\x1b" not in result.out
    assert "pass  llama.cpp" in result.out


def test_no_colour_and_no_controls_when_piped(meshllm: Run) -> None:
    result = meshllm("models", "recommended", FORCE_COLOR="1")
    assert result.code == 0
    assert "\x1b" not in result.out + result.err
    assert "qwen3-8b" in result.out


def test_models_list_and_show_know_the_default_model(meshllm: Run) -> None:
    listed = meshllm("models", "list", "--json").document
    assert [model["ref"] for model in listed["models"]] == ["default"]
    shown = meshllm("models", "show", "default", "--json").document
    assert (shown["architecture"], shown["layers"], shown["here"]) == ("llama", 30, True)
    assert "SmolLM2" in meshllm("models", "list").out


def test_gpus(meshllm: Run) -> None:
    devices = meshllm("gpus", "--json").document["devices"]
    assert "CPU" in [device["name"] for device in devices]
    assert re.search(r"^CPU +cpu ", meshllm("gpus").out, re.MULTILINE)


def test_logs_shows_the_end(meshllm: Run, paths: Paths) -> None:
    paths.logs.mkdir(parents=True)
    (paths.logs / "node.log").write_text("".join(f"line {n}\n" for n in range(100)), encoding="utf-8")
    (paths.logs / "engine-a_b.log").write_text("engine says\n", encoding="utf-8")
    assert meshllm("logs", "-n", "2").out == "line 98\nline 99\n"
    assert meshllm("logs", "--engine", "a/b").out == "engine says\n"
    assert meshllm("logs", "-n", "1", "--json").document["lines"] == ["line 99"]


def test_a_reader_that_stops_early_is_no_fault() -> None:
    piped = " ".join([*COMMAND, "config", "|", "head", "-n", "1"])
    done = subprocess.run(["bash", "-c", piped], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout.startswith("KEY")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
