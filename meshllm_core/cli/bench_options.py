"""The options that `meshllm bench` and `meshllm bench compare` share, and the bounds only the second has."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Route = Literal["completions", "chat"]

Clients = Annotated[str, typer.Option("--clients", help="Levels of concurrent clients, as 1,4.")]
PromptTokens = Annotated[int, typer.Option("--prompt-tokens", help="Length of each prompt in tokens.")]
MaxTokens = Annotated[int, typer.Option("--max-tokens", help="Tokens to generate per request.")]
Runs = Annotated[int, typer.Option("--runs", help="Measured runs per level.")]
Warmup = Annotated[int, typer.Option("--warmup", help="Unmeasured runs per level, before the others.")]
Reuse = Annotated[
    bool, typer.Option("--reuse", help="Prompts share all but their last 32 tokens: measures prefix reuse.")
]
RouteChoice = Annotated[Route, typer.Option("--route", help="Which kind of request to send.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Raw = Annotated[Path | None, typer.Option("--raw", help="Append every request's figures as JSON lines.")]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds that one request may take.", min=1)]
Quiet = Annotated[
    float | None,
    typer.Option(
        "--quiet", help="Repeat runs while other programs take more than this share of the processor."
    ),
]
TimeLimit = Annotated[float, typer.Option("--time-limit", help="Seconds after which no run is begun.")]
Pause = Annotated[float, typer.Option("--pause", help="Seconds of rest before each run.", min=0, max=60)]
ApiKey = Annotated[
    str,
    typer.Option("--api-key", envvar="MESHLLM_BENCH_API_KEY", help="Bearer token.", show_default=False),
]
Url = Annotated[str, typer.Option("--url", help="Base URL of the server.")]
Model = Annotated[str | None, typer.Option("--model", help="Model; may be left out where one is served.")]
Pid = Annotated[
    list[int] | None,
    typer.Option("--pid", help="Process whose memory (with its children) to measure; may be repeated."),
]

Left = Annotated[str, typer.Option("--left", help="Base URL of the server to judge.")]
Right = Annotated[str, typer.Option("--right", help="Base URL of the server to judge it by.")]
LeftModel = Annotated[str | None, typer.Option("--left-model", help="As --model of `bench`.")]
RightModel = Annotated[str | None, typer.Option("--right-model", help="As --model of `bench`.")]
LeftName = Annotated[str, typer.Option("--left-name", help="What the table calls it.")]
RightName = Annotated[str, typer.Option("--right-name", help="What the table calls it.")]
LeftPid = Annotated[list[int] | None, typer.Option("--left-pid", help="As --pid of `bench`.")]
RightPid = Annotated[list[int] | None, typer.Option("--right-pid", help="As --pid of `bench`.")]
MinDecode = Annotated[
    float | None, typer.Option("--min-decode", help="Least ratio of decode speed at the fewest clients.")
]
MinAggregate = Annotated[
    float | None, typer.Option("--min-aggregate", help="Least ratio of aggregate speed at the most clients.")
]
MaxTtft = Annotated[
    float | None, typer.Option("--max-ttft", help="Highest ratio of first-token time at the fewest clients.")
]
MaxMemory = Annotated[
    float | None, typer.Option("--max-memory", help="Highest ratio of peak memory; needs both sides' pids.")
]
