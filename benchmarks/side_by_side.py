"""meshllm beside llama-server: same source, same model, threads, context and slots, in turn on one machine.

    python -m benchmarks.side_by_side --model FILE.gguf [--llama-server PROGRAM] [--quiet 0.15 --runs 5 …]

Both listen on loopback. `meshllm bench compare` measures them (A B A B …) and ends with 7 when a bound is
not kept. What llama-server is given, and why:

  -c C×L -np L    C tokens for each of L slots, as `--ctx-size C --lanes L` is here
  -t T            as many threads
  --no-ui         no browser page; it would not be loaded here anyhow
  --cache-ram 0   without it the server copies the cache of every finished prompt aside, up to 8 GiB, which
                  costs it time and makes its memory grow with each of our prompts, none of which comes back.
                  `--peer-defaults` leaves it on.
  -kvu            only with `--peer-unified`: one cache for all slots, as here (its default without -np)
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peer import find_or_build
from benchmarks.programs import (
    MESHLLM,
    end_orderly_on_sigterm,
    free_ports,
    program,
    say,
    wait_until_it_answers,
)
from meshllm_core.config import KEYS
from meshllm_core.errors import MeshError, describe

BOUNDS = ("--min-decode", "0.95", "--min-aggregate", "0.90", "--max-ttft", "1.15", "--max-memory", "1.3")
_READY_SECONDS = 180.0
_SETTINGS = {key.variable for key in KEYS if not key.secret}
_RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Server:
    """A running server."""

    name: str
    url: str
    pid: int


def main() -> int:
    """Starts both, runs the comparison, ends both. Exit code of the comparison."""
    options, rest = _parser().parse_known_args()
    end_orderly_on_sigterm()
    try:
        with ExitStack() as stack:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="meshllm-bench-")))
            ours = _start_ours(stack, options, home)
            theirs = _start_peer(stack, options, home)
            raw = options.raw or _RESULTS / f"{time.strftime('%Y-%m-%dT%H%MZ', time.gmtime())}.jsonl"
            _note_setup(raw, options)
            command = _compare(ours, theirs, raw, rest)
            say(f"$ {shlex.join(command[len(MESHLLM) :])}")
            return subprocess.run([*command], check=False).returncode
    except MeshError as error:
        say(describe(error))
        return int(error.exit_code)


def _start_ours(stack: ExitStack, options: argparse.Namespace, home: Path) -> Server:
    port, console = free_ports(2)
    log = home / "meshllm.log"
    command = [
        *MESHLLM, "serve", "--headless", "--gguf", str(options.model), "--port", str(port),
        "--console", str(console), *_serve_flags(options),
    ]  # fmt: skip
    environ = {"MESHLLM_HOME": str(home / "home"), "MESHLLM_CALIBRATE": "false"}
    pid = stack.enter_context(program(command, log, environ))
    url = f"http://127.0.0.1:{port}/v1"
    wait_until_it_answers(url, seconds=_READY_SECONDS, log=log)
    say(f"meshllm at {url}, process {pid}")
    return Server("meshllm", url, pid)


def _start_peer(stack: ExitStack, options: argparse.Namespace, home: Path) -> Server:
    (port,) = free_ports(1)
    log = home / "llama-server.log"
    command = [
        str(find_or_build(options.llama_server)), "-m", str(options.model), "--alias", options.model.stem,
        "--host", "127.0.0.1", "--port", str(port), *_peer_flags(options),
    ]  # fmt: skip
    say(f"$ {shlex.join(['llama-server', *command[3:]])}")
    pid = stack.enter_context(program(command, log))
    url = f"http://127.0.0.1:{port}/v1"
    wait_until_it_answers(url, seconds=_READY_SECONDS, log=log)
    say(f"llama-server at {url}, process {pid}")
    return Server("llama-server", url, pid)


def _peer_flags(options: argparse.Namespace) -> list[str]:
    flags = [
        "-c",
        str(options.ctx_size * options.lanes),
        "-np",
        str(options.lanes),
        "-t",
        str(options.threads),
    ]
    flags += ["--no-ui"]
    flags += [] if options.peer_defaults else ["--cache-ram", "0"]
    return flags + (["-kvu"] if options.peer_unified else [])


def _serve_flags(options: argparse.Namespace) -> list[str]:
    flags = ["--ctx-size", str(options.ctx_size), "--lanes", str(options.lanes)]
    return [*flags, "--threads", str(options.threads), *shlex.split(options.serve_args)]


def _note_setup(raw: Path, options: argparse.Namespace) -> None:
    """First line of the raw file: what was compared. Names files, not where they lie."""
    line = {
        "kind": "setup",
        "model": options.model.name,
        "meshllm": _serve_flags(options),
        "llama-server": _peer_flags(options),
        # The node reads these as its settings, so they belong to what was compared.
        "environment": {name: os.environ[name] for name in sorted(os.environ) if name in _SETTINGS},
    }
    raw.parent.mkdir(parents=True, exist_ok=True)
    with raw.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _compare(ours: Server, theirs: Server, raw: Path, rest: list[str]) -> list[str]:
    """The command that compares; `rest` (further options of it) wins over the bounds of the issue."""
    return [
        *MESHLLM, "bench", "compare",
        "--left", ours.url, "--left-name", ours.name, "--left-pid", str(ours.pid),
        "--right", theirs.url, "--right-name", theirs.name, "--right-pid", str(theirs.pid),
        *BOUNDS, "--raw", str(raw), *rest,
    ]  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.side_by_side",
        description="meshllm beside llama-server. Options that are not listed go to `meshllm bench compare`.",
        allow_abbrev=False,
    )
    parser.add_argument("--model", type=Path, required=True, help="the .gguf that both serve")
    parser.add_argument(
        "--llama-server", type=Path, help="a built llama-server; built into the cache if left out"
    )
    parser.add_argument("--ctx-size", type=int, default=2048, help="tokens per lane (default 2048)")
    parser.add_argument("--lanes", type=int, default=4, help="lanes or slots (default 4)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each engine (default 2)")
    parser.add_argument(
        "--raw", type=Path, help="file for every request's figures (default: a new one in benchmarks/results)"
    )
    parser.add_argument("--serve-args", default="", help="further options of `meshllm serve`, as one text")
    parser.add_argument("--peer-defaults", action="store_true", help="leave llama-server's prompt cache on")
    parser.add_argument(
        "--peer-unified", action="store_true", help="llama-server with one cache for all slots"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
