"""`meshllm bench split`: two stages over delayed links, beside one machine and beside llama.cpp's RPC."""

import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Literal

import typer

from meshllm_core.bench.machine import machine_facts
from meshllm_core.bench.raw import open_raw
from meshllm_core.bench.render import facts_line
from meshllm_core.bench.split import run_split
from meshllm_core.bench.split_figures import figures_table
from meshllm_core.bench.split_peer import check_programs
from meshllm_core.bench.split_plan import SplitPlan, parse_delays, parse_parts
from meshllm_core.cli import bench_options as opt
from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.output import clean, emit, emit_json
from meshllm_core.errors import ExitCode, ModelNotFound
from meshllm_core.models.embedded import embedded_model

Model = Annotated[
    Path | None, typer.Option("--model", help="A .gguf file; left out: the one that comes with meshllm.")
]
Delays = Annotated[str, typer.Option("--delays", help="Milliseconds one way, as 0,5,10,40.")]
Only = Annotated[str, typer.Option("--only", help="Parts: decode, clients, prefill, quic, memory.")]
Runs = Annotated[int, typer.Option("--runs", help="Measured runs of each.", min=1, max=100)]
MaxTokens = Annotated[
    int, typer.Option("--max-tokens", help="Tokens to generate per request.", min=2, max=4096)
]
PrefillTokens = Annotated[
    int, typer.Option("--prefill-tokens", help="Length of the long prompt.", min=1, max=131_072)
]
Threads = Annotated[int, typer.Option("--threads", help="Threads of each engine.", min=1, max=256)]
WireDtype = Annotated[
    Literal["auto", "f32", "f16", "bf16", "q8", "q8x"],
    typer.Option("--wire-dtype", help="Number format between the stages."),
]
RpcPrograms = Annotated[
    Path | None,
    typer.Option("--rpc-bin", help="Directory with llama-server and ggml-rpc-server, to measure them too."),
]


def split(
    model: Model = None,
    delays: Delays = "0,5,10,40",
    only: Only = "decode,clients,prefill,quic,memory",
    runs: Runs = 5,
    max_tokens: MaxTokens = 64,
    prefill_tokens: PrefillTokens = 2048,
    threads: Threads = 1,
    wire_dtype: WireDtype = "f32",
    rpc_bin: RpcPrograms = None,
    quiet: opt.Quiet = None,
    time_limit: opt.TimeLimit = 1800.0,
    raw: opt.Raw = None,
    as_json: opt.AsJson = False,
) -> None:
    """Measure a model that is split over two machines, on links with a delay that it makes itself.

    Real nodes in network namespaces (Linux; root rights or user namespaces). Exit code 7 when a bound is not
    kept, or when the time limit cut it short.
    """
    path = (model or embedded_model()).absolute()
    if not path.is_file():
        raise ModelNotFound(f"{str(path)!r} is no file.", hint="Give --model a .gguf file.")
    plan = SplitPlan(
        path,
        parse_parts(only),
        parse_delays(delays),
        runs=runs,
        max_tokens=max_tokens,
        prefill_tokens=prefill_tokens,
        prefill_runs=min(runs, 3),
        threads=threads,
        wire_dtype=wire_dtype,
        rpc_programs=rpc_bin.absolute() if rpc_bin else None,
        quiet=quiet,
        time_limit=time_limit,
    )
    if plan.rpc_programs is not None:
        check_programs(plan.rpc_programs)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    facts = machine_facts()
    with open_raw(raw) as log, tempfile.TemporaryDirectory(prefix="meshllm-bench-") as folder:
        log.conditions({"machine": facts})
        figures, complete = run_split(plan, Path(folder), log, lambda line: say(clean(line)))
    good = complete and all(figure.good is not False for figure in figures)
    if as_json:
        rows = [figure.as_json() for figure in figures]
        emit_json({"machine": facts, "model": path.name, "figures": rows, "complete": complete, "good": good})
    else:
        emit(clean(f"{facts_line(facts)}\n{path.name}\n\n{figures_table(figures)}"))
    if not good:
        raise typer.Exit(ExitCode.CHECK)
