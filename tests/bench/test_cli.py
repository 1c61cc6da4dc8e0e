"""The command as a person runs it: stdout is data, stderr is talk, exit codes as documented."""

import asyncio
import json
import sys
from pathlib import Path

from meshllm_core.errors import ExitCode
from tests.bench.stub import Behaviour, stub_server

_QUICK = ("--runs", "2", "--warmup", "0", "--clients", "1,2", "--prompt-tokens", "20", "--max-tokens", "10")


async def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "meshllm_core.cli.main", "bench", *arguments,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_one_server_as_a_table_and_as_one_document() -> None:
    async with stub_server(Behaviour(token_delay=0.002)) as stub:
        code, table, talk = await run("--url", stub.url, *_QUICK)
        assert code == ExitCode.OK, talk
        assert "decode, per client" in table
        assert "run 2" in talk and "run 2" not in table
        code, text, _ = await run("--url", stub.url, "--json", *_QUICK)
    document = json.loads(text)
    assert code == ExitCode.OK
    assert document["complete"] is True
    assert [level["clients"] for level in document["servers"][0]["levels"]] == [1, 2]
    assert document["servers"][0]["levels"][0]["decode_tok_s"]["n"] == 2
    assert document["plan"]["prompt_tokens"] == 20


async def test_compare_ends_with_7_only_when_a_bound_is_not_kept() -> None:
    fast, slow = Behaviour(token_delay=0.002), Behaviour(token_delay=0.02)
    async with stub_server(fast) as left, stub_server(slow) as right:
        sides = ("compare", "--left", left.url, "--right", right.url, *_QUICK)
        code, text, talk = await run(*sides, "--json", "--min-decode", "2", "--max-ttft", "20")
        assert code == ExitCode.OK, talk
        document = json.loads(text)
        assert document["good"] is True
        assert [row["limit"]["met"] for row in document["comparison"] if row["limit"]] == [True, True]
        code, table, _ = await run(*sides, "--min-decode", "2", "--min-aggregate", "50")
    assert code == ExitCode.CHECK
    assert table.count("SHORT") == 1
    assert table.count(" ok") == 1


async def test_a_memory_bound_without_pids_is_refused_before_anything_is_sent() -> None:
    async with stub_server() as stub:
        code, out, talk = await run("compare", "--left", stub.url, "--right", stub.url, "--max-memory", "1.3")
        assert code == ExitCode.USAGE
        assert out == ""
        assert "--left-pid" in talk
        assert stub.paths == []


async def test_a_server_cannot_command_the_terminal_by_its_models_name() -> None:
    async with stub_server(Behaviour(models=("evil\x1b]0;title\x07",))) as stub:
        code, table, talk = await run("--url", stub.url, "--runs", "1", "--clients", "1", "--max-tokens", "2")
    assert code == ExitCode.OK, talk
    assert "evil" in table
    assert "\x1b" not in table + talk


async def test_planning_is_measured_against_a_bound() -> None:
    small = ("plan", "--nodes", "6", "--layers", "30", "--clusters", "1", "--runs", "1")
    code, text, talk = await run(*small, "--bound", "60000", "--json")
    assert code == ExitCode.OK, talk
    document = json.loads(text)
    assert document["good"] is True
    assert {row["room_gb"] for row in document["rows"]} >= {300, 30}
    assert {1, 6} <= {count for row in document["rows"] for count in row["stages"]}
    assert 0 < document["median_ms"] <= document["worst_ms"]
    code, table, _ = await run(*small, "--bound", "0.001")
    assert code == ExitCode.CHECK
    assert "bound 0.001 ms" in table


async def test_raw_planning_times_can_be_read_again(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    code, _, talk = await run(
        "plan", "--nodes", "4", "--layers", "10", "--clusters", "2", "--runs", "3", "--raw", str(raw)
    )
    assert code == ExitCode.OK, talk
    conditions, *lines = [json.loads(line) for line in raw.read_text().splitlines()]
    assert (conditions["kind"], conditions["nodes"]) == ("conditions", 4)
    assert all(line["kind"] == "plan" and len(line["ms"]) == 3 for line in lines)
    assert {line["cluster"] for line in lines} == {0, 1}
