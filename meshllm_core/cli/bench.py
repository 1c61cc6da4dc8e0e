"""`meshllm bench` and `meshllm bench compare`: from options to a table or one JSON document on stdout."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from meshllm_core.bench.compare import Row, compare, limits
from meshllm_core.bench.completion import find_target
from meshllm_core.bench.endpoint import parse_endpoint
from meshllm_core.bench.machine import machine_facts
from meshllm_core.bench.plan import Plan, parse_clients
from meshllm_core.bench.raw import open_raw
from meshllm_core.bench.render import compare_table, facts_line, side_table
from meshllm_core.bench.session import Side, measure
from meshllm_core.cli import bench_options as opt
from meshllm_core.cli.bench_plan import plan
from meshllm_core.cli.bench_split import split
from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.output import clean, emit, emit_json
from meshllm_core.errors import ConfigError, ExitCode

app = typer.Typer(
    help="Measure an OpenAI-compatible server: decode and prompt speed, time to first token, memory.",
    invoke_without_command=True,
)

app.command("split")(split)
app.command("plan")(plan)


@app.callback()
def bench(
    context: typer.Context,
    url: opt.Url = "http://127.0.0.1:9337/v1",
    model: opt.Model = None,
    clients: opt.Clients = "1,4",
    prompt_tokens: opt.PromptTokens = 512,
    max_tokens: opt.MaxTokens = 128,
    runs: opt.Runs = 5,
    warmup: opt.Warmup = 1,
    reuse: opt.Reuse = False,
    route: opt.RouteChoice = "completions",
    pid: opt.Pid = None,
    as_json: opt.AsJson = False,
    raw: opt.Raw = None,
    timeout: opt.Timeout = 300.0,
    quiet: opt.Quiet = None,
    time_limit: opt.TimeLimit = 1800.0,
    pause: opt.Pause = 0.0,
    api_key: opt.ApiKey = "",
) -> None:
    """Measure one server from outside. Exit code 7 when the time limit cut it short."""
    if context.invoked_subcommand is not None:
        return
    levels = parse_clients(clients)
    plan = Plan(levels, prompt_tokens, max_tokens, runs, warmup, reuse, quiet=quiet, time_limit=time_limit)
    address = parse_endpoint(url, api_key=api_key)
    _check_quiet(quiet, pid)

    async def sides() -> list[Side]:
        return [Side("server", await find_target(address, model, route=route, timeout=timeout), pid or [])]

    facts = machine_facts()
    (side,), complete = asyncio.run(_measure(sides(), plan, facts, raw, pause))
    if as_json:
        _emit_json(facts, plan, complete, [side])
    else:
        emit(clean(f"{facts_line(facts)}\n{side_table(side, plan)}"))
    if not complete:
        raise typer.Exit(ExitCode.CHECK)


@app.command("compare")
def compare_servers(
    left: opt.Left,
    right: opt.Right,
    left_model: opt.LeftModel = None,
    right_model: opt.RightModel = None,
    left_name: opt.LeftName = "left",
    right_name: opt.RightName = "right",
    left_pid: opt.LeftPid = None,
    right_pid: opt.RightPid = None,
    clients: opt.Clients = "1,4",
    prompt_tokens: opt.PromptTokens = 512,
    max_tokens: opt.MaxTokens = 128,
    runs: opt.Runs = 5,
    warmup: opt.Warmup = 1,
    reuse: opt.Reuse = False,
    route: opt.RouteChoice = "completions",
    min_decode: opt.MinDecode = None,
    min_aggregate: opt.MinAggregate = None,
    max_ttft: opt.MaxTtft = None,
    max_memory: opt.MaxMemory = None,
    as_json: opt.AsJson = False,
    raw: opt.Raw = None,
    timeout: opt.Timeout = 300.0,
    quiet: opt.Quiet = None,
    time_limit: opt.TimeLimit = 1800.0,
    pause: opt.Pause = 0.0,
    api_key: opt.ApiKey = "",
) -> None:
    """Measure two servers in turn (A B A B …): the ratio left / right of the medians of each figure.

    Exit code 7 when a bound is not kept, or when the time limit cut it short.
    """
    levels = parse_clients(clients)
    plan = Plan(levels, prompt_tokens, max_tokens, runs, warmup, reuse, quiet=quiet, time_limit=time_limit)
    ours = parse_endpoint(left, api_key=api_key, param="--left")
    theirs = parse_endpoint(right, api_key=api_key, param="--right")
    bounds = limits(plan, min_decode, min_aggregate, max_ttft, max_memory)
    if left_name == right_name:
        raise ConfigError("--left-name and --right-name are the same.", param="--right-name")
    _check_quiet(quiet, left_pid and right_pid)
    if max_memory is not None and not (left_pid and right_pid):
        raise ConfigError("--max-memory needs --left-pid and --right-pid.", param="--max-memory")

    async def sides() -> list[Side]:
        first = await find_target(ours, left_model, route=route, timeout=timeout)
        second = await find_target(theirs, right_model, route=route, timeout=timeout)
        return [Side(left_name, first, left_pid or []), Side(right_name, second, right_pid or [])]

    facts = machine_facts()
    measured, complete = asyncio.run(_measure(sides(), plan, facts, raw, pause))
    rows = compare(measured[0], measured[1], plan, bounds)
    good = complete and all(row.good is not False for row in rows)
    if as_json:
        _emit_json(facts, plan, complete, measured, rows=rows, good=good)
    else:
        emit(clean(f"{facts_line(facts)}\n{compare_table(rows, measured[0], measured[1], plan)}"))
    if not good:
        raise typer.Exit(ExitCode.CHECK)


def _check_quiet(quiet: float | None, pids: Sequence[int] | None) -> None:
    if quiet is not None and not pids:
        raise ConfigError(
            "--quiet needs the pids of every server, to tell their work apart.", param="--quiet"
        )


async def _measure(
    sides: Awaitable[Sequence[Side]], plan: Plan, facts: dict[str, Any], raw: Path | None, pause: float
) -> tuple[Sequence[Side], bool]:
    with open_raw(raw) as log:
        found = await sides
        log.conditions({"machine": facts, "plan": asdict(plan)})
        complete = await measure(found, plan, say=lambda line: say(clean(line)), pause=pause, on_run=log.run)
    return found, complete


def _emit_json(
    facts: dict[str, Any],
    plan: Plan,
    complete: bool,
    sides: Sequence[Side],
    *,
    rows: Sequence[Row] = (),
    good: bool | None = None,
) -> None:
    document: dict[str, Any] = {
        "machine": facts,
        "plan": asdict(plan),
        "complete": complete,
        "servers": [side.as_json(plan) for side in sides],
    }
    if good is not None:
        document |= {"comparison": [row.as_json() for row in rows], "good": good}
    emit_json(document)
